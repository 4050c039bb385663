/*
 * Reading a sweep file. Foreign bytes: every field is bounded and checked, errors name file and line. See sweep.h.
 */
#include "tools/braid-tune/sweep.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/units.h"
#include "common/util.h"
#include "tuner-plugin/cost/profile.h"

#define US_MAX 8e6 /* what a profile can say of a start */

int sweep_add(struct sweep *sweep, const struct sweep_row *row)
{
    if (sweep->count == sweep->room) {
        size_t room = sweep->room ? 2 * sweep->room : 256;
        struct sweep_row *grown = realloc(sweep->rows, room * sizeof(*grown));

        if (!grown)
            return -ENOMEM;
        sweep->rows = grown;
        sweep->room = room;
    }
    sweep->rows[sweep->count++] = *row;
    return 0;
}

void sweep_free(struct sweep *sweep)
{
    free(sweep->rows);
    memset(sweep, 0, sizeof(*sweep));
}

static void read_meta(struct sweep *sweep, const char *line)
{
    char key[32] = "", value[200] = "";
    int64_t number;
    const struct {
        const char *key;
        char *text;
        size_t bytes;
        int *number;
    } fields[] = {
        {"machine", sweep->machine, sizeof(sweep->machine), NULL},
        {"gpu", sweep->gpu, sizeof(sweep->gpu), NULL},
        {"net", sweep->net, sizeof(sweep->net), NULL},
        {"nccl", sweep->nccl, sizeof(sweep->nccl), NULL},
        {"date", sweep->date, sizeof(sweep->date), NULL},
        {"ranks", NULL, 0, &sweep->ranks},
        {"nodes", NULL, 0, &sweep->nodes},
        {"channels", NULL, 0, &sweep->channels},
        {"nvls", NULL, 0, &sweep->nvls},
    };

    if (sscanf(line, "# %31s %199[^\n]", key, value) < 1)
        return;
    for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
        if (strcmp(fields[i].key, key))
            continue;
        if (fields[i].number)
            *fields[i].number =
                braid_parse_int(value, &number) || number != (int)number ? 0 : (int)number;
        else
            snprintf(fields[i].text, fields[i].bytes, "%s", value);
    }
}

/* NULL when the row is good, else what was expected. */
static const char *read_row(char *line, struct sweep_row *row)
{
    static const char *const whats[] = {"forced", "nccl", "braid"};
    char *field[8], *save = NULL, *end;
    int64_t bytes, number;
    int count = 0;

    for (char *f = strtok_r(line, ",\r\n", &save); f && count < 8;
         f = strtok_r(NULL, ",\r\n", &save))
        field[count++] = f;
    if (count < 7)
        return "coll,bytes,algo,proto,channels,us,comm[,what]";
    memset(row, 0, sizeof(*row));
    row->coll = braid_kind_find(braid_coll_names, BRAID_COLLS, field[0]);
    row->algo = braid_kind_find(braid_algo_names, BRAID_ALGOS, field[2]);
    row->proto = braid_kind_find(braid_proto_names, BRAID_PROTOS, field[3]);
    if (row->coll < 0)
        return "a collective";
    if ((row->algo < 0 || row->proto < 0) && strcmp(field[2], "default"))
        return "an algorithm and a protocol, or default";
    if (braid_parse_bytes(field[1], &bytes) || bytes < 1 || bytes >= 1ll << (BRAID_SIZES - 1))
        return "bytes up to 64T";
    row->bytes = (uint64_t)bytes;
    if (braid_parse_int(field[4], &number) || number < 0 || number > 64)
        return "0..64 channels";
    row->channels = (int)number;
    row->us = strtod(field[5], &end);
    if (end == field[5] || *end || !(row->us > 0 && row->us < US_MAX))
        return "microseconds below 8e6";
    if (braid_parse_int(field[6], &number) || number < 0 || number > 1000000)
        return "a communicator number";
    row->comm = (int)number;
    number = count == 8 ? braid_kind_find(whats, ARRAY_SIZE(whats), field[7]) : 0;
    if (number < 0)
        return "forced, nccl or braid";
    row->what = (enum sweep_what)number;
    return NULL;
}

void sweep_write_head(FILE *out, const struct sweep *sweep, const char *note)
{
    fprintf(out,
            "# braid-sweep 1\n# machine %s\n# gpu %s\n# net %s\n# ranks %d\n# nodes %d\n# channels "
            "%d\n# nvls %d\n"
            "# nccl %s\n# date %s\n# note %s\ncoll,bytes,algo,proto,channels,us,comm,what\n",
            sweep->machine, sweep->gpu, sweep->net, sweep->ranks, sweep->nodes, sweep->channels,
            sweep->nvls, sweep->nccl, sweep->date, note);
}

void sweep_write_row(FILE *out, const struct sweep_row *row)
{
    static const char *const whats[] = {"forced", "nccl", "braid"};

    fprintf(out, "%s,%llu,%s,%s,%d,%.3f,%d,%s\n", braid_coll_names[row->coll],
            (unsigned long long)row->bytes, row->algo < 0 ? "default" : braid_algo_names[row->algo],
            row->proto < 0 ? "default" : braid_proto_names[row->proto], row->channels, row->us,
            row->comm, whats[row->what]);
}

/* Whether the head says what the rest relies on; NULL when it does, else what was expected. */
static const char *check_head(const struct sweep *sweep)
{
    if (sweep->ranks < 2)
        return "'# ranks N' from 2 on";
    if (sweep->nodes < 1 || sweep->nodes > sweep->ranks)
        return "'# nodes N' from 1 to the ranks";
    if (sweep->channels < 1 || sweep->channels > BRAID_CHANNELS)
        return "'# channels N' from 1 to 64";
    return NULL;
}

int sweep_parse(FILE *file, const char *name, struct sweep *sweep, char *why, size_t why_bytes)
{
    const char *expected = NULL;
    char line[512];
    int number = 0, rc = 0;

    memset(sweep, 0, sizeof(*sweep));
    while (!rc && fgets(line, sizeof(line), file)) {
        struct sweep_row row;

        number++;
        if (!strchr(line, '\n') && feof(file))
            break;
        sweep->whole_bytes = ftell(file);
        if (line[0] == '#' || !strncmp(line, "coll,", 5) || line[0] == '\n') {
            read_meta(sweep, line);
            continue;
        }
        expected = read_row(line, &row);
        rc = expected ? -EINVAL : sweep_add(sweep, &row);
        if (expected)
            snprintf(why, why_bytes, "%s:%d: expected %s", name, number, expected);
    }
    if (!rc && ferror(file)) {
        rc = -errno;
        snprintf(why, why_bytes, "%s: %s", name, strerror(errno));
    }
    if (!rc && (expected = check_head(sweep))) {
        rc = -EINVAL;
        snprintf(why, why_bytes, "%s: expected %s in its head", name, expected);
    }
    if (rc)
        sweep_free(sweep);
    return rc;
}

int sweep_read(const char *path, struct sweep *sweep, char *why, size_t why_bytes)
{
    FILE *file = fopen(path, "re");
    int rc;

    memset(sweep, 0, sizeof(*sweep));
    if (!file) {
        rc = -errno;
        snprintf(why, why_bytes, "%s: %s", path, strerror(errno));
        return rc;
    }
    rc = sweep_parse(file, path, sweep, why, why_bytes);
    fclose(file);
    return rc;
}
