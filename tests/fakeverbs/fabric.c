/*
 * Maps the shared file of the fabric, enters this process and its scripted devices, and sends asynchronous events.
 * The file is FAKEVERBS_FABRIC, or one a process group in /dev/shm. The last process that leaves removes it.
 */
#include "fabric.h"

#include "fakeverbs.h"
#include "script.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define FABRIC_MAGIC 0x66767262u

static struct fv_fabric *fabric;
static struct fv_counters *counters;
static struct fv_counters spare_counters;
static pid_t owner;
static char fabric_path[256];
static pthread_mutex_t map_lock = PTHREAD_MUTEX_INITIALIZER;

static void fabric_init(struct fv_fabric *f)
{
    pthread_mutexattr_t attr;

    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&f->lock, &attr);
    pthread_mutexattr_destroy(&attr);
    f->magic = FABRIC_MAGIC;
}

struct fv_fabric *fv_fabric_map(const char *path, bool create)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | (create ? O_CREAT : 0), 0600);
    struct fv_fabric *f;

    if (fd < 0)
        return NULL;
    flock(fd, LOCK_EX);
    if (ftruncate(fd, sizeof(*f)) != 0) {
        close(fd);
        return NULL;
    }
    f = mmap(NULL, sizeof(*f), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (f != MAP_FAILED && f->magic != FABRIC_MAGIC)
        fabric_init(f);
    flock(fd, LOCK_UN); /* explicitly: the mapping keeps the file, and with it the lock, open */
    close(fd);
    return f == MAP_FAILED ? NULL : f;
}

void fv_fabric_lock(struct fv_fabric *f)
{
    if (pthread_mutex_lock(&f->lock) == EOWNERDEAD)
        pthread_mutex_consistent(&f->lock);
}

void fv_fabric_unlock(struct fv_fabric *f)
{
    pthread_mutex_unlock(&f->lock);
}

int fv_fabric_find_device(struct fv_fabric *f, const char *node, const char *name)
{
    for (uint32_t i = 0; i < f->device_count; i++)
        if (strcmp(f->devices[i].node, node) == 0 && strcmp(f->devices[i].name, name) == 0)
            return (int)i;
    return -1;
}

static bool process_alive(pid_t pid)
{
    return kill(pid, 0) == 0 || errno != ESRCH;
}

/* A file that nobody uses any more is an earlier test's: nothing in it counts. */
static void forget_dead(struct fv_fabric *f)
{
    for (int i = 0; i < FV_MAX_PROCESSES; i++)
        if (f->processes[i].used && process_alive(f->processes[i].pid))
            return;
    f->device_count = 0;
    for (int i = 0; i < FV_MAX_OPENS; i++)
        if (f->opens[i].used) /* reading a hole allocates nothing */
            f->opens[i].used = false;
    for (int i = 0; i < FV_MAX_MRS; i++)
        if (f->mrs[i].used)
            f->mrs[i].used = false;
    for (int i = 0; i < FV_MAX_QPS; i++)
        if (f->qps[i].used)
            f->qps[i].used = false;
    for (int i = 0; i < FV_MAX_CQS; i++)
        if (f->cqs[i].used)
            f->cqs[i].used = false;
}

static void enter_process(struct fv_fabric *f, const struct fv_script *script)
{
    for (int i = 0; i < FV_MAX_PROCESSES; i++) {
        struct fv_process *process = &f->processes[i];
        if (process->used && process_alive(process->pid))
            continue;
        memset(process, 0, sizeof(*process));
        process->used = true;
        process->pid = getpid();
        snprintf(process->node, sizeof(process->node), "%s", script->node);
        counters = &process->counters;
        return;
    }
    counters = &spare_counters;
}

static void enter_devices(struct fv_fabric *f, const struct fv_script *script)
{
    for (uint32_t i = 0; i < script->device_count; i++) {
        const struct fv_device_state *device = &script->devices[i];
        if (fv_fabric_find_device(f, device->node, device->name) < 0 &&
            f->device_count < FV_MAX_DEVICES)
            f->devices[f->device_count++] = *device;
    }
}

struct fv_fabric *fv_fabric_get(void)
{
    const char *path = getenv("FAKEVERBS_FABRIC");
    const struct fv_script *script = fv_script_get();

    pthread_mutex_lock(&map_lock);
    if (fabric && owner == getpid()) {
        pthread_mutex_unlock(&map_lock);
        return fabric;
    }
    if (path && *path)
        snprintf(fabric_path, sizeof(fabric_path), "%s", path);
    else
        snprintf(fabric_path, sizeof(fabric_path), "/dev/shm/braid-fakeverbs.%d", getpgrp());
    fabric = fv_fabric_map(fabric_path, true);
    if (fabric) {
        owner = getpid();
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); /* the peer writes into our memory */
        fv_fabric_lock(fabric);
        forget_dead(fabric);
        enter_process(fabric, script);
        enter_devices(fabric, script);
        fv_fabric_unlock(fabric);
    }
    pthread_mutex_unlock(&map_lock);
    return fabric;
}

struct fv_counters *fv_counters(void)
{
    return counters ? counters : &spare_counters;
}

void fv_fabric_event(struct fv_fabric *f, uint32_t device, uint32_t event)
{
    const struct fv_event_message message = {.event = event};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    for (int i = 0; fd >= 0 && i < FV_MAX_OPENS; i++) {
        const struct fv_open *open = &f->opens[i];
        if (open->used && open->device == device)
            sendto(fd, &message, sizeof(message), 0, (const struct sockaddr *)&open->event_address,
                   open->event_address_bytes);
    }
    if (fd >= 0)
        close(fd);
}

void fv_fabric_set_port(struct fv_fabric *f, uint32_t device, uint32_t state)
{
    f->devices[device].port_state = state;
    fv_fabric_event(f, device,
                    state == IBV_PORT_ACTIVE ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
}

int fakeverbs_event(const char *device, const char *name)
{
    struct fv_fabric *f = fv_fabric_get();
    int32_t port_state = -1;
    int event = fv_event_by_name(name, &port_state);
    int index;

    if (!f || event < 0)
        return -1;
    fv_fabric_lock(f);
    index = fv_fabric_find_device(f, fv_script_get()->node, device);
    if (index >= 0 && port_state >= 0)
        f->devices[index].port_state = (uint32_t)port_state;
    if (index >= 0)
        fv_fabric_event(f, (uint32_t)index, (uint32_t)event);
    fv_fabric_unlock(f);
    return index < 0 ? -1 : 0;
}

int fakeverbs_move_gid(const char *device, int from, int to)
{
    struct fv_fabric *f = fv_fabric_get();
    int index;

    if (!f || from < 0 || to < 0 || from >= FV_MAX_GIDS || to >= FV_MAX_GIDS)
        return -1;
    fv_fabric_lock(f);
    index = fv_fabric_find_device(f, fv_script_get()->node, device);
    if (index >= 0) {
        f->devices[index].gids[to] = f->devices[index].gids[from];
        f->devices[index].gids[from].valid = false;
    }
    fv_fabric_unlock(f);
    return index < 0 ? -1 : 0;
}

/* The last process to leave removes the file, so that nothing is left behind in /dev/shm. */
__attribute__((destructor)) static void fabric_leave(void)
{
    bool others = false;

    if (!fabric || owner != getpid())
        return;
    fv_counters_write();
    fv_fabric_lock(fabric);
    for (int i = 0; i < FV_MAX_PROCESSES; i++) {
        struct fv_process *process = &fabric->processes[i];
        if (process->used && process->pid == owner)
            process->used = false;
        others |= process->used && process_alive(process->pid);
    }
    fv_fabric_unlock(fabric);
    if (!others && !getenv("FAKEVERBS_FABRIC"))
        unlink(fabric_path);
    munmap(fabric, sizeof(*fabric));
    fabric = NULL;
    counters = NULL;
}
