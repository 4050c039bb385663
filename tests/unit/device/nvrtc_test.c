/*
 * The device library compiles at run time with NVRTC, which knows no system headers: every call (calls.cu), for several architectures, the
 * building blocks (blocks.cu), and the kernel of the PyTorch example; without a warning. NVRTC comes with the CUDA toolkit and needs no
 * GPU.
 */
#include "tests/unit/cmocka_all.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef void *nvrtc_program;

static struct {
    int (*create)(nvrtc_program *, const char *, const char *, int, const char *const *,
                  const char *const *);
    int (*compile)(nvrtc_program, int, const char *const *);
    int (*log_size)(nvrtc_program, size_t *);
    int (*log)(nvrtc_program, char *);
    int (*cubin_size)(nvrtc_program, size_t *);
    int (*destroy)(nvrtc_program *);
    int (*version)(int *, int *);
} nvrtc;

static int newest; /* major version of NVRTC: which GPUs it knows */

static void *open_nvrtc(void)
{
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
                                        "/usr/local/cuda/lib64/libnvrtc.so"};
    void *library = NULL;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && library == NULL; i++)
        library = dlopen(names[i], RTLD_NOW);
    return library;
}

static void find(void *library, const char *name, void *where)
{
    void *symbol = dlsym(library, name);

    assert_non_null(symbol);
    memcpy(where, &symbol, sizeof(symbol));
}

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text = calloc(1, 1 << 20);

    assert_non_null(f);
    assert_true(fread(text, 1, (1 << 20) - 1, f) > 0);
    fclose(f);
    return text;
}

static char *read_tree(const char *name)
{
    char path[600];

    snprintf(path, sizeof(path), "%s/%s", getenv("BRAID_SOURCE_TREE"), name);
    return read_file(path);
}

static void compile(const char *source, const char *arch)
{
    char include[600];
    const char *options[] = {arch, "-std=c++17", include, "-default-device"};
    nvrtc_program program;
    size_t log_bytes = 0, cubin_bytes = 0;
    char *log;
    int rc;

    snprintf(include, sizeof(include), "-I%s/include", getenv("BRAID_SOURCE_TREE"));
    assert_int_equal(nvrtc.create(&program, source, "calls.cu", 0, NULL, NULL), 0);
    rc = nvrtc.compile(program, 3, options);
    nvrtc.log_size(program, &log_bytes);
    log = calloc(1, log_bytes + 1);
    nvrtc.log(program, log);
    if (rc != 0 || strlen(log) > 1)
        print_message("%s: %s\n", arch, log);
    assert_int_equal(rc, 0);
    assert_true(strlen(log) <= 1);
    assert_int_equal(nvrtc.cubin_size(program, &cubin_bytes), 0);
    assert_true(cubin_bytes > 1000);
    free(log);
    nvrtc.destroy(&program);
}

static void test_every_call(void **state)
{
    char *source = read_tree("tests/unit/device/calls.cu");

    compile(source, "--gpu-architecture=sm_90a");
    compile(source, "--gpu-architecture=sm_80");
    if (newest >= 13) {
        compile(source, "--gpu-architecture=sm_100");
        compile(source, "--gpu-architecture=sm_120");
    }
    free(source);
}

static void test_blocks(void **state)
{
    char *source = read_tree("tests/unit/device/blocks.cu");

    compile(source, "--gpu-architecture=sm_90a");
    if (newest >= 13)
        compile(source, "--gpu-architecture=sm_100");
    free(source);
}

/* What stands between SOURCE = r""" and the next three quotes. */
static void test_example(void **state)
{
    char *file = read_tree("device/examples/03_pytorch_ctypes/neighbour_sum.py");
    char *begin = strstr(file, "SOURCE = r\"\"\""), *end;

    assert_non_null(begin);
    begin += strlen("SOURCE = r\"\"\"");
    end = strstr(begin, "\"\"\"");
    assert_non_null(end);
    *end = '\0';
    compile(begin, "--gpu-architecture=sm_90");
    compile(begin, "--gpu-architecture=sm_80");
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_call),
                                       cmocka_unit_test(test_blocks),
                                       cmocka_unit_test(test_example)};
    void *library = open_nvrtc();
    int minor;

    if (library == NULL || getenv("BRAID_SOURCE_TREE") == NULL) {
        printf("skipped: %s\n", library == NULL ? "no libnvrtc" : "BRAID_SOURCE_TREE is not set");
        return 77;
    }
    find(library, "nvrtcCreateProgram", &nvrtc.create);
    find(library, "nvrtcCompileProgram", &nvrtc.compile);
    find(library, "nvrtcGetProgramLogSize", &nvrtc.log_size);
    find(library, "nvrtcGetProgramLog", &nvrtc.log);
    find(library, "nvrtcGetCUBINSize", &nvrtc.cubin_size);
    find(library, "nvrtcDestroyProgram", &nvrtc.destroy);
    find(library, "nvrtcVersion", &nvrtc.version);
    nvrtc.version(&newest, &minor);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
