/* Tests of common/topo/topo_files.c: the same questions to a folder, to memory and to a recording. */
#include "tests/unit/common/topo/topo_testing.h"

#include "common/topo/topo_files.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[64];

static void put(const char *name, const char *text)
{
    char path[256];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", root, name);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int setup(void **state)
{
    char path[256];

    strcpy(root, "/tmp/braid_topo_files_XXXXXX");
    assert_non_null(mkdtemp(root));
    snprintf(path, sizeof(path), "%s/dir", root);
    assert_int_equal(mkdir(path, 0700), 0);
    put("dir/b", "2\n");
    put("dir/a", "0x10 \n");
    put("dir/.hidden", "");
    put("lines", "one\ntwo \\ three\n\n");
    snprintf(path, sizeof(path), "%s/link", root);
    assert_int_equal(symlink("../target/x", path), 0);
    return 0;
}

static int teardown(void **state)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -rf %s", root);
    return system(command);
}

static void check(struct braid_topo_files *f)
{
    char text[64], *names;

    assert_int_equal(braid_topo_files_read(f, "lines", text, sizeof(text)), 0);
    assert_string_equal(text, "one\ntwo \\ three");
    assert_int_equal(braid_topo_files_int(f, "dir/a", -1), 16);
    assert_int_equal(braid_topo_files_int(f, "dir/b", -1), 2);
    assert_int_equal(braid_topo_files_int(f, "lines", -1), -1);
    assert_int_equal(braid_topo_files_int(f, "none", -7), -7);
    assert_int_equal(braid_topo_files_read(f, "none", text, sizeof(text)), -ENOENT);
    assert_int_equal(braid_topo_files_link(f, "link", text, sizeof(text)), 0);
    assert_string_equal(text, "../target/x");
    assert_int_equal(braid_topo_files_link(f, "none", text, sizeof(text)), -ENOENT);
    assert_int_equal(braid_topo_files_list(f, "dir", &names), 0);
    assert_string_equal(names, "a");
    assert_string_equal(names + 2, "b");
    assert_string_equal(names + 4, "");
    free(names);
    assert_int_equal(braid_topo_files_list(f, "none", &names), -ENOENT);
    braid_topo_files_destroy(f);
}

static void a_folder(void **state)
{
    check(braid_topo_files_folder(root));
}

static void memory(void **state)
{
    struct braid_topo_files *f = braid_topo_files_memory();
    char *names;

    braid_topo_files_add(f, 'f', "lines", "one\ntwo \\ three");
    braid_topo_files_add(f, 'f', "dir/a", "0x10");
    braid_topo_files_add(f, 'f', "dir/b", "2");
    braid_topo_files_add(f, 'l', "link", "../target/x");
    braid_topo_files_add(f, 'd', "dir", "a b");
    braid_topo_files_add(f, 'd', "empty", "");
    braid_topo_files_add(f, 'd', "blanks", "  a   b  ");
    assert_int_equal(braid_topo_files_list(f, "empty", &names), 0);
    assert_string_equal(names, "");
    free(names);
    assert_int_equal(braid_topo_files_list(f, "blanks", &names), 0);
    assert_string_equal(names, "a");
    assert_string_equal(names + 2, "b");
    free(names);
    check(f);
}

static void a_recording_lists_each_answer_once(void **state)
{
    struct braid_topo_files *f = braid_topo_files_folder(root);
    char *text = NULL, value[64], *names;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);

    braid_topo_files_record(f, out);
    for (int i = 0; i < 2; i++) {
        braid_topo_files_read(f, "lines", value, sizeof(value));
        braid_topo_files_read(f, "none", value, sizeof(value));
        braid_topo_files_link(f, "link", value, sizeof(value));
        braid_topo_files_list(f, "dir", &names);
        free(names);
    }
    fclose(out);
    assert_string_equal(text,
                        "file lines one\\ntwo \\\\ three\nlink link ../target/x\ndir dir a b\n");
    free(text);
    braid_topo_files_destroy(f);
    braid_topo_files_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder),
        cmocka_unit_test(memory),
        cmocka_unit_test(a_recording_lists_each_answer_once),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
