/*
 * HMAC-SHA256 from a library that others keep: libcrypto (3, then 1.1) opened at run time, or the kernel's AF_ALG where no libcrypto
 * is installed. Owns the opened library until the process ends. Threading: any thread.
 * Called by: core's handshake (through a function pointer, so that its state machine has no I/O).
 */
#ifndef BRAID_COMMON_HMAC_H
#define BRAID_COMMON_HMAC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BRAID_HMAC_BYTES 32

/* The MAC of `bytes` bytes at `data` under `key`. 0; -ENOSYS when neither source is there (logged once, at WARN, with what to install). */
int braid_hmac(const void *key, size_t key_bytes, const void *data, size_t bytes,
               uint8_t mac[BRAID_HMAC_BYTES]);

/* Which source is in use: "libcrypto.so.3", "AF_ALG" or "none". */
const char *braid_hmac_source(void);

/* Equality in constant time. */
bool braid_bytes_equal(const uint8_t *a, const uint8_t *b, size_t bytes);

/* `bytes` random bytes from the kernel. 0 or a negative errno. */
int braid_random(void *buf, size_t bytes);

/* Tests only: uses AF_ALG (true) even where libcrypto is there. */
void braid_hmac_force_kernel(bool on);

#endif
