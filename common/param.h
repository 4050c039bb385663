/*
 * Tunables. params.def is the one table; this is the only place that reads the environment.
 * Values are parsed once, at the first use or at braid_param_reload(), and then only read. A value that does not parse or is out
 * of range is warned about once and replaced by the default; an unknown BRAID_* name is warned about with the nearest known one.
 * Threading: reading from any thread; reload only while no other thread of the same library reads (plugin init, tests).
 * Called by: everyone.
 */
#ifndef BRAID_COMMON_PARAM_H
#define BRAID_COMMON_PARAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum braid_param_id {
#define BRAID_PARAM(id, type, name, nccl, def, min, max, unit, help) BRAID_P_##id,
#include "common/params.def"
#undef BRAID_PARAM
    BRAID_P_COUNT
};

enum braid_param_type { BRAID_PARAM_INT, BRAID_PARAM_BOOL, BRAID_PARAM_STR };

enum braid_param_source { BRAID_PARAM_DEFAULT, BRAID_PARAM_BRAID, BRAID_PARAM_NCCL };

struct braid_param_row {
    enum braid_param_type type;
    const char *name;
    const char *nccl_name; /* "" if none */
    const char *default_text;
    int64_t min, max; /* of an INT */
    const char *unit; /* "" if none */
    const char *help;
};

/* The value of an INT row, in the row's unit. */
int64_t braid_param_int(enum braid_param_id id);
/* The value of a BOOL row. */
bool braid_param_bool(enum braid_param_id id);
/* The value of a STR row; never NULL. Valid until the next reload. */
const char *braid_param_str(enum braid_param_id id);
/* Where the value came from. */
enum braid_param_source braid_param_source(enum braid_param_id id);

/* The variable that set it, NCCL's twin or Braid's own (also when nothing did): what a message to the user names. */
const char *braid_param_name(enum braid_param_id id);

/* The row itself, for listings. */
const struct braid_param_row *braid_param_row(enum braid_param_id id);
/* The effective value as text ("65536", "1", "eth0"), into `buf`; returns `buf`. */
char *braid_param_text(enum braid_param_id id, char *buf, size_t buf_bytes);

/* Reads the environment again and logs every warning again. */
void braid_param_reload(void);

/*
 * A variable of NCCL that Braid does not tune by but must respect (for example NCCL_ALGO, to stand down). NULL if unset or empty.
 * `name` must begin with "NCCL_". Not for Braid's own settings: those are rows.
 */
const char *braid_param_nccl_env(const char *name);

/* What a launcher (torchrun, mpirun, srun) tells its processes; ranks is 0 when there was none. */
struct braid_launch {
    int rank, ranks, local_rank;
    char host[256]; /* where rank 0 is; "" if not said */
    int port;       /* that the launcher itself uses there; 0 if not said */
};

/* For tools that start one process a GPU. Reads RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT or what Open MPI and Slurm set. */
void braid_param_launch(struct braid_launch *launch);

#endif
