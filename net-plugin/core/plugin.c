/*
 * Init, finalize and devices. The first init reads the tunables, the interfaces and the transports; the last finalize undoes it, so that
 * the library can be unloaded or started again. Threads start later, at the first listen or connect.
 * Interfaces before v11 have no finalize: there an init is never undone, and the library must then not be unloaded with open work;
 * the destructor below joins the threads in that case.
 */
#include "net-plugin/core/plugin.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "braid/version.h"
#include "common/hmac.h"
#include "common/log.h"
#include "common/param.h"
#include "common/tuner_id.h"
#include "common/util.h"
#include "net-plugin/core/maint.h"
#include "net-plugin/core/net.h"

#define MAX_TRANSPORTS 4
#define MAX_DEVICES    64

/* What init returns. NCCL may pass it, NULL or another one anywhere, and finalize it twice: contexts are counted, not trusted. */
struct context {
    struct context *next;
    int traffic_class;
};

static struct {
    pthread_mutex_t lock;
    unsigned inits;
    pid_t pid;
    struct context *contexts;
    const struct braid_transport *active[MAX_TRANSPORTS];
    unsigned active_count;
    struct braid_device_props devices[MAX_DEVICES]; /* NCCL's; answered for even after finalize */
    int first_of[MAX_DEVICES];                      /* the first transport's number of each */
    int devices_count, physical_count;              /* the others are virtual, and come last */
    struct braid_netif netifs[BRAID_NETIF_MAX];
    int netifs_count;
    char host[64];
    struct braid_wire_tuner_id tuner; /* under the maintenance lock; hash 0: none */
} plugin = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool braid_plugin_is_up(void)
{
    return plugin.inits > 0 && plugin.pid == getpid();
}

const struct braid_netif *braid_netifs(int *count_p)
{
    *count_p = plugin.netifs_count;
    return plugin.netifs;
}

static void start_transport(const struct braid_transport *t)
{
    for (unsigned i = 0; i < plugin.active_count; i++)
        if (plugin.active[i] == t)
            return;
    if (t->init() != 0)
        return;
    if (t->device_count() == 0 || plugin.active_count == MAX_TRANSPORTS) {
        BRAID_INFO(BRAID_LOG_INIT | BRAID_LOG_NET, "transport %s: no device", t->name);
        t->fini();
        return;
    }
    plugin.active[plugin.active_count++] = t;
}

/* A misspelt name would leave NCCL without a device of ours, and NCCL says so at INFO only: hence the warning. */
static void start_named_transport(const char *name, size_t length)
{
    char names[128] = "";

    for (const struct braid_transport *const *t = braid_transports; *t != NULL; t++) {
        size_t used = strlen(names);

        if (strlen((*t)->name) == length && strncasecmp(name, (*t)->name, length) == 0) {
            start_transport(*t);
            return;
        }
        snprintf(names + used, sizeof(names) - used, "%s%s", used > 0 ? ", " : "", (*t)->name);
    }
    BRAID_WARN("BRAID_TRANSPORT: \"%.*s\" is no transport; there are: %s", (int)length, name,
               names);
}

/*
 * Virtual devices of an earlier start. NCCL makes them once for a library that it keeps (NCCL_NET_PLUGIN_REF_COUNT), and goes on with their
 * numbers after a finalize.
 */
static void make_again(int before)
{
    for (int i = plugin.devices_count; i < before; i++) {
        struct braid_device_props old = plugin.devices[i];
        int dev, err = braid_net_make_vdevice(old.devs, old.ndevs, &dev);
        if (err != 0 || dev != i) {
            BRAID_WARN("virtual device %d of earlier communicators cannot be made again: %s", i,
                       strerror(-err));
            return;
        }
    }
}

static void start_transports(void)
{
    const char *wanted = braid_param_str(BRAID_P_TRANSPORT);
    int before = plugin.devices_count, physical_before = plugin.physical_count;

    plugin.active_count = 0;
    if (*wanted == '\0')
        for (const struct braid_transport *const *t = braid_transports; *t != NULL; t++)
            start_transport(*t);
    else
        BRAID_INFO(BRAID_LOG_INIT | BRAID_LOG_NET, "transports by BRAID_TRANSPORT: %s", wanted);
    for (size_t length; *wanted != '\0'; wanted += length + (wanted[length] == ',')) {
        length = strcspn(wanted, ",");
        if (length > 0)
            start_named_transport(wanted, length);
    }
    plugin.devices_count =
        plugin.active_count > 0 ? MIN(plugin.active[0]->device_count(), MAX_DEVICES) : 0;
    for (int i = 0; i < plugin.devices_count; i++) {
        plugin.first_of[i] = i;
        plugin.active[0]->device_props(i, &plugin.devices[i]);
    }
    plugin.physical_count = plugin.devices_count;
    if (plugin.physical_count == physical_before)
        make_again(before);
}

static int start(void)
{
    braid_param_reload();
    if (gethostname(plugin.host, sizeof(plugin.host) - 1) != 0)
        snprintf(plugin.host, sizeof(plugin.host), "(unnamed host)");
    plugin.netifs_count = braid_netif_list(
        braid_param_str(BRAID_P_SOCKET_IFNAME),
        braid_netif_family(braid_param_str(BRAID_P_SOCKET_FAMILY)), plugin.netifs, BRAID_NETIF_MAX);
    if (plugin.netifs_count < 0) {
        BRAID_WARN("cannot list network interfaces: %s", strerror(-plugin.netifs_count));
        plugin.netifs_count = 0;
    }
    BRAID_INFO(BRAID_LOG_INIT | BRAID_LOG_NET, "Braid " BRAID_VERSION_STRING ", network plugin");
    start_transports();
    plugin.pid = getpid();
    return 0;
}

static void stop(void)
{
    braid_connect_stop();
    braid_listen_stop();
    braid_maint_stop();
    for (unsigned i = plugin.active_count; i > 0; i--)
        plugin.active[i - 1]->fini();
    plugin.active_count = 0;
}

int braid_net_init(void **ctx_p, int traffic_class)
{
    struct context *context = calloc(1, sizeof(*context));
    int err = 0;

    if (context == NULL)
        return -ENOMEM;
    context->traffic_class = traffic_class;
    pthread_mutex_lock(&plugin.lock);
    if (plugin.inits > 0 && plugin.pid != getpid()) {
        BRAID_WARN("init in a forked child of a process that uses the plugin already: start the "
                   "child afresh (exec)");
        err = -ENOTSUP;
    } else if (plugin.inits == 0) {
        err = start();
    }
    if (err == 0) {
        plugin.inits++;
        context->next = plugin.contexts;
        plugin.contexts = context;
    }
    pthread_mutex_unlock(&plugin.lock);
    if (err != 0)
        free(context);
    else if (ctx_p != NULL)
        *ctx_p = context;
    return err;
}

int braid_net_finalize(void *ctx)
{
    struct context **at;

    pthread_mutex_lock(&plugin.lock);
    for (at = &plugin.contexts; *at != NULL && *at != ctx; at = &(*at)->next)
        ;
    if (*at == NULL) { /* NULL, or ended before */
        pthread_mutex_unlock(&plugin.lock);
        return 0;
    }
    *at = (*at)->next;
    free(ctx);
    plugin.inits--;
    if (plugin.inits == 0 && plugin.pid == getpid())
        stop();
    pthread_mutex_unlock(&plugin.lock);
    return 0;
}

/* The library goes while it is initialised (old interfaces, or an exiting process): its threads must not outlive its code. */
__attribute__((destructor)) static void unload(void)
{
    if (plugin.inits > 0 && plugin.pid == getpid())
        stop();
    plugin.inits = 0;
    while (plugin.contexts != NULL) {
        struct context *context = plugin.contexts;
        plugin.contexts = context->next;
        free(context);
    }
}

/* -- devices ------------------------------------------------------------------------------------------------------------------ */

const struct braid_transport *braid_plugin_transport(int dev, unsigned i, int *tdev_p)
{
    if (i >= plugin.active_count)
        return NULL;
    *tdev_p = i == 0 ? plugin.first_of[dev] : dev % plugin.active[i]->device_count();
    return plugin.active[i];
}

const struct braid_transport *braid_plugin_transport_by_id(int dev, uint32_t id, int *tdev_p)
{
    const struct braid_transport *t;

    for (unsigned i = 0; (t = braid_plugin_transport(dev, i, tdev_p)) != NULL; i++)
        if (t->id == id)
            return t;
    return NULL;
}

int braid_net_device_count(int *count_p)
{
    *count_p = plugin.devices_count;
    return 0;
}

int braid_net_device_props(int dev, struct braid_device_props *props)
{
    if (dev < 0 || dev >= plugin.devices_count) {
        BRAID_WARN("there is no device %d", dev);
        return -EINVAL;
    }
    *props = plugin.devices[dev];
    return 0;
}

bool braid_plugin_takes_gpu_memory(int dev)
{
    return dev >= 0 && dev < plugin.devices_count &&
           (plugin.devices[dev].ptr_support & BRAID_PTR_CUDA) != 0;
}

void braid_plugin_identity(int dev, struct braid_hs_identity *self)
{
    memset(self, 0, sizeof(*self));
    snprintf(self->host, sizeof(self->host), "%s", plugin.host);
    snprintf(self->release, sizeof(self->release), "%s", BRAID_VERSION_STRING);
    self->pid = (uint32_t)getpid();
    self->dev = (uint32_t)dev;
    self->tuner_hash = plugin.tuner.hash;
    snprintf(self->tuner, sizeof(self->tuner), "%s", plugin.tuner.name);
}

void braid_plugin_look_around(void)
{
    struct braid_wire_tuner_id tuner;
    uint8_t mac[BRAID_HMAC_BYTES];

    braid_hmac("key", 3, "data", 4, mac);
    if (!braid_tuner_id_find(&tuner))
        memset(&tuner, 0, sizeof(tuner));
    braid_maint_lock();
    plugin.tuner = tuner;
    braid_maint_unlock();
}

int braid_plugin_traffic_class(void *ctx)
{
    int traffic_class = -1;

    pthread_mutex_lock(&plugin.lock);
    for (struct context *c = plugin.contexts; c != NULL; c = c->next)
        if (c == ctx)
            traffic_class = c->traffic_class;
    pthread_mutex_unlock(&plugin.lock);
    return traffic_class;
}

/* The virtual device of exactly these, if it was made before; NCCL asks again for each communicator. */
static int find_vdevice(const int *devs, int count)
{
    for (int i = 0; i < plugin.devices_count; i++) {
        const struct braid_device_props *device = &plugin.devices[i];
        int same = 0;
        while (device->ndevs == count && same < count && device->devs[same] == devs[same])
            same++;
        if (same == count)
            return i;
    }
    return -1;
}

int braid_net_make_vdevice(const int *devs, int count, int *dev_p)
{
    struct braid_device_props *device = &plugin.devices[plugin.devices_count];
    int tdev;

    if (count < 1 || count > BRAID_VDEV_MAX || plugin.devices_count == 0)
        return -EINVAL;
    for (int i = 0; i < count; i++)
        if (devs[i] < 0 || devs[i] >= plugin.devices_count || plugin.devices[devs[i]].ndevs != 1)
            return -EINVAL;
    *dev_p = find_vdevice(devs, count);
    if (*dev_p >= 0)
        return 0;
    if (plugin.devices_count == MAX_DEVICES)
        return -ENOSPC;
    tdev = plugin.active[0]->device_fuse(devs, count);
    if (tdev < 0 && tdev != -EOPNOTSUPP)
        return tdev;
    plugin.first_of[plugin.devices_count] = tdev < 0 ? devs[0] : tdev;
    plugin.active[0]->device_props(plugin.first_of[plugin.devices_count], device);
    device->ndevs = count;
    for (int i = 0; i < count; i++)
        device->devs[i] = devs[i];
    *dev_p = plugin.devices_count++;
    return 0;
}
