/*
 * The few calls of NCCL that braid-overlap measures against, from libnccl.so.2 opened at run time. Our own declarations; the values
 * are NCCL's public ABI and have not changed since 2.10 (bf16).
 * Threading: as NCCL's. Called by: bench.c.
 */
#ifndef BRAID_OVERLAP_NCCL_H
#define BRAID_OVERLAP_NCCL_H

#include <stddef.h>

enum { NCCL_FLOAT = 7, NCCL_HALF = 6, NCCL_BFLOAT16 = 9, NCCL_SUM = 0 };

struct nccl_id {
    char internal[128];
};

struct CUstream_st;

struct nccl {
    int (*version)(int *version);
    int (*unique_id)(struct nccl_id *id);
    int (*init_rank)(void **comm, int ranks, struct nccl_id id, int rank);
    int (*destroy)(void *comm);
    int (*all_gather)(const void *send, void *recv, size_t count, int type, void *comm,
                      struct CUstream_st *stream);
    int (*reduce_scatter)(const void *send, void *recv, size_t count, int type, int op, void *comm,
                          struct CUstream_st *stream);
    int (*all_reduce)(const void *send, void *recv, size_t count, int type, int op, void *comm,
                      struct CUstream_st *stream);
};

/* 0; -ENOENT or -ENOSYS with the reason in `why`. */
int nccl_open(struct nccl *nccl, char *why, size_t why_bytes);

#endif
