/*
 * What the ranks of a device communicator tell each other while it and its windows are made: one record a rank, moved by the
 * bootstrap's all-gather, and the datagram that carries a file descriptor. Host byte order: all ranks run on one architecture,
 * and the version word tells when they do not.
 * Written and read by device/host; no functions.
 */
#ifndef BRAID_WIRE_DEVICE_HELLO_V1_H
#define BRAID_WIRE_DEVICE_HELLO_V1_H

#include "devcomm_v1.h"

#define BRAID_HELLO_VERSION 0x62640001u /* 'bd', version 1 */

/* Who a rank is and what it can do. */
struct braid_hello {
    uint32_t version; /* BRAID_HELLO_VERSION */
    int32_t status; /* negative errno when this rank cannot take part; the rest is then not valid */
    uint8_t host[16]; /* identity of the running kernel (boot id) */
    uint64_t netns;   /* number of the network namespace */
    uint64_t pidns;   /* number of the PID namespace */
    /* PID and a random number drawn once a process: equal means one address space */
    uint64_t process;
    uint64_t nonce;
    uint8_t gpu_uuid[16];
    int32_t gpu;      /* device ordinal inside its process */
    uint32_t sms;     /* of the whole GPU */
    uint32_t fabric;  /* 1 = fabric handles can be created and exported here */
    uint32_t signals; /* the configuration, which must be equal on all ranks */
    uint32_t barriers;
    uint32_t slots;
    uint32_t first_epoch;
    uint32_t allow_partial;
    uint64_t socket_name; /* of the socket that takes file descriptors */
    uint8_t secret[16];   /* what a datagram to that socket must carry */
};
BRAID_STATIC_ASSERT(sizeof(struct braid_hello) == 128, "hello");
BRAID_OFFSET_ASSERT(braid_hello, gpu_uuid, 56);
BRAID_OFFSET_ASSERT(braid_hello, socket_name, 104);

/* How a rank's memory reaches the others. */
#define BRAID_OFFER_ADDRESS 1u /* only inside the process; or the caller gave all addresses */
#define BRAID_OFFER_FD      2u /* file descriptor over the socket */
#define BRAID_OFFER_FABRIC  3u /* fabric handle in `handle` */
#define BRAID_OFFER_IPC     4u /* CUDA IPC handle in `handle` */

/* One rank's part of a new window. */
struct braid_offer {
    int32_t status;       /* negative errno when this rank has no memory to offer */
    uint32_t kind;        /* BRAID_OFFER_* */
    uint32_t serial;      /* of the window in its communicator */
    uint32_t peers_given; /* the caller brought the addresses of the peers */
    uint64_t bytes;       /* of the window */
    uint64_t address;     /* in the owner's process */
    uint64_t segment;     /* of the allocation behind it: bytes to map */
    uint64_t offset;      /* of the window in that allocation */
    uint64_t shared;      /* the owner's reference count; means something only in its process */
    uint8_t handle[64];
};
BRAID_STATIC_ASSERT(sizeof(struct braid_offer) == 120, "offer");
BRAID_OFFSET_ASSERT(braid_offer, handle, 56);

/* Travels with one file descriptor (SCM_RIGHTS). */
struct braid_fd_message {
    uint32_t version; /* BRAID_HELLO_VERSION */
    int32_t rank;     /* the sender */
    uint32_t serial;  /* of the window */
    uint32_t reserved;
    uint8_t secret[16]; /* the receiver's */
};
BRAID_STATIC_ASSERT(sizeof(struct braid_fd_message) == 32, "fd message");

#endif
