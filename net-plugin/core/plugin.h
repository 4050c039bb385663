/*
 * The plugin's process-wide state: which transports are active, what NCCL's device numbers mean, who this process is. Internal to core.
 * Threading: written by init and the last finalize only; read by everyone in between.
 */
#ifndef BRAID_NET_PLUGIN_H
#define BRAID_NET_PLUGIN_H

#include "braid/wire/net_handshake.h"
#include "net-plugin/core/transport.h"

/* Whether the plugin is initialised, in this process: not so in a forked child, whose threads and descriptors are its parent's. */
bool braid_plugin_is_up(void);

/* Active transports for `dev` in order of preference: `i` from 0, NULL at the end. *tdev_p gets the transport's own device number. */
const struct braid_transport *braid_plugin_transport(int dev, unsigned i, int *tdev_p);
/* The active transport with this wire id, NULL if it is not active. */
const struct braid_transport *braid_plugin_transport_by_id(int dev, uint32_t id, int *tdev_p);

/*
 * Whether NCCL may register GPU memory on connections of this device. They have no eager messages: the CPU copies those at both ends and
 * cannot reach GPU memory, and a sender does not know what its receive lies in.
 */
bool braid_plugin_takes_gpu_memory(int dev);
/*
 * Looks for Braid's tuner, and for whatever else lies in libraries and handshakes need. By listen and connect, without the maintenance lock:
 * the loader's lock is held by dlclose while it ends our threads, so none of those may ever want it.
 */
void braid_plugin_look_around(void);
/* Identity for handshakes, with the tuner as it was found last. Maintenance lock held. */
void braid_plugin_identity(int dev, struct braid_hs_identity *self);
/* Traffic class of a context, -1 if none. */
int braid_plugin_traffic_class(void *ctx);

/* listen.c and connect.c: forget everything (last finalize). */
void braid_listen_stop(void);
void braid_connect_stop(void);

#endif
