/*
 * How many processes of this user on this host use Braid: a file in /dev/shm of which each of them has one byte locked. The kernel gives a
 * lock back when its process ends, however it ends; a forked child has none, and neither one that runs another program. Processes that do
 * not see the same /dev/shm (containers) do not count each other.
 * One for each process; all calls from one thread at a time. Called by the socket transport, whose threads share the processors.
 */
#ifndef BRAID_COMMON_NEIGHBOURS_H
#define BRAID_COMMON_NEIGHBOURS_H

/* Joins the others; `path` NULL for the user's own file. 0 or a negative errno, and then nobody is counted. */
int braid_neighbours_join(const char *path);
/* Processes that have joined, this one among them; 0 if it has not. */
unsigned braid_neighbours_count(void);
/* Leaves; harmless without a join. */
void braid_neighbours_leave(void);

#endif
