/*
 * Captures: what sysfs and NVML said on a machine, line by line, so that a bug report becomes a test.
 *
 *   braid-topo-capture 1
 *   file PATH TEXT     a file of sysfs (or proc/cpuinfo); \n is a line break, \\ a backslash
 *   link PATH TARGET   a symbolic link
 *   dir PATH NAMES     names in a folder
 *   nvml present
 *   gpu BUSID key=value ...        index device sm gen width speed version c2c c2cspeed fabric name
 *   peer BUSID TYPE LINKS [BUSID]  NVLinks of a GPU: type gpu, switch or cpu
 * Lines that begin with # are comments. Loading runs the same code as on a live machine.
 */
#include "common/topo/topo_live.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct capture {
    struct braid_topo_files *files;
    struct braid_topo_nvml nvml;
    const char *name;
    int line;
    struct braid_topo_error *error;
};

static void write_nvml(const struct braid_topo_nvml *nvml, FILE *out)
{
    if (nvml->present)
        fprintf(out, "nvml present\n");
    for (int i = 0; i < nvml->count; i++) {
        const struct braid_topo_nvml_gpu *g = &nvml->gpus[i];

        fprintf(out,
                "gpu %s index=%d device=0x%x sm=%d gen=%d width=%d speed=%d version=%d c2c=%d "
                "c2cspeed=%d",
                g->busid, g->index, g->pci_device > 0 ? (unsigned)g->pci_device : 0, g->sm,
                g->pcie_gen, g->pcie_width, g->link_MBps, g->link_version, g->c2c_links,
                g->c2c_MBps);
        if (g->fabric[0] != '\0')
            fprintf(out, " fabric=%s", g->fabric);
        fprintf(out, " name=");
        for (const char *p = g->name; *p != '\0'; p++)
            fputc(*p <= ' ' ? '_' : *p, out);
        fputc('\n', out);
        for (int p = 0; p < g->peers; p++)
            fprintf(out, "peer %s %s %d%s%s\n", g->busid,
                    g->peer[p].type == 'g'   ? "gpu"
                    : g->peer[p].type == 'c' ? "cpu"
                                             : "switch",
                    g->peer[p].links, g->peer[p].busid[0] != '\0' ? " " : "", g->peer[p].busid);
    }
}

int braid_topo_capture(const struct braid_topo_live *live, FILE *out,
                       struct braid_topo_error *error)
{
    struct braid_topo *topo = braid_topo_new("live");
    struct braid_topo_files *files =
        braid_topo_files_folder(live != NULL ? live->sysfs_root : NULL);
    char text[1024] = "", *line, *rest = text;
    struct braid_topo_notes notes = {text, sizeof(text)};
    struct braid_topo_nvml nvml = {0};
    int rc = -ENOMEM;

    if (topo != NULL && files != NULL) {
        fprintf(out, "braid-topo-capture 1\n");
        braid_topo_files_record(files, out);
        rc = braid_topo_sysfs(topo, files, &notes);
    }
    if (rc == 0 && (live == NULL || live->use == 0 || (live->use & BRAID_TOPO_USE_NVML) != 0) &&
        braid_topo_nvml_ask(&nvml, live != NULL ? live->nvml_path : NULL, &notes) == 0)
        write_nvml(&nvml, out);
    while ((line = strsep(&rest, "\n")) != NULL)
        if (line[0] != '\0')
            fprintf(out, "# %s\n", line);
    braid_topo_nvml_free(&nvml);
    braid_topo_files_destroy(files);
    braid_topo_destroy(topo);
    if (rc == 0 && ferror(out))
        rc = -EIO;
    return rc == 0 ? 0 : braid_topo_fail(error, rc, "this machine", 0, 0, "%s", strerror(-rc));
}

static int bad(struct capture *c, const char *expected, const char *found)
{
    return braid_topo_fail(c->error, -EINVAL, c->name, c->line, 0, "expected %s, found \"%.48s\"",
                           expected, found != NULL ? found : "");
}

/* \n and \\ back to what they stand for, in place. */
static void unescape(char *text)
{
    char *to = text;

    for (const char *from = text; *from != '\0'; from++) {
        if (*from == '\\' && from[1] != '\0')
            *to++ = *++from == 'n' ? '\n' : *from;
        else
            *to++ = *from;
    }
    *to = '\0';
}

static int read_tree(struct capture *c, char kind, char *rest)
{
    char *path = strsep(&rest, " ");
    int rc;

    if (path == NULL || path[0] == '\0')
        return bad(c, "a path", path);
    if (rest != NULL)
        unescape(rest);
    rc = braid_topo_files_add(c->files, kind, path, rest != NULL ? rest : "");
    return rc == 0 ? 0 : braid_topo_fail(c->error, rc, c->name, c->line, 0, "%s", strerror(-rc));
}

static struct braid_topo_nvml_gpu *find_gpu(struct capture *c, const char *text)
{
    char busid[BRAID_TOPO_BUSID_LEN];

    if (text == NULL || !braid_topo_busid(text, busid))
        return NULL;
    for (int i = 0; i < c->nvml.count; i++)
        if (strcmp(c->nvml.gpus[i].busid, busid) == 0)
            return &c->nvml.gpus[i];
    return NULL;
}

static int read_pair(struct capture *c, struct braid_topo_nvml_gpu *g, char *word)
{
    const struct {
        const char *key;
        int *value;
        long most;
    } numbers[] = {
        {"index", &g->index, 4096},
        {"device", &g->pci_device, 0xffff},
        {"sm", &g->sm, 1000},
        {"gen", &g->pcie_gen, 16},
        {"width", &g->pcie_width, 32},
        {"speed", &g->link_MBps, 1000000},
        {"version", &g->link_version, 1000},
        {"c2c", &g->c2c_links, 64},
        {"c2cspeed", &g->c2c_MBps, 1000000},
    };
    char *value = word, *key = strsep(&value, "="), *end;

    if (value == NULL)
        return bad(c, "key=value", word);
    if (strcmp(key, "fabric") == 0)
        braid_topo_copy(g->fabric, sizeof(g->fabric), value);
    else if (strcmp(key, "name") == 0)
        braid_topo_copy(g->name, sizeof(g->name), value);
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
        char expected[48];
        long number;

        if (strcmp(key, numbers[i].key) != 0)
            continue;
        errno = 0;
        number = strtol(value, &end, 0);
        if (errno != 0 || end == value || *end != '\0' || number < -1 || number > numbers[i].most) {
            snprintf(expected, sizeof(expected), "a number from -1 to %ld", numbers[i].most);
            return bad(c, expected, value);
        }
        *numbers[i].value = (int)number;
    }
    return 0; /* keys of later versions are skipped */
}

static int read_gpu(struct capture *c, char *rest)
{
    char busid[BRAID_TOPO_BUSID_LEN], *word = strsep(&rest, " ");
    struct braid_topo_nvml_gpu *g;
    int rc = 0;

    if (word == NULL || !braid_topo_busid(word, busid))
        return bad(c, "the bus id of a GPU", word);
    if (find_gpu(c, busid) != NULL)
        return bad(c, "each GPU once", word);
    g = braid_topo_nvml_add(&c->nvml);
    if (g == NULL)
        return braid_topo_fail(c->error, -E2BIG, c->name, c->line, 0, "expected at most 256 GPUs");
    memcpy(g->busid, busid, sizeof(busid));
    while (rc == 0 && (word = strsep(&rest, " ")) != NULL)
        if (word[0] != '\0')
            rc = read_pair(c, g, word);
    return rc;
}

static int read_peer(struct capture *c, char *rest)
{
    struct braid_topo_nvml_gpu *g = find_gpu(c, strsep(&rest, " "));
    const char *type = strsep(&rest, " "), *links = strsep(&rest, " "), *busid = rest;
    char *end;
    long count;

    if (g == NULL)
        return bad(c, "the bus id of a GPU of an earlier line", NULL);
    if (type == NULL ||
        (strcmp(type, "gpu") != 0 && strcmp(type, "switch") != 0 && strcmp(type, "cpu") != 0))
        return bad(c, "gpu, switch or cpu", type);
    count = links != NULL ? strtol(links, &end, 10) : 0;
    if (links == NULL || *end != '\0' || count < 1 || count > 1024)
        return bad(c, "a number of links from 1 to 1024", links);
    if (g->peers == BRAID_TOPO_NVML_PEERS)
        return bad(c, "at most 40 peers of a GPU", NULL);
    g->peer[g->peers].type = type[0];
    g->peer[g->peers].links = (int)count;
    if (busid != NULL && !braid_topo_busid(busid, g->peer[g->peers].busid))
        return bad(c, "a bus id or nothing", busid);
    g->peers++;
    return 0;
}

static int read_line(struct capture *c, char *line)
{
    char *rest = line, *word = strsep(&rest, " ");

    if (word[0] == '#' || word[0] == '\0')
        return 0;
    if (strcmp(word, "file") == 0 || strcmp(word, "link") == 0 || strcmp(word, "dir") == 0)
        return read_tree(c, word[0], rest);
    if (strcmp(word, "gpu") == 0)
        return read_gpu(c, rest);
    if (strcmp(word, "peer") == 0)
        return read_peer(c, rest);
    if (strcmp(word, "nvml") != 0)
        return bad(c, "file, link, dir, nvml, gpu or peer", word);
    c->nvml.present = true;
    return 0;
}

static int read_lines(struct capture *c, char *text)
{
    char *line;
    int rc = 0;

    while (rc == 0 && (line = strsep(&text, "\n")) != NULL) {
        c->line++;
        if (c->line == 1 && strcmp(line, "braid-topo-capture 1") != 0)
            rc = bad(c, "braid-topo-capture 1 as the first line", line);
        else if (c->line > 1)
            rc = read_line(c, line);
    }
    return rc;
}

static int build(struct capture *c, struct braid_topo **out)
{
    struct braid_topo *topo = braid_topo_new("capture");
    struct braid_topo_notes none = {NULL, 0};
    int rc = topo == NULL ? -ENOMEM : braid_topo_sysfs(topo, c->files, &none);

    if (rc == 0)
        rc = braid_topo_nvml_apply(topo, &c->nvml, &none);
    if (rc != 0)
        braid_topo_fail(c->error, rc, c->name, 0, 0, "%s", strerror(-rc));
    else
        rc = braid_topo_finish(topo, c->error);
    if (rc != 0)
        braid_topo_destroy(topo);
    else
        *out = topo;
    return rc;
}

int braid_topo_parse_capture(const char *text, size_t bytes, const char *name,
                             struct braid_topo **out, struct braid_topo_error *error)
{
    struct capture c = {.files = braid_topo_files_memory(), .name = name, .error = error};
    char *copy = malloc(bytes + 1);
    int rc;

    if (c.files == NULL || copy == NULL) {
        rc = braid_topo_fail(error, -ENOMEM, name, 0, 0, "out of memory");
    } else {
        memcpy(copy, text, bytes);
        copy[bytes] = '\0';
        rc = read_lines(&c, copy);
    }
    if (rc == 0)
        rc = build(&c, out);
    free(copy);
    braid_topo_nvml_free(&c.nvml);
    braid_topo_files_destroy(c.files);
    return rc;
}

int braid_topo_load_capture(const char *path, struct braid_topo **out,
                            struct braid_topo_error *error)
{
    char *text;
    size_t bytes;
    int rc = braid_topo_slurp(path, &text, &bytes, error);

    if (rc != 0)
        return rc;
    rc = braid_topo_parse_capture(text, bytes, path, out, error);
    free(text);
    return rc;
}
