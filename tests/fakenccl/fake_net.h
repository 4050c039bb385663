/*
 * A net plugin as the fake NCCL core sees it: any library, any interface version from 6 to 12,
 * behind one set of functions. Finds and opens the library by NCCL's rules and picks the symbol.
 * Owns the dlopen handle. Every call returns the plugin's own result (0 is success).
 * Sizes are size_t here; for the versions whose interface has int sizes a larger value is refused
 * with FAKE_TOO_LARGE before the plugin sees it, as NCCL does.
 * Threading: as NCCL's rules say (include/nccl/README.md); this layer adds no state and no lock.
 */
#ifndef FAKE_NET_H
#define FAKE_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_OLDEST       6
#define FAKE_NEWEST       12
#define FAKE_HANDLE_BYTES 128
#define FAKE_MAX_GROUP    8
#define FAKE_MAX_REQUESTS 32
#define FAKE_TOO_LARGE    (-1)
#define FAKE_OPTIONAL     ((void *)0x1)

#define FAKE_PTR_HOST 1
#define FAKE_PTR_CUDA 2

struct fake_net {
    void *library;
    const void *table;
    int version;
    const char *name;
};

struct fake_props {
    const char *name;
    const char *pci_path;
    uint64_t guid;
    int ptr_support;
    int reg_is_global;
    int force_flush;
    int speed_mbps;
    int port;
    float latency_us;
    int max_comms;
    int max_recvs;
    int device_type;
    size_t max_p2p_bytes; /* 1 GiB where the interface has no such field */
};

/*
 * Opens `plugin` as NCCL would (a path or lib*.so, else libnccl-net-<plugin>.so) and takes version
 * `version`, or the newest for 0. Returns 0; -ENOENT if the library does not open, -ENOSYS if it
 * has no such version; `why` then says what was tried.
 */
int fake_net_open(const char *plugin, int version, struct fake_net *net, char *why, size_t size);
void fake_net_close(struct fake_net *net);
bool fake_net_has(const struct fake_net *net, int version);

/* Messages of the plugin go to stderr: 0 none, 1 warnings, 2 everything. */
extern int fake_log_level;
/* Counts the warnings that the plugin logged, in this process. */
extern _Atomic int fake_log_warnings;
/* Put in front of every line, e.g. the rank. */
extern char fake_log_prefix[32];

/*
 * Where a thread is: which call of the plugin it is inside (NULL: none) and how many it has made.
 * A thread points fake_note at its own; another process watches for calls that do not return.
 */
struct fake_note {
    const char *_Atomic inside;
    _Atomic uint64_t calls;
};
extern _Thread_local struct fake_note *fake_note;

int fake_net_init(const struct fake_net *net, void **ctx);
int fake_net_finalize(const struct fake_net *net, void *ctx);
int fake_net_devices(const struct fake_net *net, int *count);
int fake_net_properties(const struct fake_net *net, int dev, struct fake_props *props);
/* One virtual device of `count` devices from `first` on; v9 and later. */
int fake_net_make_vdevice(const struct fake_net *net, int first, int count, int *dev);
int fake_net_listen(const struct fake_net *net, void *ctx, int dev, void *handle, void **comm);
int fake_net_connect(const struct fake_net *net, void *ctx, int dev, void *handle, void **comm);
int fake_net_accept(const struct fake_net *net, void *listener, void **comm);
int fake_net_reg(const struct fake_net *net, void *comm, void *data, size_t size, void **mh);
int fake_net_dereg(const struct fake_net *net, void *comm, void *mh);
int fake_net_isend(const struct fake_net *net, void *comm, void *data, size_t size, int tag,
                   void *mh, void **request);
/* *request may hold FAKE_OPTIONAL on entry; versions below 9 get NULL instead, as in NCCL. */
int fake_net_irecv(const struct fake_net *net, void *comm, int n, void **data, const size_t *sizes,
                   int *tags, void **mh, void **request);
int fake_net_iflush(const struct fake_net *net, void *comm, int n, void **data, int *sizes,
                    void **mh, void **request);
int fake_net_test(const struct fake_net *net, void *request, int *done, int *sizes);
int fake_net_close_send(const struct fake_net *net, void *comm);
int fake_net_close_recv(const struct fake_net *net, void *comm);
int fake_net_close_listen(const struct fake_net *net, void *comm);

const char *fake_result_name(int result);

#endif
