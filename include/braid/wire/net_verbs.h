/*
 * What the two ends of a verbs connection tell each other: the offer of the handshake, the control ring that a peer writes into,
 * and the 32 bits of immediate data. Little-endian, except GIDs, which are in the order of the wire.
 *
 * A control ring is memory of the receiver. The sender writes one record after the other: a ring head, the record with its body, and
 * a tail word that is not zero; everything is a multiple of 8 bytes. A record starts at an offset below the ring's size and may run past
 * it into a slack of BRAID_VERBS_RECORD_MAX; the next one then starts at 0. The receiver zeroes what it has consumed, so a head or tail that is not zero
 * is new. A record of more than one packet counts only when its immediate has come (BRAID_VERBS_IMM_CONTROL), because a
 * network with adaptive routing may place packets in any order; into memory behind BRAID_VERBS_NO_ORDER that holds for every record.
 */
#ifndef BRAID_WIRE_NET_VERBS_H
#define BRAID_WIRE_NET_VERBS_H

#include "braid/wire/net_record.h"

#define BRAID_VERBS_OFFER_VERSION 3
#define BRAID_VERBS_RAILS         8
#define BRAID_VERBS_GIDS          5      /* offered a rail, best first */
#define BRAID_VERBS_RING_BYTES    32768u /* of the ring that a receiver of messages has */
#define BRAID_VERBS_BACK_BYTES    16384u /* of the one that a sender has: words of receives, credit */
#define BRAID_VERBS_RECORD_MAX    4096u /* of head, record, body and tail */

struct braid_verbs_gid {
    uint8_t raw[16];
    uint8_t type;  /* enum braid_verbs_gid_type */
    uint8_t index; /* in the table of the port; for messages */
    uint16_t reserved;
};
BRAID_WIRE_ASSERT(sizeof(struct braid_verbs_gid) == 20, "GID layout");

enum braid_verbs_gid_type {
    BRAID_VERBS_GID_IB = 0,
    BRAID_VERBS_GID_V1 = 1,
    BRAID_VERBS_GID_V2 = 2
};
enum braid_verbs_link { BRAID_VERBS_LINK_IB = 1, BRAID_VERBS_LINK_ETHERNET = 2 };

/* One port of the offering side. */
struct braid_verbs_rail {
    char name[24]; /* "mlx5_0:1", ends with a zero */
    uint8_t link;  /* enum braid_verbs_link */
    uint8_t mtu;   /* enum ibv_mtu: 1 = 256 bytes .. 5 = 4096 */
    uint8_t gid_count;
    uint8_t gpu; /* 1: buffers may be in GPU memory */
    uint32_t speed_Mbps;
    uint16_t lid;
    uint16_t pkey;
    uint32_t reserved2;
    struct braid_verbs_gid gids[BRAID_VERBS_GIDS];
};
BRAID_WIRE_ASSERT(sizeof(struct braid_verbs_rail) == 140, "rail layout");

/* One queue pair of the offering side and the memory that the peer writes through it. */
struct braid_verbs_lane {
    uint64_t ring_addr;   /* its ring and the slack */
    uint64_t credit_addr; /* one struct braid_verbs_credit_cell */
    uint32_t rkey;        /* of both */
    uint32_t qpn;
    uint32_t ece_vendor, ece_options; /* 0: none */
    uint16_t rail;                    /* index in the offer */
    uint16_t recvs;                   /* receives posted for immediates */
    uint32_t flags;                   /* BRAID_VERBS_NO_ORDER */
};
BRAID_WIRE_ASSERT(sizeof(struct braid_verbs_lane) == 40, "lane layout");

/*
 * The NIC of the offering side stores the bytes of a packet in any order, the end of a record before its head: software does (the kernel's
 * memcpy for Soft-RoCE). A NIC on PCIe stores them in ascending order.
 */
#define BRAID_VERBS_NO_ORDER 1u

/* The offer: this header, `rails` rails, `lanes` lanes. */
struct braid_verbs_offer {
    uint16_t version;
    uint8_t rails, lanes;
    uint32_t ring_bytes;
};
BRAID_WIRE_ASSERT(sizeof(struct braid_verbs_offer) == 8, "offer layout");
BRAID_WIRE_ASSERT(sizeof(struct braid_verbs_offer) +
                          BRAID_VERBS_RAILS * sizeof(struct braid_verbs_rail) +
                          16 * sizeof(struct braid_verbs_lane) <=
                      2048,
                  "an offer fits");

/* What the writer has taken in, as running sums that wrap. Sent in every head, or alone when there is nothing else to say. */
struct braid_verbs_credit {
    uint32_t ring;  /* bytes of the peer's records consumed */
    uint32_t recvs; /* receives posted for the peer's immediates */
};
BRAID_WIRE_ASSERT(sizeof(struct braid_verbs_credit) == 8, "credit layout");

/* How it is sent alone: a reader that finds the two halves at odds has come between the stores and looks again later. */
struct braid_verbs_credit_cell {
    struct braid_verbs_credit credit, inverted; /* all bits */
};
BRAID_WIRE_ASSERT(sizeof(struct braid_verbs_credit_cell) == 16, "credit cell layout");

struct braid_verbs_head {
    /* of head, record, body and tail, rounded up to 8; BRAID_VERBS_BY_IMM may be set */
    uint32_t bytes;
    uint32_t chunks; /* immediates of chunks posted on this lane before it */
    struct braid_verbs_credit credit;
};
BRAID_WIRE_ASSERT(sizeof(struct braid_verbs_head) == 16, "ring head layout");
#define BRAID_VERBS_BY_IMM 0x80000000u

/*
 * Immediate data, in network byte order. Control: a record of the ring is complete. Otherwise a chunk: the low 15 bits of its
 * sub number, the chunk's number and how many chunks the message has, less one.
 */
#define BRAID_VERBS_IMM_CONTROL 0x80000000u
#define BRAID_VERBS_SUB_MASK    0x7fffu /* at bit 16; the chunk's number is at bit 8 */

/* Keys of a registration: one a rail of the device that made it, in the order of its offer. */
struct braid_verbs_keys {
    uint32_t count;
    uint32_t rkeys[BRAID_VERBS_RAILS];
};

#endif
