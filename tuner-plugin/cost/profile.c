/*
 * The profile parser: text lines to struct braid_profile, with file and line in every error, and the walker that does the reverse.
 * Owns nothing; the caller owns the profile. Foreign bytes come in here: every word is bounded and every number range-checked.
 * Threading: no shared state, any thread. Called by: profile_set.c, tools/braid-tune, tests/fuzz.
 */
#include "tuner-plugin/cost/profile.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/units.h"
#include "common/util.h"
#include "tuner-plugin/cost/profile_rows.h"

#define FILE_MAX      (4u << 20)
#define LINE_MAX_     1024
#define WORDS_MAX     12
#define INCLUDE_DEPTH 4

struct parser {
    struct braid_profile *profile;
    struct braid_profile_error *error;
    const char *file;
    int line, depth, rows;
    bool allow_include, header_seen;
};

static int read_file(struct parser *parser, const char *path);

static int fail(struct parser *parser, int rc, const char *fmt, ...) BRAID_PRINTF(3, 4);

static int fail(struct parser *parser, int rc, const char *fmt, ...)
{
    va_list args;

    snprintf(parser->error->file, sizeof(parser->error->file), "%s", parser->file);
    parser->error->line = parser->line;
    va_start(args, fmt);
    vsnprintf(parser->error->text, sizeof(parser->error->text), fmt, args);
    va_end(args);
    return rc;
}

static double not_a_number(void)
{
    return __builtin_nan("");
}

static void fill(double *values, size_t bytes)
{
    for (size_t i = 0; i < bytes / sizeof(double); i++)
        values[i] = not_a_number();
}

static size_t row_count(const struct braid_row_kind *kind)
{
    size_t count = 1;

    for (const char *s = kind->selectors; *s; s++)
        count *= (size_t)braid_selector_count(*s);
    return count;
}

void braid_profile_clear(struct braid_profile *profile)
{
    memset(profile, 0, sizeof(*profile));
    for (int i = 0; i < braid_row_kind_count; i++)
        fill((double *)((char *)profile + braid_row_kinds[i].offset),
             row_count(&braid_row_kinds[i]) * sizeof(double));
}

/* FNV-1a, 64 bits: not against forgery, only to see that two files differ. */
static uint64_t hash_bytes(uint64_t hash, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3ull;
    return hash;
}

static int parse_number(const char *word, double *value_p)
{
    int64_t integer;
    char *end;

    if (!braid_parse_bytes(word, &integer)) {
        *value_p = (double)integer;
        return 0;
    }
    /* Only plain decimals: strtod alone would also take "inf", "nan" and hexadecimal. */
    if (strspn(word, "0123456789.+-eE") != strlen(word))
        return -EINVAL;
    *value_p = strtod(word, &end);
    return end == word || *end ? -EINVAL : 0;
}

/* Sets the elements of an array with the selectors' dimensions that `want` chooses (-1 = every index). */
static void set_elements(double *array, const char *selectors, const int *want, double value)
{
    size_t inner = 1;

    if (!*selectors) {
        *array = value;
        return;
    }
    for (const char *s = selectors + 1; *s; s++)
        inner *= (size_t)braid_selector_count(*s);
    for (int i = 0; i < braid_selector_count(*selectors); i++) {
        if (*want < 0 || *want == i)
            set_elements(array + (size_t)i * inner, selectors + 1, want + 1, value);
    }
}

/* A row of numbers: selector words ("*" = every one), then the value. */
static int set_row(struct parser *parser, const struct braid_row_kind *kind, char **words)
{
    size_t depth = strlen(kind->selectors);
    int want[4];
    double value;

    for (size_t i = 0; i < depth; i++) {
        want[i] =
            strcmp(words[1 + i], "*") ? braid_selector_find(kind->selectors[i], words[1 + i]) : -1;
        if (want[i] < 0 && strcmp(words[1 + i], "*"))
            return fail(parser, -EINVAL, "'%s': expected %s, found '%s'", kind->name,
                        kind->selectors[i] == 'z' ? "a power of two in bytes" : "a known name or *",
                        words[1 + i]);
    }
    if (parse_number(words[1 + depth], &value))
        return fail(parser, -EINVAL, "'%s': expected a number, found '%s'", kind->name,
                    words[1 + depth]);
    if (!(value >= kind->min && value <= kind->max))
        return fail(parser, -EINVAL, "'%s': %s is outside %g..%g", kind->name, words[1 + depth],
                    kind->min, kind->max);
    set_elements((double *)((char *)parser->profile + kind->offset), kind->selectors, want, value);
    return 0;
}

static int find_or_any(struct parser *parser, char selector, const char *word, int *index_p)
{
    *index_p = -1;
    if (!strcmp(word, "*"))
        return 0;
    *index_p = braid_selector_find(selector, word);
    if (*index_p < 0)
        return fail(parser, -EINVAL, "expected a known name or *, found '%s'", word);
    return 0;
}

/* "rule_budget COLL FROM TO CHANNELS" and "rule_chunk COLL ALGO PROTO FROM TO NODES_MIN NODES_MAX BYTES". */
static int set_rule(struct parser *parser, char **words, bool chunk)
{
    struct braid_profile *profile = parser->profile;
    int *count = chunk ? &profile->chunks : &profile->budgets;
    struct braid_rule rule = {-1, -1, -1, 0, 0, 1, 1 << 30, 0};
    int at = 2, rc = find_or_any(parser, 'c', words[1], &rule.coll);
    double from, to, nodes_min = 1, nodes_max = 1 << 30;

    if (!rc && chunk) {
        rc = find_or_any(parser, 'a', words[2], &rule.algo);
        if (!rc)
            rc = find_or_any(parser, 'p', words[3], &rule.proto);
        at = 4;
    }
    if (rc)
        return rc;
    if (parse_number(words[at], &from) || parse_number(words[at + 1], &to) || from < 0 || to < from)
        return fail(parser, -EINVAL, "expected bytes from and to, found '%s' '%s'", words[at],
                    words[at + 1]);
    if (chunk &&
        (parse_number(words[at + 2], &nodes_min) || parse_number(words[at + 3], &nodes_max) ||
         nodes_min < 1 || nodes_max < nodes_min || nodes_max > (1 << 30)))
        return fail(parser, -EINVAL, "expected nodes from and to, found '%s' '%s'", words[at + 2],
                    words[at + 3]);
    at += chunk ? 4 : 2;
    if (parse_number(words[at], &rule.value) || rule.value < 1 ||
        rule.value > (chunk ? 1 << 30 : BRAID_CHANNELS))
        return fail(parser, -EINVAL, "expected %s, found '%s'",
                    chunk ? "chunk bytes" : "1..64 channels", words[at]);
    if (*count == BRAID_RULES_MAX)
        return fail(parser, -EFBIG, "more than %d rules", BRAID_RULES_MAX);
    rule.from_bytes = (uint64_t)from;
    rule.to_bytes = (uint64_t)to;
    rule.nodes_min = (int)nodes_min;
    rule.nodes_max = (int)nodes_max;
    (chunk ? profile->chunk : profile->budget)[(*count)++] = rule;
    return 0;
}

/* "uncover COLL ALGO PROTO": what an included file says of these is not to be relied on. */
static int uncover(struct parser *parser, char **words)
{
    int coll, algo, proto, rc = find_or_any(parser, 'c', words[1], &coll);

    if (!rc)
        rc = find_or_any(parser, 'a', words[2], &algo);
    if (!rc)
        rc = find_or_any(parser, 'p', words[3], &proto);
    for (int i = 0; !rc && i < BRAID_COLLS * BRAID_ALGOS * BRAID_PROTOS; i++) {
        int c = i / (BRAID_ALGOS * BRAID_PROTOS), a = i / BRAID_PROTOS % BRAID_ALGOS;

        if ((coll < 0 || coll == c) && (algo < 0 || algo == a) &&
            (proto < 0 || proto == i % BRAID_PROTOS))
            parser->profile->base_us[c][a][i % BRAID_PROTOS] = not_a_number();
    }
    return rc;
}

static int set_text(struct parser *parser, char *to, size_t to_bytes, const char *word)
{
    if (strlen(word) >= to_bytes)
        return fail(parser, -EINVAL, "'%s' is longer than %zu characters", word, to_bytes - 1);
    snprintf(to, to_bytes, "%s", word);
    return 0;
}

static int find_source(const struct braid_profile *profile, const char *id)
{
    for (int i = 0; i < profile->sources; i++) {
        if (!strcmp(profile->source_id[i], id))
            return i;
    }
    return -1;
}

static int set_source(struct parser *parser, char **words)
{
    struct braid_profile *profile = parser->profile;
    int at = find_source(profile, words[1]), rc;

    if (at < 0) {
        if (profile->sources == BRAID_SOURCES)
            return fail(parser, -EFBIG, "more than %d sources", BRAID_SOURCES);
        at = profile->sources;
    }
    rc = set_text(parser, profile->source_id[at], sizeof(profile->source_id[at]), words[1]);
    if (!rc)
        rc = set_text(parser, profile->source_text[at], sizeof(profile->source_text[at]), words[2]);
    if (!rc && at == profile->sources)
        profile->sources++;
    return rc;
}

static int include(struct parser *parser, const char *word)
{
    struct parser inner = *parser;
    char path[sizeof(parser->profile->path)];
    const char *slash = strrchr(parser->file, '/');
    int n, rc;

    if (!parser->allow_include || parser->depth + 1 >= INCLUDE_DEPTH)
        return fail(parser, -EINVAL, "include is not possible here");
    if (strchr(word, '/'))
        return fail(parser, -EINVAL, "include takes a file name of the same folder, found '%s'",
                    word);
    n = snprintf(path, sizeof(path), "%.*s%s", slash ? (int)(slash - parser->file + 1) : 0,
                 parser->file, word);
    if (n < 0 || (size_t)n >= sizeof(path))
        return fail(parser, -EINVAL, "path too long");
    inner.file = path;
    inner.depth++;
    rc = read_file(&inner, path);
    parser->rows = inner.rows;
    if (rc == -ENOENT)
        return fail(parser, -EINVAL, "included file '%s' does not exist", word);
    return rc;
}

/* Splits in place: blanks separate, "quotes" keep blanks, # begins a comment. Returns the number of words or -errno. */
static int split(struct parser *parser, char *text, char **words)
{
    int count = 0;

    for (;;) {
        while (*text == ' ' || *text == '\t' || *text == '\r')
            text++;
        if (!*text || *text == '#')
            return count;
        if (count == WORDS_MAX)
            return fail(parser, -EINVAL, "more than %d words", WORDS_MAX);
        if (*text == '"') {
            words[count++] = ++text;
            while (*text && *text != '"')
                text++;
            if (!*text)
                return fail(parser, -EINVAL, "no closing quote");
        } else {
            words[count++] = text;
            while (*text && *text != ' ' && *text != '\t' && *text != '\r')
                text++;
        }
        if (*text)
            *text++ = 0;
    }
}

/* Rows of text and rules; returns 1 when the keyword is none of them. */
static int parse_special(struct parser *parser, char **words, int count)
{
    static const struct {
        const char *name;
        int words;
    } special[] = {{"name", 2},      {"include", 2},     {"source", 3},     {"match_gpu", 2},
                   {"match_net", 2}, {"rule_budget", 5}, {"rule_chunk", 9}, {"uncover", 4}};
    struct braid_profile *profile = parser->profile;
    size_t i = 0;

    while (i < ARRAY_SIZE(special) && strcmp(words[0], special[i].name))
        i++;
    if (i == ARRAY_SIZE(special))
        return 1;
    if (count != special[i].words)
        return fail(parser, -EINVAL, "'%s' takes %d words, found %d", words[0],
                    special[i].words - 1, count - 1);
    switch (i) {
    case 0: /* an included file does not rename the one that includes it */
        if (parser->depth > 0 && profile->name[0])
            return 0;
        return set_text(parser, profile->name, sizeof(profile->name), words[1]);
    case 1: return include(parser, words[1]);
    case 2: return set_source(parser, words);
    case 3: return set_text(parser, profile->match_gpu, sizeof(profile->match_gpu), words[1]);
    case 4: return set_text(parser, profile->match_net, sizeof(profile->match_net), words[1]);
    case 5: return set_rule(parser, words, false);
    case 6: return set_rule(parser, words, true);
    default: return uncover(parser, words);
    }
}

static int parse_line(struct parser *parser, char *text)
{
    char *words[WORDS_MAX];
    int count = split(parser, text, words), rc;
    bool sourced;

    if (count <= 0)
        return count;
    if (!parser->header_seen) {
        if (count != 2 || strcmp(words[0], "braid-profile") || strcmp(words[1], "1"))
            return fail(parser, -EINVAL, "expected 'braid-profile 1' first, found '%s'", words[0]);
        parser->header_seen = true;
        return 0;
    }
    if (++parser->rows > BRAID_ROWS_MAX)
        return fail(parser, -EFBIG, "more than %d rows", BRAID_ROWS_MAX);
    sourced = words[count - 1][0] == '@';
    if (sourced && find_source(parser->profile, words[count - 1] + 1) < 0)
        return fail(parser, -EINVAL, "source '%s' is not defined above", words[count - 1]);
    if (sourced)
        count--;
    rc = parse_special(parser, words, count);
    if (rc <= 0)
        return rc;
    for (int i = 0; i < braid_row_kind_count; i++) {
        const struct braid_row_kind *kind = &braid_row_kinds[i];
        int want = (int)strlen(kind->selectors) + 2;

        if (strcmp(words[0], kind->name))
            continue;
        if (count != want)
            return fail(parser, -EINVAL, "'%s' takes %d words, found %d", words[0], want - 1,
                        count - 1);
        if (!sourced)
            return fail(parser, -EINVAL, "'%s' has no source: end the line with @id", words[0]);
        return set_row(parser, kind, words);
    }
    return fail(parser, -EINVAL, "unknown keyword '%s'", words[0]);
}

static int parse_text(struct parser *parser, const char *text, size_t bytes)
{
    parser->profile->hash = hash_bytes(parser->profile->hash, text, bytes);
    parser->line = 0;
    parser->header_seen = false;
    while (bytes) {
        const char *end = memchr(text, '\n', bytes);
        size_t length = end ? (size_t)(end - text) : bytes;
        char line[LINE_MAX_];
        int rc;

        parser->line++;
        if (length >= sizeof(line))
            return fail(parser, -EINVAL, "line longer than %d bytes", LINE_MAX_ - 1);
        if (memchr(text, 0, length))
            return fail(parser, -EINVAL, "a zero byte: not a text file");
        memcpy(line, text, length);
        line[length] = 0;
        rc = parse_line(parser, line);
        if (rc)
            return rc;
        length += end ? 1 : 0;
        text += length;
        bytes -= length;
    }
    if (!parser->header_seen)
        return fail(parser, -EINVAL, "expected 'braid-profile 1', found an empty file");
    return 0;
}

static int read_file(struct parser *parser, const char *path)
{
    FILE *file = fopen(path, "re");
    char *text;
    size_t bytes;
    int rc;

    parser->line = 0;
    if (!file)
        return fail(parser, -errno, "cannot open: %s", strerror(errno));
    text = malloc(FILE_MAX + 1);
    if (!text) {
        rc = fail(parser, -ENOMEM, "out of memory");
        goto err_close;
    }
    errno = 0;
    bytes = fread(text, 1, FILE_MAX + 1, file);
    if (ferror(file))
        rc = fail(parser, -(errno ? errno : EIO), "cannot read: %s", strerror(errno));
    else if (bytes > FILE_MAX)
        rc = fail(parser, -EFBIG, "larger than %u bytes", FILE_MAX);
    else
        rc = parse_text(parser, text, bytes);
    free(text);
err_close:
    fclose(file);
    return rc;
}

static void start(struct parser *parser, struct braid_profile *profile,
                  struct braid_profile_error *error, const char *file)
{
    memset(parser, 0, sizeof(*parser));
    braid_profile_clear(profile);
    profile->hash = 0xcbf29ce484222325ull;
    memset(error, 0, sizeof(*error));
    parser->profile = profile;
    parser->error = error;
    parser->file = file;
}

/* Between the sizes that have a correction it is interpolated, beyond them the nearest one holds; `none` where there is none. */
static void fill_corrections(double *ratio, const double *none)
{
    int last = -1;

    for (int z = 0; z < BRAID_SIZES; z++) {
        if (ratio[z] != ratio[z])
            continue;
        for (int gap = last + 1; gap < z; gap++)
            ratio[gap] = last < 0
                             ? ratio[z]
                             : ratio[last] + (ratio[z] - ratio[last]) * (gap - last) / (z - last);
        last = z;
    }
    for (int z = last + 1; z < BRAID_SIZES; z++)
        ratio[z] = last >= 0 ? ratio[last] : none ? none[z] : 1.0;
}

void braid_profile_fill(struct braid_profile *profile)
{
    for (int c = 0; c < BRAID_COLLS; c++) {
        for (int a = 0; a < BRAID_ALGOS; a++) {
            for (int p = 0; p < BRAID_PROTOS; p++) {
                fill_corrections(profile->correct_ratio[c][a][p], NULL);
                fill_corrections(profile->correct_one_ratio[c][a][p],
                                 profile->correct_ratio[c][a][p]);
            }
        }
    }
}

/* What later code need not test again. */
static int finish(struct parser *parser)
{
    struct braid_profile *profile = parser->profile;
    const struct {
        const char *name;
        double value;
    } needed[] = {{"sharpness", profile->sharpness},       {"noise_ratio", profile->noise_ratio},
                  {"guard_ratio", profile->guard_ratio},   {"channels", profile->channels},
                  {"channels_max", profile->channels_max}, {"group_batch", profile->group_batch},
                  {"intra_link", profile->intra_link},     {"trust", profile->trust}};
    double sharpness = profile->sharpness;

    if (!profile->name[0])
        return fail(parser, -EINVAL, "the profile has no 'name'");
    for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
        if (needed[i].value != needed[i].value)
            return fail(parser, -EINVAL, "the profile does not set '%s'", needed[i].name);
    }
    if (sharpness != 1 && sharpness != 2 && sharpness != 4 && sharpness != 8)
        return fail(parser, -EINVAL, "sharpness must be 1, 2, 4 or 8");
    braid_profile_fill(profile);
    return 0;
}

int braid_profile_read(const char *path, struct braid_profile *profile,
                       struct braid_profile_error *error)
{
    struct parser parser;
    int rc;

    start(&parser, profile, error, path);
    parser.allow_include = true;
    rc = read_file(&parser, path);
    snprintf(profile->path, sizeof(profile->path), "%s", path);
    return rc ? rc : finish(&parser);
}

int braid_profile_parse(const char *text, size_t bytes, struct braid_profile *profile,
                        struct braid_profile_error *error)
{
    struct parser parser;
    int rc;

    start(&parser, profile, error, "(memory)");
    rc = parse_text(&parser, text, bytes);
    return rc ? rc : finish(&parser);
}

void braid_profile_each(const struct braid_profile *profile,
                        void (*visit)(void *arg, const char *key, double value), void *arg)
{
    for (int k = 0; k < braid_row_kind_count; k++) {
        const struct braid_row_kind *kind = &braid_row_kinds[k];
        const double *values = (const double *)((const char *)profile + kind->offset);
        size_t depth = strlen(kind->selectors), count = row_count(kind);

        for (size_t i = 0; i < count; i++) {
            char key[160], word[32];
            int index[4], at = snprintf(key, sizeof(key), "%s", kind->name);
            size_t rest = i;

            if (values[i] != values[i])
                continue;
            for (size_t d = depth; d-- > 0;) {
                index[d] = (int)(rest % (size_t)braid_selector_count(kind->selectors[d]));
                rest /= (size_t)braid_selector_count(kind->selectors[d]);
            }
            for (size_t d = 0; d < depth; d++)
                at +=
                    snprintf(key + at, sizeof(key) - (size_t)at, " %s",
                             braid_selector_name(kind->selectors[d], index[d], word, sizeof(word)));
            visit(arg, key, values[i]);
        }
    }
}
