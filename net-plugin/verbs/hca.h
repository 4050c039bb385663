/*
 * The grammar of NCCL_IB_HCA, a pure function: which "device" and port a list admits.
 *   mlx5            every device whose name begins with mlx5
 *   mlx5_0,mlx5_2:1 prefixes, the second only with port 1
 *   =mlx5_1         exactly mlx5_1 (mlx5_1 alone admits mlx5_10 too)
 *   ^mlx5_3         all but; ^=mlx5_3:1 all but exactly that one
 * '^' and '=' count only in front of the whole list, in this order.
 */
#ifndef BRAID_VERBS_HCA_H
#define BRAID_VERBS_HCA_H

#include <stdbool.h>
#include <stddef.h>

/* Whether `list` ("" admits everything) admits port `port` of `device`. */
bool braid_hca_admits(const char *list, const char *device, int port);

/* Whether the list has what the grammar gives another meaning than its author probably had; one line into `why`. */
bool braid_hca_is_odd(const char *list, char *why, size_t why_bytes);

#endif
