/*
 * How loaders make a topology: add objects and edges in any order, then finish. For the files of
 * this room only; everyone else reads topo.h.
 * Threading: one thread owns a topology until it is finished.
 */
#ifndef BRAID_COMMON_TOPO_BUILD_H
#define BRAID_COMMON_TOPO_BUILD_H

#include "common/topo/topo.h"
#include "common/util.h"

#define BRAID_TOPO_MAX_OBJECTS    4096
#define BRAID_TOPO_MAX_EDGES      16384
#define BRAID_TOPO_MAX_FILE_BYTES (16 << 20)

struct braid_topo {
    struct braid_topo_object *objects;
    struct braid_topo_edge *edges;
    int object_count;
    int object_room;
    int edge_count;
    int edge_room;
    int nodes;
    int nvlink_domain; /* 0: derive it from the edges */
    bool nvlink_known; /* the source looked for NVLink: do not add it by part number */
    const char *origin;

    /* Made by braid_topo_finish(). */
    int *by_type[BRAID_TOPO_TYPES]; /* object ids by index */
    int type_count[BRAID_TOPO_TYPES];
    int *first_edge; /* edges of object i are edge_of[first_edge[i] .. first_edge[i + 1] - 1] */
    int *edge_of;
    int *gpu_nic; /* NIC index that is each GPU's share; -1 */
};

struct braid_topo *braid_topo_new(const char *origin);

/* A new object with every "unknown" set; returns its id, -E2BIG or -ENOMEM. */
int braid_topo_add(struct braid_topo *topo, enum braid_topo_type type, const char *name,
                   const char *busid);

/* Non-const access; the pointer is valid until the next braid_topo_add(). */
struct braid_topo_object *braid_topo_at(struct braid_topo *topo, int id);

/* Makes `parent` the parent of `id` over a PCIe edge. lanes 0 or GBps 0: unknown. Edge id or errno. */
int braid_topo_attach(struct braid_topo *topo, int id, int parent, int lanes, double lane_GBps,
                      enum braid_topo_source from);

/* An edge of any other type. Parallel NVLink edges of the same pair are added up. Edge id or errno. */
int braid_topo_link(struct braid_topo *topo, enum braid_topo_link type, int a, int b, int lanes,
                    double lane_GBps, enum braid_topo_source from);

/*
 * Removes bridges that lead to nothing or to one child only, joins NVSwitches into one object, fills
 * what is unknown from the tables, orders objects, lays out rails and builds the indexes. Parents must
 * form a tree, which they do when every parent is added before its children. Object and edge ids
 * change. -E2BIG, -ENOMEM.
 */
int braid_topo_finish(struct braid_topo *topo, struct braid_topo_error *error);

/* Deals NICs out to the GPUs; the last step of braid_topo_finish(), in topo_path.c. */
int braid_topo_share_nics(struct braid_topo *topo);

/* Lower case, "0000:" put in front where the domain is missing; false if it is no bus id. */
bool braid_topo_busid(const char *text, char out[BRAID_TOPO_BUSID_LEN]);

/* Fills *error (may be NULL) and returns rc. */
int braid_topo_fail(struct braid_topo_error *error, int rc, const char *source, int line,
                    int column, const char *fmt, ...) BRAID_PRINTF(6, 7);

/* A decimal number with a point and no sign, whatever the locale; *end is behind it. -EINVAL. */
int braid_topo_number(const char *text, double *out, const char **end);

/* Copies with truncation and a NUL. */
void braid_topo_copy(char *out, size_t size, const char *text);

/* Reads a whole file into a new NUL-terminated buffer. */
int braid_topo_slurp(const char *path, char **text, size_t *bytes, struct braid_topo_error *error);

/* True if `id` hangs below `ancestor` (or is it). */
bool braid_topo_below(const struct braid_topo *topo, int id, int ancestor);

/* The NUMA object that `id` hangs on; -1: none. */
int braid_topo_numa_of(const struct braid_topo *topo, int id);

/* True where NVLink alone joins every GPU of the node. */
bool braid_topo_nvlink_joins_all(const struct braid_topo *topo);

#endif
