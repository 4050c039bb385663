/*
 * The sweep: for each communicator, collective and size NCCL's own choice first, then every algorithm and protocol that NCCL's table
 * holds as usable at NCCL's channel count and at fewer, in an order that differs from communicator to communicator. Forced through
 * NCCL's tuner interface, so only what a tuner can reach is measured. See calibrate.h.
 */
#include "tools/braid-tune/calibrate.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/util.h"
#include "tuner-plugin/sweep_control.h"

#define CELL_MAX   256
#define GRAPH_US   400.0 /* of work in one graph, so that a launch does not show */
#define REPEAT_MAX 20
#define SLOW_US    4000.0 /* fewer launches of these */

static const int fewer[] = {16, 8, 4, 2, 1};

/* The cell being measured. */
struct cell {
    struct calibrate *calibrate;
    int coll, comm;
    uint64_t bytes;
    double estimate_us;
    struct sweep_row rows[CELL_MAX];
    int count;
};

/* The launches and the collectives a graph of a measurement, given what one is thought to take. */
static void plan(double estimate_us, int launches, int *launches_p, int *repeat_p)
{
    int repeat = (int)(GRAPH_US / fmax(estimate_us, 1));

    *launches_p = estimate_us > SLOW_US ? MIN(launches, 3) : launches;
    *repeat_p = MIN(MAX(repeat, 1), REPEAT_MAX);
}

static double elapsed_s(const struct calibrate *calibrate)
{
    return (double)(braid_now_ns() - calibrate->began_ns) / 1e9;
}

static double slowest_rank(const struct group *group)
{
    double us = 0;

    for (int r = 0; r < group->ranks; r++)
        us = fmax(us, group->reply[r].us);
    return us;
}

/* One measurement into the cell. Returns its time or a negative errno. */
static double measure(struct cell *cell, int mode, int algo, int proto, int channels)
{
    struct calibrate *calibrate = cell->calibrate;
    const struct worker_reply *reply = &calibrate->group.reply[0];
    struct worker_command command = {
        .verb = WORKER_MEASURE,
        .coll = cell->coll,
        .bytes = cell->bytes,
        .mode = mode,
        .algo = algo,
        .proto = proto,
        .channels = channels,
        .check = cell->comm == 0,
    };
    struct sweep_row *row = &cell->rows[cell->count];
    int rc;

    plan(cell->estimate_us, calibrate->launches, &command.launches, &command.repeat);
    rc = group_run(&calibrate->group, &command);
    if (rc)
        return rc;
    calibrate->measured++;
    if (mode == SWEEP_NCCL) {
        algo = reply->nccl_algo;
        proto = reply->nccl_proto;
    } else if (mode == SWEEP_BRAID) {
        algo = reply->braid_algo;
        proto = reply->braid_proto;
    }
    if (cell->count < CELL_MAX) {
        *row = (struct sweep_row){cell->coll,
                                  cell->bytes,
                                  algo,
                                  proto,
                                  reply->grid,
                                  slowest_rank(&calibrate->group),
                                  cell->comm,
                                  mode == SWEEP_NCCL    ? SWEEP_ROW_NCCL
                                  : mode == SWEEP_BRAID ? SWEEP_ROW_BRAID
                                                        : SWEEP_ROW_FORCED};
        cell->count++;
    }
    return slowest_rank(&calibrate->group);
}

/* One algorithm and protocol: NCCL's channel count, then fewer while that is not hopeless. */
static int measure_combo(struct cell *cell, int algo, int proto, double nccl_us)
{
    double own = measure(cell, SWEEP_FORCED, algo, proto, 0), us;
    int grid = cell->calibrate->group.reply[0].grid;

    if (own < 0)
        return (int)own;
    if (algo != BRAID_RING && algo != BRAID_TREE && algo != BRAID_NVLS && algo != BRAID_NVLS_TREE)
        return 0;
    for (size_t i = 0; i < ARRAY_SIZE(fewer); i++) {
        if (fewer[i] >= grid)
            continue;
        us = measure(cell, SWEEP_FORCED, algo, proto, fewer[i]);
        if (us < 0)
            return (int)us;
        if (us > cell->calibrate->slowest * nccl_us)
            break;
    }
    return 0;
}

static int measure_cell(struct cell *cell)
{
    int order[BRAID_ALGOS * BRAID_PROTOS], usable = 0, rc = 0;
    const struct worker_reply *reply = &cell->calibrate->group.reply[0];
    double nccl_us = measure(cell, SWEEP_NCCL, 0, 0, 0);

    if (nccl_us < 0)
        return (int)nccl_us;
    cell->estimate_us = nccl_us;
    for (int i = 0; i < BRAID_ALGOS * BRAID_PROTOS; i++) {
        if (reply->table[i] >= 0)
            order[usable++] = i;
    }
    /* Another start for each communicator, so that no candidate always follows the same one. */
    for (int i = 0; i < usable && !rc; i++) {
        int at = order[(i + cell->comm) % usable];

        rc = measure_combo(cell, at / BRAID_PROTOS, at % BRAID_PROTOS, nccl_us);
    }
    if (!rc && cell->calibrate->judge) {
        double us = measure(cell, SWEEP_BRAID, 0, 0, 0);

        rc = us < 0 ? (int)us : 0;
        us = measure(cell, SWEEP_NCCL, 0, 0, 0);
        rc = us < 0 ? (int)us : rc;
    }
    return rc;
}

static bool done_before(const struct calibrate *calibrate, int comm, int coll, uint64_t bytes)
{
    for (size_t i = 0; i < calibrate->sweep.count; i++) {
        const struct sweep_row *row = &calibrate->sweep.rows[i];

        if (row->comm == comm && row->coll == coll && row->bytes == bytes)
            return true;
    }
    return false;
}

static int keep_cell(struct cell *cell)
{
    struct calibrate *calibrate = cell->calibrate;

    for (int i = 0; i < cell->count; i++) {
        int rc = sweep_add(&calibrate->sweep, &cell->rows[i]);

        if (rc)
            return rc;
        sweep_write_row(calibrate->out, &cell->rows[i]);
    }
    if (fflush(calibrate->out)) {
        fprintf(stderr, "\nbraid-tune: the sweep file cannot be written: %s\n", strerror(errno));
        return -EIO;
    }
    return 0;
}

static void show_progress(const struct calibrate *calibrate, const char *coll, uint64_t bytes)
{
    static int last_tenth = -1;
    double gone = elapsed_s(calibrate), part = calibrate->us_done / calibrate->us_all;
    double left = gone * (calibrate->us_all - calibrate->us_done) / calibrate->us_here;
    char bar[31];
    int filled = (int)(part * 30);

    left = fmax(0, fmin(left, calibrate->minutes * 60 - gone));
    if (!isatty(2)) {
        if ((int)(part * 10) == last_tenth)
            return;
        last_tenth = (int)(part * 10);
        fprintf(stderr, "%3.0f %%, %d measurements, %.0f s gone, about %.0f s left\n", 100 * part,
                calibrate->measured, gone, left);
        return;
    }
    memset(bar, '.', 30);
    memset(bar, '#', (size_t)filled);
    bar[30] = 0;
    fprintf(stderr, "\r[%s] %3.0f %% %-14s %11llu B  %d measurements, about %d:%02d left   ", bar,
            100 * part, coll, (unsigned long long)bytes, calibrate->measured, (int)left / 60,
            (int)left % 60);
}

static void count_cell(struct calibrate *calibrate, int c, int s)
{
    calibrate->cells_done++;
    calibrate->us_done += calibrate->cell_us[c][s];
}

static int run_cell(struct calibrate *calibrate, int comm, int c, int s)
{
    static struct cell cell;
    int rc;

    cell = (struct cell){.calibrate = calibrate,
                         .coll = calibrate->colls[c],
                         .comm = comm,
                         .bytes = calibrate->sizes[s],
                         .estimate_us = 20 + (double)calibrate->sizes[s] / 1e5};
    rc = measure_cell(&cell);
    if (!rc)
        rc = keep_cell(&cell);
    if (rc)
        return rc;
    count_cell(calibrate, c, s);
    calibrate->us_here += calibrate->cell_us[c][s];
    show_progress(calibrate, braid_coll_names[cell.coll], cell.bytes);
    return 0;
}

/* All cells of one communicator that are missing. Returns 0, 1 when the time is over, or a negative errno. */
static int run_comm(struct calibrate *calibrate, int comm)
{
    bool connected = false;
    int rc = 0;

    for (int c = 0; c < calibrate->coll_count && !rc; c++) {
        for (int s = 0; s < calibrate->size_count && !rc; s++) {
            if (done_before(calibrate, comm, calibrate->colls[c], calibrate->sizes[s])) {
                count_cell(calibrate, c, s);
                continue;
            }
            if (elapsed_s(calibrate) > calibrate->minutes * 60) {
                rc = 1;
                break;
            }
            if (!connected)
                rc = group_connect(&calibrate->group);
            connected = true;
            if (!rc)
                rc = run_cell(calibrate, comm, c, s);
        }
    }
    if (connected && rc >= 0)
        group_disconnect(&calibrate->group);
    return rc;
}

int calibrate_run(struct calibrate *calibrate)
{
    int rc = 0;

    calibrate->began_ns = braid_now_ns();
    calibrate->cells_all = calibrate->comms * calibrate->coll_count * calibrate->size_count;
    for (int c = 0; c < calibrate->coll_count; c++) {
        for (int s = 0; s < calibrate->size_count; s++)
            calibrate->us_all += calibrate->comms * calibrate->cell_us[c][s];
    }
    for (int comm = 0; comm < calibrate->comms && !rc; comm++)
        rc = run_comm(calibrate, comm);
    fprintf(stderr, "\n");
    return rc;
}

/* ---- How long it takes ---- */

#define GRAPH_SETUP_US 4000.0 /* capture, instantiation and destruction of a graph */
/* a communicator, and the connections that each algorithm makes at its first use */
#define COMM_SETUP_US 1.0e6

/* What measuring a combination takes: NCCL's count of channels and fewer, each an eager call, two warm graphs and the timed ones. */
static double combo_us(const struct calibrate *calibrate, const struct braid_profile *profile,
                       const struct braid_shape *shape, enum braid_coll coll, double bytes,
                       enum braid_algo algo, enum braid_proto proto, int *count_p)
{
    int own = braid_nccl_channels(profile, shape, bytes, algo, proto), launches, repeat;
    double nccl = braid_nccl_predict(profile, shape, coll, bytes, algo, proto), sum = 0;

    if (isnan(nccl))
        return 0;
    for (size_t i = 0; i <= ARRAY_SIZE(fewer); i++) {
        int channels = i ? fewer[i - 1] : own;
        double us = braid_cost_predict(profile, shape, coll, bytes, algo, proto, channels, 0).us;

        if (i && channels >= own)
            continue;
        us = isnan(us) ? nccl : us;
        plan(us, calibrate->launches, &launches, &repeat);
        sum += GRAPH_SETUP_US + us * (1 + (2 + launches) * repeat);
        (*count_p)++;
    }
    return sum;
}

/* A cell: NCCL's own choice, then every combination; with --judge Braid's choice and NCCL's again. */
static double cell_us(const struct calibrate *calibrate, const struct braid_profile *profile,
                      const struct braid_shape *shape, enum braid_coll coll, double bytes,
                      int *count_p)
{
    int own = calibrate->judge ? 3 : 1, count = 0;
    double sum = 0;

    for (int i = 0; i < BRAID_ALGOS * BRAID_PROTOS; i++)
        sum += combo_us(calibrate, profile, shape, coll, bytes, (enum braid_algo)(i / BRAID_PROTOS),
                        (enum braid_proto)(i % BRAID_PROTOS), &count);
    /* NCCL's own choice is about an average one. */
    sum += count ? own * sum / count : 0;
    *count_p += count + own;
    return sum;
}

double calibrate_estimate(struct calibrate *calibrate, const struct braid_profile *profile,
                          int ranks, int nodes, int *measurements_p)
{
    struct braid_shape shape = braid_shape_make((size_t)ranks, (size_t)nodes);
    int count = 0;
    double us = 0;

    for (int c = 0; c < calibrate->coll_count; c++) {
        for (int s = 0; s < calibrate->size_count; s++) {
            calibrate->cell_us[c][s] =
                cell_us(calibrate, profile, &shape, (enum braid_coll)calibrate->colls[c],
                        (double)calibrate->sizes[s], &count);
            us += calibrate->cell_us[c][s];
        }
    }
    *measurements_p = count * calibrate->comms;
    return calibrate->comms * (us + COMM_SETUP_US) / 1e6;
}
