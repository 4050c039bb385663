/* The ordered copy; see landing.h. Relaxed atomic 8-byte stores keep the compiler from splitting, merging or reordering. */
#include "net-plugin/core/landing.h"

#include <stdint.h>
#include <string.h>

/*
 * x86 makes stores visible in program order. Other machines need a barrier between a word and the next one; a store-release has it.
 */
#if defined(__x86_64__)
#define STORE_ORDER __ATOMIC_RELAXED
#else
#define STORE_ORDER __ATOMIC_RELEASE
#endif

void braid_copy_polled(void *dst, const void *src, size_t bytes)
{
    uint8_t *d = dst;
    const uint8_t *s = src;

    while (bytes > 0 && ((uintptr_t)d & 7) != 0) {
        __atomic_store_n(d++, *s++, STORE_ORDER);
        bytes--;
    }
    while (bytes >= 8) {
        uint64_t word;
        memcpy(&word, s, 8);
        __atomic_store_n((uint64_t *)(void *)d, word, STORE_ORDER);
        __asm__ __volatile__("" ::: "memory"); /* keep the stores apart and in order */
        d += 8;
        s += 8;
        bytes -= 8;
    }
    while (bytes > 0) {
        __atomic_store_n(d++, *s++, STORE_ORDER);
        bytes--;
    }
}
