/* See topo_files.h. A capture's lines are kept in a list that is searched from the front. */
#include "common/topo/topo_files.h"

#include "common/topo/topo_build.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_TEXT    4096
#define MAX_ENTRIES 65536

struct entry {
    char kind;
    char *path;
    char *value;
};

struct braid_topo_files {
    char *root;            /* NULL: in memory */
    bool system;           /* root is this machine's /sys */
    struct entry *entries; /* in memory: the content; else what was recorded */
    int count, room;
    FILE *record;
};

struct braid_topo_files *braid_topo_files_memory(void)
{
    return calloc(1, sizeof(struct braid_topo_files));
}

struct braid_topo_files *braid_topo_files_folder(const char *root)
{
    struct braid_topo_files *files = braid_topo_files_memory();

    if (files == NULL)
        return NULL;
    files->system = root == NULL || root[0] == '\0' || strcmp(root, "/sys") == 0;
    files->root = strdup(files->system ? "/sys" : root);
    if (files->root == NULL) {
        free(files);
        return NULL;
    }
    return files;
}

void braid_topo_files_destroy(struct braid_topo_files *files)
{
    if (files == NULL)
        return;
    for (int i = 0; i < files->count; i++) {
        free(files->entries[i].path);
        free(files->entries[i].value);
    }
    free(files->entries);
    free(files->root);
    free(files);
}

void braid_topo_files_record(struct braid_topo_files *files, FILE *out)
{
    files->record = out;
}

static const char *find(const struct braid_topo_files *files, char kind, const char *path)
{
    for (int i = 0; i < files->count; i++)
        if (files->entries[i].kind == kind && strcmp(files->entries[i].path, path) == 0)
            return files->entries[i].value;
    return NULL;
}

int braid_topo_files_add(struct braid_topo_files *files, char kind, const char *path,
                         const char *value)
{
    struct entry entry = {kind, strdup(path), strdup(value)};

    if (files->count == files->room && files->room < MAX_ENTRIES) {
        int room = files->room ? files->room * 2 : 256;
        struct entry *grown = realloc(files->entries, (size_t)room * sizeof(*grown));

        if (grown != NULL) {
            files->entries = grown;
            files->room = room;
        }
    }
    if (files->count == files->room || entry.path == NULL || entry.value == NULL) {
        free(entry.path);
        free(entry.value);
        return files->count >= MAX_ENTRIES ? -E2BIG : -ENOMEM;
    }
    files->entries[files->count++] = entry;
    return 0;
}

/* Writes an answer as a line of a capture; a line break inside becomes \n, a backslash \\. */
static void record(struct braid_topo_files *files, char kind, const char *path, const char *value)
{
    static const char *const words[] = {"file", "link", "dir"};

    if (files->record == NULL || find(files, kind, path) != NULL ||
        braid_topo_files_add(files, kind, path, "") != 0)
        return;
    fprintf(files->record, "%s %s ", words[kind == 'f' ? 0 : kind == 'l' ? 1 : 2], path);
    for (const char *p = value; *p != '\0'; p++) {
        if (*p == '\n')
            fputs("\\n", files->record);
        else if (*p == '\\')
            fputs("\\\\", files->record);
        else
            fputc((unsigned char)*p < 0x20 && *p != '\t' ? ' ' : *p, files->record);
    }
    fputc('\n', files->record);
}

static void full_path(const struct braid_topo_files *files, const char *path, char *out,
                      size_t size)
{
    if (files->system && strncmp(path, "proc/", 5) == 0)
        snprintf(out, size, "/%s", path);
    else
        snprintf(out, size, "%s/%s", files->root, path);
}

static void trim(char *text)
{
    size_t length = strlen(text);

    while (length > 0 && isspace((unsigned char)text[length - 1]))
        text[--length] = '\0';
}

static int read_file(const struct braid_topo_files *files, const char *path, char *out, size_t size)
{
    char full[MAX_TEXT];
    ssize_t got;
    int fd, rc = 0;

    full_path(files, path, full, sizeof(full));
    fd = open(full, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    got = read(fd, out, size - 1); /* such files come in one piece */
    if (got < 0)
        rc = -errno;
    close(fd);
    out[MAX(got, 0)] = '\0';
    return rc;
}

int braid_topo_files_read(struct braid_topo_files *files, const char *path, char *out, size_t size)
{
    const char *value;
    int rc;

    if (files->root == NULL) {
        value = find(files, 'f', path);
        if (value == NULL)
            return -ENOENT;
        braid_topo_copy(out, size, value);
        return 0;
    }
    rc = read_file(files, path, out, size);
    if (rc != 0)
        return rc;
    trim(out);
    record(files, 'f', path, out);
    return 0;
}

long braid_topo_files_int(struct braid_topo_files *files, const char *path, long missing)
{
    char text[64], *end;
    long value;

    if (braid_topo_files_read(files, path, text, sizeof(text)) != 0)
        return missing;
    errno = 0;
    value = strtol(text, &end, 0);
    return errno != 0 || end == text || *end != '\0' ? missing : value;
}

int braid_topo_files_link(struct braid_topo_files *files, const char *path, char *out, size_t size)
{
    char full[MAX_TEXT];
    const char *value;
    ssize_t got;

    if (files->root == NULL) {
        value = find(files, 'l', path);
        if (value == NULL)
            return -ENOENT;
        braid_topo_copy(out, size, value);
        return 0;
    }
    full_path(files, path, full, sizeof(full));
    got = readlink(full, out, size - 1);
    if (got < 0)
        return -errno;
    out[got] = '\0';
    record(files, 'l', path, out);
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Joins `count` names with `separator` behind each, sorted; takes ownership of the names. */
static char *join(char **names, int count, char separator)
{
    size_t bytes = 2;
    char *out, *p;

    qsort(names, (size_t)count, sizeof(*names), by_name);
    for (int i = 0; i < count; i++)
        bytes += strlen(names[i]) + 1;
    out = p = calloc(1, bytes);
    for (int i = 0; i < count; i++) {
        if (out != NULL) {
            p = stpcpy(p, names[i]);
            *p++ = separator;
        }
        free(names[i]);
    }
    return out;
}

static int list_folder(const struct braid_topo_files *files, const char *path, char **out)
{
    char full[MAX_TEXT], **names = NULL;
    int count = 0, room = 0;
    struct dirent *entry;
    DIR *dir;

    full_path(files, path, full, sizeof(full));
    dir = opendir(full);
    if (dir == NULL)
        return -errno;
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        if (count == room) {
            char **grown = realloc(names, (size_t)(room + 64) * sizeof(*names));

            if (grown == NULL)
                break;
            names = grown;
            room += 64;
        }
        names[count] = strdup(entry->d_name);
        count += names[count] != NULL;
    }
    closedir(dir);
    *out = join(names, count, ' ');
    free(names);
    return *out == NULL ? -ENOMEM : 0;
}

int braid_topo_files_list(struct braid_topo_files *files, const char *path, char **out)
{
    const char *value = files->root == NULL ? find(files, 'd', path) : NULL;
    char *names = NULL, *to;
    int rc = 0;

    if (files->root != NULL)
        rc = list_folder(files, path, &names);
    else if (value == NULL)
        rc = -ENOENT;
    else if ((names = calloc(1, strlen(value) + 2)) == NULL)
        rc = -ENOMEM;
    else
        memcpy(names, value, strlen(value));
    if (rc != 0)
        return rc;
    trim(names);
    if (files->root != NULL)
        record(files, 'd', path, names);
    /* Single blanks become the ends of names; join() and calloc() left room for the last two. */
    to = names;
    for (const char *from = names; *from != '\0'; from++)
        if (*from != ' ' || (to > names && to[-1] != '\0'))
            *to++ = *from == ' ' ? '\0' : *from;
    *to = '\0';
    if (to > names)
        to[1] = '\0';
    *out = names;
    return 0;
}
