/*
 * What nccl_steps leaves at the end of a communicator: a table (sums over channels), a row of JSON for every section, case,
 * direction and channel, and the records themselves. Called once by the thread that destroys the communicator.
 * Files: $NCCL_STEPS_FILE-<rank>.txt, .jsonl and .records; a second communicator of the process has -<rank>-1 and so on. Without
 * NCCL_STEPS_FILE the table goes to stdout and the rest nowhere.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nccl_steps.h"

/* Steps of one section, case, direction and channel. */
struct sum {
    uint64_t steps;
    uint64_t bytes;
    uint64_t ops;
    uint64_t unfinished; /* steps whose end was not reported */
    uint64_t ns[4]; /* of the intervals between STEP_START, _POSTED, _READY, _HANDED and _DONE */
    uint64_t first_post_ns; /* from the start of operations to their first posted step */
    uint64_t first_posts;
};

struct sums {
    struct sum of[STEPS_SECTIONS][STEPS_CASES][2][STEPS_CHANNELS];
};

static const char *const interval_names[2][4] = {{"post", "net", "flush", "gpu"},
                                                 {"slot", "gpu", "isend", "net"}};

static uint32_t case_index(const struct steps_context *c, const struct steps_record *op)
{
    const struct steps_record *coll = &c->records[op->parent];

    return op->parent && coll->kind == STEPS_COLL ? coll->parent : STEPS_CASES - 1;
}

static struct sum *sum_of(const struct steps_context *c, struct sums *all,
                          const struct steps_record *op)
{
    return &all->of[op->section % STEPS_SECTIONS][case_index(c, op) % STEPS_CASES][op->is_send & 1]
                   [op->channel % STEPS_CHANNELS];
}

static void add_step(const struct steps_context *c, struct sums *all, const struct steps_record *r)
{
    const struct steps_record *op = &c->records[r->parent];
    struct sum *s = sum_of(c, all, op);

    for (int i = 0; i < 4; i++)
        if (!r->at[i + 1] || r->at[i + 1] < r->at[i]) {
            s->unfinished++;
            return;
        }
    s->steps++;
    s->bytes += r->bytes;
    for (int i = 0; i < 4; i++)
        s->ns[i] += r->at[i + 1] - r->at[i];
    if (r->step == 0) {
        s->first_post_ns += r->at[STEP_POSTED] - op->at[OP_START];
        s->first_posts++;
    }
}

static void add_up(const struct steps_context *c, struct sums *all, unsigned count)
{
    for (unsigned i = 1; i < count; i++) {
        const struct steps_record *r = &c->records[i];

        if (r->kind == STEPS_OP)
            sum_of(c, all, r)->ops++;
        else if (r->kind == STEPS_STEP)
            add_step(c, all, r);
    }
}

static void merge(struct sum *into, const struct sum *s)
{
    into->steps += s->steps;
    into->bytes += s->bytes;
    into->ops += s->ops;
    into->unfinished += s->unfinished;
    into->first_post_ns += s->first_post_ns;
    into->first_posts += s->first_posts;
    for (int i = 0; i < 4; i++)
        into->ns[i] += s->ns[i];
}

static double us_each(uint64_t ns, uint64_t count)
{
    return count ? (double)ns / 1e3 / (double)count : 0;
}

static void write_line(FILE *file, const char *section, const char *name, int is_send,
                       const struct sum *s, int channels)
{
    fprintf(file, "%-20.20s %-40s %s %2d %7llu %6.1f %9.0f %8.1f", section, name,
            is_send ? "send" : "recv", channels, (unsigned long long)s->ops,
            s->ops ? (double)s->steps / (double)s->ops : 0,
            s->steps ? (double)s->bytes / (double)s->steps : 0,
            us_each(s->first_post_ns, s->first_posts));
    for (int i = 0; i < 4; i++)
        fprintf(file, " %5s %8.1f", interval_names[is_send][i], us_each(s->ns[i], s->steps));
    if (s->unfinished)
        fprintf(file, " (%llu steps without an end)", (unsigned long long)s->unfinished);
    fprintf(file, "\n");
}

static void write_row(FILE *file, const struct steps_context *c, int section, const char *name,
                      int is_send, int channel, const struct sum *s)
{
    fprintf(file,
            "{\"rank\": %d, \"section\": \"%s\", \"case\": \"%s\", \"way\": \"%s\", \"channel\": "
            "%d, \"ops\": %llu, \"steps\": %llu, \"bytes\": %llu, \"first_post_us\": %.2f",
            c->rank, c->section_list[section].label, name, is_send ? "send" : "recv", channel,
            (unsigned long long)s->ops, (unsigned long long)s->steps, (unsigned long long)s->bytes,
            us_each(s->first_post_ns, s->first_posts));
    for (int i = 0; i < 4; i++)
        fprintf(file, ", \"%s_us\": %.2f", interval_names[is_send][i], us_each(s->ns[i], s->steps));
    fprintf(file, "}\n");
}

static void write_case(FILE *table, FILE *rows, const struct steps_context *c, int section,
                       int index, const struct sums *all)
{
    const char *name = index < c->cases ? c->case_list[index].name : "unknown";

    for (int is_send = 0; is_send < 2; is_send++) {
        struct sum total = {0};
        int channels = 0;

        for (int i = 0; i < STEPS_CHANNELS; i++) {
            const struct sum *s = &all->of[section][index][is_send][i];

            if (!s->ops && !s->steps)
                continue;
            channels++;
            merge(&total, s);
            if (rows)
                write_row(rows, c, section, name, is_send, i, s);
        }
        if (channels)
            write_line(table, c->section_list[section].label, name, is_send, &total, channels);
    }
}

static void write_proxy(FILE *table, const struct steps_section *s)
{
    double all = (double)(s->end - s->begin) / 100;

    fprintf(table,
            "%-20.20s proxy thread: nothing to do %.0f %% of %.1f ms (%llu times; asleep %.0f %%, "
            "%llu times), takes operations over for %.1f %%\n",
            s->label, all > 0 ? (double)s->idle_ns / all : 0, all / 1e4,
            (unsigned long long)s->idles, all > 0 ? (double)s->sleep_ns / all : 0,
            (unsigned long long)s->sleeps, all > 0 ? (double)s->append_ns / all : 0);
}

static void write_sums(FILE *table, FILE *rows, const struct steps_context *c,
                       const struct sums *all)
{
    fprintf(table,
            "nccl_steps: rank %d of %d, interface version %d; us a step between the states of "
            "NCCL's proxy\n%-20s %-40s way  ch     ops steps/  bytes/  to first\n"
            "%-20s %-40s                     op    step     post\n",
            c->rank, c->ranks, c->version, "section", "case", "", "");
    for (int section = 1; section < c->sections; section++) {
        for (int index = 0; index < STEPS_CASES; index++)
            write_case(table, rows, c, section, index, all);
        write_proxy(table, &c->section_list[section]);
    }
    if (c->lost)
        fprintf(table, "nccl_steps: no room for %u events\n", (unsigned)c->lost);
}

/* "NSTEPS1\n", the length of a text as 8 bytes, that text (JSON), and then the records. */
static void write_records(FILE *file, const struct steps_context *c, unsigned count)
{
    char *text = NULL;
    size_t length = 0;
    FILE *json = open_memstream(&text, &length);
    uint64_t size;

    if (!json)
        return;
    fprintf(json,
            "{\"rank\": %d, \"ranks\": %d, \"interface\": %d, \"comm\": %llu, \"lost\": %u, "
            "\"sections\": [null",
            c->rank, c->ranks, c->version, (unsigned long long)c->comm_id, (unsigned)c->lost);
    for (int i = 1; i < c->sections; i++) {
        const struct steps_section *s = &c->section_list[i];

        fprintf(json,
                ", {\"label\": \"%s\", \"what\": %d, \"operations\": %d, \"begin\": %llu, \"end\": "
                "%llu, \"idle_ns\": %llu, \"sleep_ns\": %llu, \"append_ns\": %llu, \"idles\": "
                "%llu, \"sleeps\": %llu, \"appends\": %llu}",
                s->label, s->what, s->operations, (unsigned long long)s->begin,
                (unsigned long long)s->end, (unsigned long long)s->idle_ns,
                (unsigned long long)s->sleep_ns, (unsigned long long)s->append_ns,
                (unsigned long long)s->idles, (unsigned long long)s->sleeps,
                (unsigned long long)s->appends);
    }
    fprintf(json, "], \"cases\": [");
    for (int i = 0; i < c->cases; i++)
        fprintf(json, "%s\"%s\"", i ? ", " : "", c->case_list[i].name);
    fprintf(json, "]}");
    fclose(json);
    size = length;
    fwrite("NSTEPS1\n", 1, 8, file);
    fwrite(&size, sizeof(size), 1, file);
    fwrite(text, 1, length, file);
    fwrite(c->records, sizeof(*c->records), count, file);
    free(text);
}

static FILE *open_file(const struct steps_context *c, const char *ending)
{
    const char *stem = getenv("NCCL_STEPS_FILE");
    char number[16] = "";
    char path[600];
    FILE *file;

    if (!stem || !*stem)
        return NULL;
    if (c->number)
        snprintf(number, sizeof(number), "-%d", c->number);
    snprintf(path, sizeof(path), "%s-%d%s.%s", stem, c->rank, number, ending);
    file = fopen(path, "w");
    if (!file)
        fprintf(stderr, "nccl_steps: cannot write %s\n", path);
    return file;
}

void steps_write(struct steps_context *c)
{
    unsigned count = c->count < STEPS_RECORDS ? c->count : STEPS_RECORDS;
    struct sums *all = calloc(1, sizeof(*all));
    FILE *table = open_file(c, "txt");
    FILE *rows = open_file(c, "jsonl");
    FILE *records = open_file(c, "records");

    if (all) {
        add_up(c, all, count);
        write_sums(table ? table : stdout, rows, c, all);
    }
    if (records)
        write_records(records, c, count);
    free(all);
    if (table)
        fclose(table);
    if (rows)
        fclose(rows);
    if (records)
        fclose(records);
}
