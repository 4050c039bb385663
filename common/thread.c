/* Starting helper threads; see thread.h. */
#include "common/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int braid_thread_start(pthread_t *thread, const char *name, void *(*fn)(void *), void *arg)
{
    sigset_t all, before;
    int err;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    err = pthread_create(thread, NULL, fn, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err != 0)
        return -err;
    pthread_setname_np(*thread, name);
    return 0;
}

bool braid_cpu_list_parse(const char *text, cpu_set_t *set)
{
    CPU_ZERO(set);
    while (*text != '\0' && *text != '\n') {
        char *end;
        unsigned long first = strtoul(text, &end, 10), last = first;
        if (end == text)
            return false;
        if (*end == '-') {
            text = end + 1;
            last = strtoul(text, &end, 10);
            if (end == text || last < first)
                return false;
        }
        for (; first <= last && first < CPU_SETSIZE; first++)
            CPU_SET(first, set);
        if (*end != ',' && *end != '\0' && *end != '\n')
            return false;
        text = *end == ',' ? end + 1 : end;
    }
    return CPU_COUNT(set) > 0;
}

unsigned braid_thread_processors(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        return (unsigned)CPU_COUNT(&set);
    return 1;
}

int braid_thread_bind(pthread_t thread, int node)
{
    char path[64], text[1024];
    cpu_set_t near, may;
    FILE *file;
    bool got;

    snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/cpulist", node);
    file = node >= 0 ? fopen(path, "re") : NULL;
    if (file == NULL)
        return -ENOENT;
    got = fgets(text, sizeof(text), file) != NULL && braid_cpu_list_parse(text, &near);
    fclose(file);
    if (!got)
        return -ENOENT;
    if (pthread_getaffinity_np(thread, sizeof(may), &may) != 0)
        return -EINVAL;
    CPU_AND(&may, &may, &near);
    if (CPU_COUNT(&may) == 0)
        return -EINVAL;
    return -pthread_setaffinity_np(thread, sizeof(may), &may);
}
