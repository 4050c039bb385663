/*
 * Records: what the two ends of a connection say to each other once it is up. Core reads and writes them; a transport only
 * carries them. All integers are little-endian, which is what every host that Braid supports uses.
 *
 * Control records have a sequence number, are delivered once and in that order, and travel on one lane at a time (any lane after
 * a failover). BRAID_REC_CHUNK is not a control record: stream transports frame bulk data with it, on any lane, in any order.
 * Nothing is ordered across lanes, so a chunk may land before the START that announces its message, and before that is sent.
 */
#ifndef BRAID_WIRE_NET_RECORD_H
#define BRAID_WIRE_NET_RECORD_H

#include <stdint.h>

#ifdef __cplusplus
#define BRAID_WIRE_ASSERT static_assert
#else
#define BRAID_WIRE_ASSERT _Static_assert
#endif

enum braid_rec_type {
    /* receiver to sender: `body` is an array of braid_recv_word, in posted order */
    BRAID_REC_RECV = 1,
    BRAID_REC_EAGER = 2, /* sender to receiver: a whole message, `arg` its tag, `body` its bytes */
    /*
     * sender to receiver: message of `value` bytes goes into sub `arg`, in chunks of 1 << `shift` bytes. Comes before any later EAGER, which
     * must not be taken for that sub; chunks do not wait for it, so it may wait until something else is to be sent.
     */
    BRAID_REC_START = 3,
    BRAID_REC_CHUNK = 4, /* sender to receiver: `body` lands in sub `arg` at offset `value` */
    /* receiver to sender: registration `arg`; `body` is the transport's description of it */
    BRAID_REC_MR = 5,
    BRAID_REC_CREDIT = 6, /* either way: says nothing but its header (acknowledgement and credit) */
    /* either way: the connection is given up; `arg` the errno, `body` a line of text for the peer's log */
    BRAID_REC_FAIL = 7,
    /* either way, outside the sequence: orderly close; an end of stream without it means that the peer died */
    BRAID_REC_BYE = 8,
    /* receiver to sender: every sub before `arg` has landed whole (retained sources may go) */
    BRAID_REC_DONE = 9,
    /* either way: lane `arg` is given up; the receiver's carries the bitmaps of what landed */
    BRAID_REC_FENCE = 10,
    BRAID_REC_TYPES
};

/* The header of every record. */
struct braid_rec {
    uint8_t type;        /* enum braid_rec_type */
    uint8_t shift;       /* START, CHUNK: log2 of the message's chunk size */
    uint16_t lane;       /* index of the lane that carries it, checked against the lane's own */
    uint32_t body_bytes; /* bytes that follow the header */
    uint32_t seq; /* control records: 1, 2, 3, ... in each direction; CHUNK: the lane's epoch */
    /* highest control sequence number taken in from the peer; CHUNK: how many its message has */
    uint32_t ack;
    uint32_t credit; /* running sum of the eager cost that the receiver has given back (wraps) */
    uint32_t arg;
    uint64_t value;
};
BRAID_WIRE_ASSERT(sizeof(struct braid_rec) == 32, "record header layout");

/* A receive that has been posted: one word a sub, a group of n receives is n words with consecutive numbers. */
struct braid_recv_word {
    uint32_t sub;      /* number of the receive on this connection, 0, 1, 2, ... (wraps) */
    int32_t tag;       /* only a message with this tag goes here */
    uint64_t addr;     /* of the buffer in the receiver, for lanes that write it remotely; else 0 */
    uint64_t capacity; /* bytes */
    /* id of the registration that holds the buffer, told before by an MR record; 0: none was told */
    uint32_t mr;
    uint32_t flags; /* BRAID_RECV_* */
};
BRAID_WIRE_ASSERT(sizeof(struct braid_recv_word) == 32, "receive word layout");

/* A GPU may be polling the buffer while data lands: ascending order, whole 8-byte words, no flag before its data. */
#define BRAID_RECV_POLLED 0x1u
/* Filled by an eager message before it was announced. `capacity` such receives with this tag follow one another, from `sub` on. */
#define BRAID_RECV_USED 0x2u

/* A message has at most this many chunks, so that a chunk number fits in 8 bits and its bitmap in 32 bytes. */
#define BRAID_MESSAGE_CHUNKS 256
/* Sub numbers that are in use at a time differ by less than this: a sub's slot is its number modulo BRAID_SUBS. */
#define BRAID_SUBS 512
/* The largest body of a control record. */
#define BRAID_BODY_MAX 16384
/* Most words in a RECV record. */
#define BRAID_WORDS_MAX 126
/*
 * Eager cost of a message: its bytes plus this. The receiver grants BRAID_EAGER_WINDOW of it at the start. Room for sixteen of the largest:
 * giving credit back is a system call of its own on streams, which then is made for every fourth of them and not for each.
 */
#define BRAID_EAGER_OVERHEAD 256
#define BRAID_EAGER_WINDOW   262144

#endif
