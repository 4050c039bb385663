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

static bool help_wanted;

static int bad_value(const struct tune_option *option, const char *text)
{
    fprintf(stderr, "braid-tune: %s: expected a %s from %g to %g, found '%s'\n", option->name,
            option->int_p ? "whole number" : "number", option->min, option->max, text);
    return -1;
}

static int take_value(const struct tune_option *option, const char *text)
{
    int64_t number;
    char *end;

    if (option->text_p) {
        *option->text_p = text;
    } else if (option->int_p) {
        if (braid_parse_int(text, &number) || (double)number < option->min ||
            (double)number > option->max)
            return bad_value(option, text);
        *option->int_p = (int)number;
    } else {
        *option->real_p = strtod(text, &end);
        if (end == text || *end ||
            !(*option->real_p >= option->min && *option->real_p <= option->max))
            return bad_value(option, text);
    }
    return 0;
}

int tune_options(int argc, char **argv, const struct tune_option *options, size_t count,
                 const char **words, int max)
{
    int found = 0;

    for (int i = 1; i < argc; i++) {
        const struct tune_option *option = find_option(argv[i], options, count);

        if (!strcmp(argv[i], "--help")) {
            help_wanted = true;
            return -1;
        }
        if (option && option->flag_p) {
            *option->flag_p = true;
        } else if (option && i + 1 < argc) {
            if (take_value(option, argv[++i]))
                return -1;
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

int tune_usage(const char *usage)
{
    fputs(usage, help_wanted ? stdout : stderr);
    return help_wanted ? 0 : 2;
}

int tune_colls(const char *text, int *colls)
{
    int count = 0;

    while (*text) {
        size_t length = strcspn(text, ",");
        char word[32];
        int coll;

        snprintf(word, sizeof(word), "%.*s", (int)length, text);
        coll = braid_kind_find(braid_coll_names, BRAID_COLLS, word);
        for (int i = 0; i < count && coll >= 0; i++)
            coll = colls[i] == coll ? -1 : coll;
        if (coll < 0) {
            fprintf(stderr, "braid-tune: unknown or repeated collective '%s'\n", word);
            return -1;
        }
        colls[count++] = coll;
        text += length + (text[length] == ',');
    }
    if (!count)
        fprintf(stderr, "braid-tune: no collective is named\n");
    return count ? count : -1;
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

int tune_nccl_table(const struct braid_profile *profile, const struct braid_shape *shape,
                    enum braid_coll coll, uint64_t bytes, float *table)
{
    int usable = 0;

    for (int i = 0; i < BRAID_ALGOS * BRAID_PROTOS; i++) {
        double us = braid_nccl_predict(profile, shape, coll, (double)bytes,
                                       (enum braid_algo)(i / BRAID_PROTOS),
                                       (enum braid_proto)(i % BRAID_PROTOS));

        table[i] = us == us ? (float)us : -1;
        usable += us == us;
    }
    return usable;
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
