/*
 * Options, lists and profiles for all sub-commands of braid-tune; messages go to stderr. See tune.h.
 */
#include "tools/braid-tune/tune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/units.h"
#include "tuner-plugin/machine.h"

static const struct tune_option *find_option(const char *name, const struct tune_option *options,
                                             size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!strcmp(name, options[i].name))
            return &options[i];
    }
    return NULL;
}

int tune_options(int argc, char **argv, const struct tune_option *options, size_t count,
                 const char **words, int max)
{
    int found = 0;

    for (int i = 1; i < argc; i++) {
        const struct tune_option *option = find_option(argv[i], options, count);

        if (option && option->flag_p) {
            *option->flag_p = true;
        } else if (option && i + 1 < argc) {
            *option->value_p = argv[++i];
        } else if (!strncmp(argv[i], "--", 2)) {
            fprintf(stderr, "braid-tune: %s %s\n",
                    option ? "a value is missing after" : "unknown option", argv[i]);
            return -1;
        } else if (found == max) {
            fprintf(stderr, "braid-tune: one word too many: %s\n", argv[i]);
            return -1;
        } else {
            words[found++] = argv[i];
        }
    }
    return found;
}

static int size_range(const char *text, uint64_t *sizes, int max)
{
    char from_text[32], to_text[32];
    int64_t from, to;
    int factor = 4, count = 0;

    if (sscanf(text, "%31[^:]:%31[^:]:x%d", from_text, to_text, &factor) < 2 ||
        braid_parse_bytes(from_text, &from) || braid_parse_bytes(to_text, &to) || from < 1 ||
        to < from || factor < 2)
        return -1;
    for (int64_t size = from; size <= to && count < max; size *= factor)
        sizes[count++] = (uint64_t)size;
    return count;
}

int tune_sizes(const char *text, uint64_t *sizes, int max)
{
    int count = 0;

    if (strchr(text, ':'))
        return size_range(text, sizes, max);
    while (*text) {
        size_t length = strcspn(text, ",");
        char word[32];
        int64_t bytes;

        if (length >= sizeof(word) || count == max)
            return -1;
        memcpy(word, text, length);
        word[length] = 0;
        if (braid_parse_bytes(word, &bytes) || bytes < 1)
            return -1;
        sizes[count++] = (uint64_t)bytes;
        text += length + (text[length] == ',');
    }
    return count;
}

int tune_numbers(const char *text, int *numbers, int max)
{
    uint64_t sizes[64];
    int count = tune_sizes(text, sizes, max < 64 ? max : 64);

    for (int i = 0; i < count; i++) {
        if (sizes[i] > 1u << 30)
            return -1;
        numbers[i] = (int)sizes[i];
    }
    return count;
}

int tune_profile(const char *name, struct braid_profile *profile)
{
    struct braid_profile_error error;
    char dirs[2048];
    int rc;

    /* A file of the current folder may go by its name alone. */
    if (strstr(name, ".profile") && !access(name, R_OK))
        rc = braid_profile_read(name, profile, &error);
    else
        rc = braid_profile_find(name, braid_profile_dirs(dirs, sizeof(dirs)), profile, &error);
    if (rc && error.line)
        fprintf(stderr, "braid-tune: profile %s:%d: %s\n", error.file, error.line, error.text);
    else if (rc)
        fprintf(stderr, "braid-tune: profile %s: %s\n", error.file, error.text);
    return rc ? -1 : 0;
}
