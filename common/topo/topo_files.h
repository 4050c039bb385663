/*
 * A tree of small text files (sysfs and a bit of proc) behind three questions, so that the live
 * source can run on this machine, on a folder that a test made, or on a capture of another machine;
 * and what was asked can be recorded, which is how a capture is made.
 * Paths are relative to /sys, "proc/cpuinfo" excepted. Threading: one thread owns an object.
 */
#ifndef BRAID_COMMON_TOPO_FILES_H
#define BRAID_COMMON_TOPO_FILES_H

#include "common/topo/topo.h"

struct braid_topo_files;

/* A folder; "" or NULL is /sys, and then "proc/cpuinfo" is /proc/cpuinfo. NULL: out of memory. */
struct braid_topo_files *braid_topo_files_folder(const char *root);

/* Nothing but what braid_topo_files_add() puts there. */
struct braid_topo_files *braid_topo_files_memory(void);

void braid_topo_files_destroy(struct braid_topo_files *files);

/* Every answer found from now on is written to `out` as lines of a capture, once each. */
void braid_topo_files_record(struct braid_topo_files *files, FILE *out);

/* The text of a file without trailing blanks, cut to the buffer. 0 or negative errno. */
int braid_topo_files_read(struct braid_topo_files *files, const char *path, char *out, size_t size);

/* An integer, decimal or 0x; `missing` if the file is absent or holds something else. */
long braid_topo_files_int(struct braid_topo_files *files, const char *path, long missing);

/* Where a symbolic link points, as written in it. */
int braid_topo_files_link(struct braid_topo_files *files, const char *path, char *out, size_t size);

/* Names in a folder, sorted, separated and ended by NUL characters, an empty name last. free() it. */
int braid_topo_files_list(struct braid_topo_files *files, const char *path, char **names);

/* One line of a capture: kind 'f' file, 'l' link, 'd' folder (names separated by blanks). */
int braid_topo_files_add(struct braid_topo_files *files, char kind, const char *path,
                         const char *value);

#endif
