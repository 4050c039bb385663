/*
 * What each thread of this process did between two moments, from /proc: CPU time, waiting for a processor, and context switches. Used by
 * a rank of nccl_sockets around a measured case; one thread calls it.
 */
#include "nccl_sockets.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void read_file(int id, const char *name, char *text, size_t size)
{
    char path[64];
    FILE *file;
    size_t length = 0;

    snprintf(path, sizeof(path), "/proc/self/task/%d/%s", id, name);
    file = fopen(path, "r");
    if (file) {
        length = fread(text, 1, size - 1, file);
        fclose(file);
    }
    text[length] = 0;
}

static uint64_t field(const char *text, const char *name)
{
    const char *at = strstr(text, name);

    return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

/* "NCCL Progress 0" and "NCCL Progress 1" are one kind of thread: digits and what follows them go. */
static void kind_of(const char *comm, char kind[16])
{
    size_t length = 0;

    while (length < 15 && comm[length] && comm[length] != '\n' && comm[length] != '"' &&
           !isdigit((unsigned char)comm[length])) {
        kind[length] = comm[length];
        length++;
    }
    while (length && kind[length - 1] == ' ')
        length--;
    kind[length] = 0;
}

static void read_thread(int id, struct thread_use *t)
{
    uint64_t ticks_ns = 1000000000u / (uint64_t)sysconf(_SC_CLK_TCK);
    unsigned long long user = 0;
    unsigned long long system = 0;
    unsigned long long cpu = 0;
    unsigned long long wait = 0;
    char text[4096];
    const char *after;

    memset(t, 0, sizeof(*t));
    t->id = id;
    read_file(id, "comm", text, sizeof(text));
    kind_of(text, t->kind);
    read_file(id, "status", text, sizeof(text));
    t->voluntary = field(text, "\nvoluntary_ctxt_switches:");
    t->involuntary = field(text, "\nnonvoluntary_ctxt_switches:");
    read_file(id, "stat", text, sizeof(text));
    after = strrchr(text, ')');
    if (after)
        sscanf(after + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &system);
    t->user_ns = user * ticks_ns;
    t->system_ns = system * ticks_ns;
    read_file(id, "schedstat", text, sizeof(text));
    if (sscanf(text, "%llu %llu", &cpu, &wait) != 2)
        cpu = t->user_ns + t->system_ns;
    t->cpu_ns = cpu;
    t->wait_ns = wait;
}

int threads_read(struct thread_use *threads, int room)
{
    DIR *folder = opendir("/proc/self/task");
    struct dirent *entry;
    int count = 0;

    while (folder && count < room && (entry = readdir(folder)))
        if (isdigit((unsigned char)entry->d_name[0]))
            read_thread(atoi(entry->d_name), &threads[count++]);
    if (folder)
        closedir(folder);
    return count;
}

static void subtract(struct thread_use *now, const struct thread_use *then)
{
    now->cpu_ns -= then->cpu_ns;
    now->wait_ns -= then->wait_ns;
    now->user_ns -= then->user_ns;
    now->system_ns -= then->system_ns;
    now->voluntary -= then->voluntary;
    now->involuntary -= then->involuntary;
}

/* Adds what thread `t` did to its kind in `kinds`; the main thread is a kind of its own. */
static int add_kind(struct thread_use *kinds, int count, const struct thread_use *t)
{
    const char *name = t->id == getpid() ? "main" : t->kind;
    int k = 0;

    while (k < count && strcmp(kinds[k].kind, name) != 0)
        k++;
    if (k == count) {
        memset(&kinds[k], 0, sizeof(kinds[k]));
        snprintf(kinds[k].kind, sizeof(kinds[k].kind), "%s", name);
        count++;
    }
    kinds[k].threads++;
    kinds[k].cpu_ns += t->cpu_ns;
    kinds[k].wait_ns += t->wait_ns;
    kinds[k].user_ns += t->user_ns;
    kinds[k].system_ns += t->system_ns;
    kinds[k].voluntary += t->voluntary;
    kinds[k].involuntary += t->involuntary;
    return count;
}

void threads_write(FILE *file, const struct thread_use *then, int then_count,
                   struct thread_use *now, int now_count)
{
    static struct thread_use kinds[MAX_THREADS];
    int count = 0;

    for (int i = 0; i < now_count; i++) {
        for (int k = 0; k < then_count; k++)
            if (then[k].id == now[i].id)
                subtract(&now[i], &then[k]);
        count = add_kind(kinds, count, &now[i]);
    }
    fprintf(file, "[");
    for (int k = 0; k < count; k++)
        fprintf(file,
                "%s{\"kind\": \"%s\", \"threads\": %d, \"cpu_us\": %.1f, \"user_us\": %.0f, "
                "\"system_us\": %.0f, \"wait_us\": %.1f, \"voluntary\": %llu, \"involuntary\": "
                "%llu}",
                k ? ", " : "", kinds[k].kind, kinds[k].threads, (double)kinds[k].cpu_ns / 1e3,
                (double)kinds[k].user_ns / 1e3, (double)kinds[k].system_ns / 1e3,
                (double)kinds[k].wait_ns / 1e3, (unsigned long long)kinds[k].voluntary,
                (unsigned long long)kinds[k].involuntary);
    fprintf(file, "]");
}
