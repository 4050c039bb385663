/*
 * Work counted by the fake library. At exit each process appends one JSON line to the file that FAKEVERBS_STATS
 * names; a test in the same process reads single counters by name.
 */
#include "fabric.h"
#include "fakeverbs.h"
#include "script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROW(member)                                                                                \
    {                                                                                              \
#member, offsetof(struct fv_counters, member)                                              \
    }

static const struct {
    const char *name;
    size_t offset;
} rows[] = {
    ROW(send_wqes),
    ROW(send_doorbells),
    ROW(inline_wqes),
    ROW(recv_wqes),
    ROW(recv_doorbells),
    ROW(completions),
    ROW(polls),
    ROW(empty_polls),
    ROW(packets),
    ROW(bytes),
    ROW(rnr_waits),
    ROW(writes),
    ROW(writes_imm),
    ROW(reads),
    ROW(sends),
    ROW(signaled),
    ROW(qps),
    ROW(mrs),
};

static uint64_t row_value(size_t row)
{
    return atomic_load((_Atomic uint64_t *)((char *)fv_counters() + rows[row].offset));
}

int64_t fakeverbs_counter(const char *name)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strcmp(rows[i].name, name) == 0)
            return (int64_t)row_value(i);
    return -1;
}

/* Called while the fabric is still mapped. */
void fv_counters_write(void)
{
    const char *path = getenv("FAKEVERBS_STATS");
    char line[1024];
    int used;
    FILE *file;

    if (!path || !*path || row_value(0) + row_value(3) == 0 || !(file = fopen(path, "ae")))
        return;
    used = snprintf(line, sizeof(line), "{\"node\": \"%s\", \"pid\": %d", fv_script_get()->node,
                    getpid());
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        used += snprintf(line + used, sizeof(line) - (size_t)used, ", \"%s\": %llu", rows[i].name,
                         (unsigned long long)row_value(i));
    fprintf(file, "%s}\n", line);
    fclose(file);
}
