/*
 * How bytes land in a buffer that a GPU polls while they land (NCCL's LL and LL128 protocols: the flag that the GPU waits for lies in
 * the data, and nothing but the order of the stores protects it).
 *
 * The rule: ascending addresses, no aligned 8-byte word in two pieces, no word visible before the words below it. recv() into the
 * buffer promises none of it: the kernel's copy is split wherever a packet ends, at any byte, and `rep movsb` may store
 * out of order within itself. So a lane receives such bytes into memory of its own and copies them with braid_copy_polled().
 * Which receives are polled: those for which NCCL passes NCCL_NET_OPTIONAL_RECV_COMPLETION, and all those of which it is not
 * known (grouped receives, and interfaces before v9 that cannot say it); a single receive of v9 and later without the mark is not.
 */
#ifndef BRAID_NET_LANDING_H
#define BRAID_NET_LANDING_H

#include <stddef.h>

/* Grouped receives are point-to-point traffic, for which NCCL uses a polling protocol only up to 16 KiB of payload (32 KiB on the wire). */
#define BRAID_POLLED_BYTES (64 * 1024)

/* Copies `bytes` bytes as above. The edges of a destination that is not 8-byte aligned are stored byte by byte. */
void braid_copy_polled(void *dst, const void *src, size_t bytes);

#endif
