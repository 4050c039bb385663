/* Parsing of the tunables, see param.h and params.def. */
#include "common/param.h"

#include "common/log.h"
#include "common/units.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define INT  BRAID_PARAM_INT
#define BOOL BRAID_PARAM_BOOL
#define STR  BRAID_PARAM_STR
static const struct braid_param_row rows[BRAID_P_COUNT] = {
#define BRAID_PARAM(id, type, name, nccl, def, min, max, unit, help)                               \
    [BRAID_P_##id] = {type, name, nccl, def, min, max, unit, help},
#include "common/params.def"
#undef BRAID_PARAM
};
#undef INT
#undef BOOL
#undef STR

struct value {
    int64_t number;
    const char *text; /* of a STR row; a default or in `texts` */
    enum braid_param_source source;
};

static struct value values[BRAID_P_COUNT];
/* Texts from the environment. Static, so that unloading the library leaves nothing behind and a late reader finds them. */
static char texts[32768];
static size_t texts_used;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t reload_lock = PTHREAD_MUTEX_INITIALIZER;
/*
 * Set while the table is being filled: a warning logged from there must not start filling it again. In the static block, because the first
 * access in a thread would else want the loader's lock, which dlclose holds while it ends threads of ours.
 */
static __thread bool loading __attribute__((tls_model("initial-exec")));

extern char **environ;

static int parse_bool(const char *text, int64_t *value_p)
{
    static const char *const words[][2] = {
        {"0", "1"}, {"no", "yes"}, {"false", "true"}, {"off", "on"}, {"n", "y"}};

    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        for (int value = 0; value < 2; value++)
            if (strcasecmp(text, words[i][value]) == 0) {
                *value_p = value;
                return 0;
            }
    return -EINVAL;
}

static int parse_number(const struct braid_param_row *row, const char *text, int64_t *value_p)
{
    int rc;

    if (row->type == BRAID_PARAM_BOOL)
        return parse_bool(text, value_p);
    rc = strcmp(row->unit, "bytes") == 0 ? braid_parse_bytes(text, value_p)
                                         : braid_parse_int(text, value_p);
    if (rc == 0 && (*value_p < row->min || *value_p > row->max))
        rc = -ERANGE;
    return rc;
}

/* Says what was wrong with `text` from variable `name` and what is used instead. */
static void warn_bad(const struct braid_param_row *row, const char *name, const char *text)
{
    if (row->type == BRAID_PARAM_BOOL)
        BRAID_WARN("%s=%s is not a yes or no; using the default %s", name, text, row->default_text);
    else
        BRAID_WARN("%s=%s is not a whole number%s%s from %lld to %lld; using the default %s", name,
                   text, row->unit[0] ? " of " : "", row->unit, (long long)row->min,
                   (long long)row->max, row->default_text);
}

/* A copy of `text` in `texts`, or NULL when they are full. */
static const char *keep_text(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = texts + texts_used;

    if (bytes > sizeof(texts) - texts_used)
        return NULL;
    memcpy(copy, text, bytes);
    texts_used += bytes;
    return copy;
}

/* Takes variable `name` into the row's value; returns whether it did. */
static bool take(const struct braid_param_row *row, struct value *value, const char *name,
                 enum braid_param_source source)
{
    const char *text = name[0] ? getenv(name) : NULL;
    int64_t number;

    if (text == NULL || text[0] == '\0')
        return false;
    if (row->type == BRAID_PARAM_STR) {
        const char *copy = keep_text(text);

        if (copy == NULL) {
            BRAID_WARN("%s is too long (%zu bytes); using the default", name, strlen(text));
            return false;
        }
        value->text = copy;
    } else {
        if (parse_number(row, text, &number) != 0) {
            warn_bad(row, name, text);
            return false;
        }
        value->number = number;
    }
    value->source = source;
    return true;
}

static void load_row(const struct braid_param_row *row, struct value *value)
{
    value->source = BRAID_PARAM_DEFAULT;
    if (row->type == BRAID_PARAM_STR)
        value->text = row->default_text;
    else if (parse_number(row, row->default_text, &value->number) != 0)
        abort(); /* a wrong row in params.def; the unit test loads every row */
    if (!take(row, value, row->name, BRAID_PARAM_BRAID))
        take(row, value, row->nccl_name, BRAID_PARAM_NCCL);
}

/* Levenshtein distance, for short names only. */
static unsigned int distance(const char *a, const char *b)
{
    unsigned int row[64];
    size_t length = strlen(b);

    if (length >= ARRAY_SIZE(row))
        return ~0u;
    for (size_t j = 0; j <= length; j++)
        row[j] = (unsigned int)j;
    for (size_t i = 0; a[i]; i++) {
        unsigned int diagonal = row[0];

        row[0] = (unsigned int)i + 1;
        for (size_t j = 0; j < length; j++) {
            unsigned int change = diagonal + (a[i] != b[j]);

            diagonal = row[j + 1];
            row[j + 1] = MIN(change, MIN(row[j], row[j + 1]) + 1);
        }
    }
    return row[length];
}

static void warn_unknown(const char *entry)
{
    size_t length = strcspn(entry, "=");
    const char *nearest = NULL;
    unsigned int best = 6;
    char name[64];

    if (length >= sizeof(name))
        return;
    memcpy(name, entry, length);
    name[length] = '\0';
    for (int id = 0; id < BRAID_P_COUNT; id++) {
        unsigned int d = distance(name, rows[id].name);

        if (d == 0)
            return;
        if (d < best) {
            best = d;
            nearest = rows[id].name;
        }
    }
    if (nearest)
        BRAID_WARN("%s is not a setting of Braid; did you mean %s?", name, nearest);
    else
        BRAID_WARN("%s is not a setting of Braid; `braid-info --params` lists them", name);
}

static void load(void)
{
    loading = true;
    texts_used = 0;
    for (int id = 0; id < BRAID_P_COUNT; id++)
        load_row(&rows[id], &values[id]);
    for (char **entry = environ; entry && *entry; entry++)
        if (strncmp(*entry, "BRAID_", 6) == 0)
            warn_unknown(*entry);
    loading = false;
}

static const struct value *get(enum braid_param_id id)
{
    if (!loading)
        pthread_once(&once, load);
    return &values[id];
}

int64_t braid_param_int(enum braid_param_id id)
{
    return get(id)->number;
}

bool braid_param_bool(enum braid_param_id id)
{
    return get(id)->number != 0;
}

const char *braid_param_str(enum braid_param_id id)
{
    const char *text = get(id)->text;

    return text ? text : "";
}

enum braid_param_source braid_param_source(enum braid_param_id id)
{
    return get(id)->source;
}

const char *braid_param_name(enum braid_param_id id)
{
    const struct braid_param_row *row = braid_param_row(id);

    return get(id)->source == BRAID_PARAM_NCCL ? row->nccl_name : row->name;
}

const struct braid_param_row *braid_param_row(enum braid_param_id id)
{
    return &rows[id];
}

char *braid_param_text(enum braid_param_id id, char *buf, size_t buf_bytes)
{
    if (rows[id].type == BRAID_PARAM_STR)
        snprintf(buf, buf_bytes, "%s", braid_param_str(id));
    else
        snprintf(buf, buf_bytes, "%lld", (long long)braid_param_int(id));
    return buf;
}

void braid_param_reload(void)
{
    pthread_once(&once, load);
    pthread_mutex_lock(&reload_lock);
    load();
    pthread_mutex_unlock(&reload_lock);
}

const char *braid_param_nccl_env(const char *name)
{
    const char *text;

    if (strncmp(name, "NCCL_", 5) != 0)
        return NULL;
    text = getenv(name);
    return text && text[0] ? text : NULL;
}

/* The first of the variables that is a number; `none` otherwise. */
static int launch_number(const char *const *names, int none)
{
    for (; *names; names++) {
        const char *text = getenv(*names);
        int64_t value;

        if (text && !braid_parse_int(text, &value) && value >= 0 && value < INT32_MAX)
            return (int)value;
    }
    return none;
}

void braid_param_launch(struct braid_launch *launch)
{
    static const char *const rank[] = {"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", NULL};
    static const char *const ranks[] = {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS", NULL};
    static const char *const local[] = {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID",
                                        NULL};
    static const char *const port[] = {"MASTER_PORT", NULL};
    const char *host = getenv("MASTER_ADDR");

    memset(launch, 0, sizeof(*launch));
    launch->rank = launch_number(rank, -1);
    launch->ranks = launch_number(ranks, 0);
    launch->local_rank = launch_number(local, launch->rank);
    launch->port = launch_number(port, 0);
    snprintf(launch->host, sizeof(launch->host), "%s", host ? host : "");
    if (launch->rank < 0 || launch->rank >= launch->ranks)
        launch->ranks = 0;
}
