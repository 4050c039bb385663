/*
 * Zeroed memory straight from the kernel: of a large struct only the pages that are touched take room, which calloc() does not promise
 * (it clears what the heap had before). Any thread.
 */
#ifndef BRAID_COMMON_PAGES_H
#define BRAID_COMMON_PAGES_H

#include <stddef.h>
#include <sys/mman.h>

/* NULL when memory is short. */
static inline void *braid_pages_new(size_t bytes)
{
    void *pages =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, (off_t)0);

    return pages == MAP_FAILED ? NULL : pages;
}

/* Accepts NULL. */
static inline void braid_pages_free(void *pages, size_t bytes)
{
    if (pages != NULL)
        munmap(pages, bytes);
}

#endif
