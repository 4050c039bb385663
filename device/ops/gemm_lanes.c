/* Shared streams of fused products, see struct braid_gemm_lanes in gemm.h. Threading: any; a lock guards the list. */
#include "device/ops/gemm.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct braid_gemm_lanes *sets;

static void drop(const struct braid_gemm_cuda *cuda, struct braid_gemm_lanes *l)
{
    for (uint32_t lane = 1; lane < BRAID_GEMM_MAX_LANES; lane++)
        if (l->stream[lane])
            cuda->stream_destroy(l->stream[lane]);
    for (int i = 0; i < BRAID_GEMM_WATCH_STREAMS; i++)
        if (l->watch[i])
            cuda->stream_destroy(l->watch[i]);
    free(l);
}

static int fill(const struct braid_gemm_cuda *cuda, struct braid_gemm_lanes *l)
{
    int least = 0, greatest = 0, rc = 0;

    cuda->priority_range(&least, &greatest);
    for (uint32_t lane = 1; rc == 0 && lane < BRAID_GEMM_MAX_LANES; lane++)
        rc = braid_gemm_cuda_check(
            cuda->stream_create(&l->stream[lane], CU_STREAM_NON_BLOCKING,
                                lane == BRAID_GEMM_LANE_PUSH ? greatest : least),
            "stream");
    for (int i = 0; rc == 0 && i < BRAID_GEMM_WATCH_STREAMS; i++)
        rc = braid_gemm_cuda_check(cuda->stream_create(&l->watch[i], CU_STREAM_NON_BLOCKING, least),
                                   "stream");
    return rc;
}

int braid_gemm_lanes_get(const struct braid_gemm_cuda *cuda, struct braid_comm *comm,
                         struct braid_gemm_lanes **lanes_p)
{
    struct braid_gemm_lanes *l;
    int rc = 0;

    pthread_mutex_lock(&lock);
    for (l = sets; l != NULL && l->comm != comm; l = l->next)
        ;
    if (l == NULL) {
        l = calloc(1, sizeof(*l));
        rc = l ? fill(cuda, l) : -ENOMEM;
        if (rc == 0) {
            l->comm = comm;
            l->next = sets;
            sets = l;
        } else if (l != NULL) {
            drop(cuda, l);
        }
    }
    if (rc == 0) {
        l->users++;
        *lanes_p = l;
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

void braid_gemm_lanes_put(const struct braid_gemm_cuda *cuda, struct braid_gemm_lanes *lanes)
{
    pthread_mutex_lock(&lock);
    if (--lanes->users == 0) {
        for (struct braid_gemm_lanes **at = &sets; *at != NULL; at = &(*at)->next)
            if (*at == lanes) {
                *at = lanes->next;
                break;
            }
        drop(cuda, lanes);
    }
    pthread_mutex_unlock(&lock);
}
