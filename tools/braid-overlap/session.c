/* Set-up of a rank, see session.h. */
#include "tools/braid-overlap/session.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util.h"

int cuda_check(int error, const char *what)
{
    if (error == 0)
        return 0;
    fprintf(stderr, "braid-overlap: %s: %s\n", what, cudaGetErrorString((cudaError_t)error));
    return -EIO;
}

const char *op_name(int op)
{
    static const char *const names[] = {"ag_gemm", "gemm_rs", "gemm_ar"};

    return op >= 0 && op < (int)ARRAY_SIZE(names) ? names[op] : "?";
}

const char *dtype_name(int dtype)
{
    return dtype == BRAID_GEMM_FP16 ? "fp16" : "bf16";
}

static const char *const methods[] = {"auto", "serial", "ring_exchange", "pipeline", "bulk"};

/* The words of a setting beside method, parts, lanes and SMs. */
static const struct word {
    const char *text;
    size_t field;
    int32_t value;
} words[] = {
    {"direct", offsetof(struct braid_gemm_settings, direct), 1},
    {"taper", offsetof(struct braid_gemm_settings, taper), 1},
    {"halves", offsetof(struct braid_gemm_settings, taper), 2},
    {"copied", offsetof(struct braid_gemm_settings, signal), 1},
    {"beside", offsetof(struct braid_gemm_settings, signal), 2},
    {"kernel", offsetof(struct braid_gemm_settings, signal), 3},
};

static int32_t *field(struct braid_gemm_settings *set, const struct word *word)
{
    return (int32_t *)(void *)((char *)set + word->field);
}

void setting_name(const struct braid_gemm_settings *set, char *text, size_t bytes)
{
    struct braid_gemm_settings copy = *set;
    int at = snprintf(text, bytes, "%s/%d",
                      set->method >= BRAID_GEMM_AUTO && set->method < (int)ARRAY_SIZE(methods)
                          ? methods[set->method]
                          : "?",
                      set->num_splits);

    if (set->lanes != 0 && set->lanes != 2 && set->method != BRAID_GEMM_SERIAL)
        at += snprintf(text + at, bytes - (size_t)at, "/%dlane", set->lanes);
    for (size_t i = 0; i < ARRAY_SIZE(words) && at < (int)bytes; i++)
        if (*field(&copy, &words[i]) == words[i].value)
            at += snprintf(text + at, bytes - (size_t)at, "/%s", words[i].text);
    if (set->num_sm > 0 && at < (int)bytes)
        snprintf(text + at, bytes - (size_t)at, "/%dsm", set->num_sm);
}

static int parse_word(const char *text, struct braid_gemm_settings *set)
{
    char unit[8], rest;
    int number;

    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (strcmp(text, words[i].text) == 0) {
            *field(set, &words[i]) = words[i].value;
            return 0;
        }
    if (sscanf(text, "%d%7[a-z]%c", &number, unit, &rest) != 2 || number < 1 || number > 1024)
        return -EINVAL;
    if (strcmp(unit, "lane") == 0)
        set->lanes = number;
    else if (strcmp(unit, "sm") == 0)
        set->num_sm = number;
    else
        return -EINVAL;
    return 0;
}

int setting_parse(const char *text, struct braid_gemm_settings *set)
{
    char copy[96], *rest, *word;
    int rc = -EINVAL;

    memset(set, 0, sizeof(*set));
    if (strlen(text) >= sizeof(copy))
        return -EINVAL;
    memcpy(copy, text, strlen(text) + 1);
    word = strtok_r(copy, "/", &rest);
    for (size_t i = BRAID_GEMM_SERIAL; word != NULL && i <= BRAID_GEMM_PIPELINE; i++)
        if (strcmp(word, methods[i]) == 0) {
            set->method = (int32_t)i;
            rc = 0;
        }
    word = rc == 0 ? strtok_r(NULL, "/", &rest) : NULL;
    set->num_splits = word != NULL ? atoi(word) : 0;
    if (set->num_splits < 1 || set->num_splits > 32)
        return -EINVAL;
    while (rc == 0 && (word = strtok_r(NULL, "/", &rest)) != NULL)
        rc = parse_word(word, set);
    return rc;
}

static int open_nccl(struct session *s)
{
    char why[200];
    struct nccl_id id = {{0}}, all[RANKS_MAX];
    int rc = nccl_open(&s->nccl, why, sizeof(why));

    if (ranks_agree(s->self, rc) != 0) {
        if (s->rank == 0)
            fprintf(stderr, "braid-overlap: no NCCL to compare with: %s\n", why);
        return 0; /* its columns stay empty */
    }
    s->nccl.version(&s->nccl_version);
    if (s->rank == 0)
        rc = s->nccl.unique_id(&id) == 0 ? 0 : -EIO;
    rc = ranks_agree(s->self, rc);
    if (rc == 0)
        rc = ranks_allgather(s->self, &id, all, sizeof(id));
    if (rc == 0 && s->nccl.init_rank(&s->nccl_comm, s->ranks, all[0], s->rank) != 0) {
        fprintf(stderr, "braid-overlap: rank %d: ncclCommInitRank failed\n", s->rank);
        rc = -EIO;
    }
    return ranks_agree(s->self, rc);
}

static int open_gpu(struct session *s)
{
    int count = 0, device, rc;

    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0)
        return -ENODEV;
    device = s->rank % count;
    rc = cuda_check(cudaSetDevice(device), "choosing a GPU");
    rc = rc ? rc : cuda_check(cudaGetDeviceProperties(&s->gpu, device), "GPU properties");
    rc = rc ? rc
            : cuda_check(cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking), "stream");
    rc = rc ? rc : cuda_check(cudaEventCreate(&s->begin), "event");
    rc = rc ? rc : cuda_check(cudaEventCreate(&s->end), "event");
    rc = rc ? rc
            : cuda_check(cudaHostAlloc((void **)&s->gate, 128, cudaHostAllocMapped),
                         "pinned memory");
    rc = rc ? rc
            : cuda_check(cudaHostGetDevicePointer((void **)&s->gpu_gate, s->gate, 0),
                         "pinned memory");
    rc = rc ? rc
            : cuda_check(
                  cudaHostAlloc((void **)&s->stamp, 2 * sizeof(*s->stamp), cudaHostAllocMapped),
                  "pinned memory");
    rc = rc ? rc
            : cuda_check(cudaHostGetDevicePointer((void **)&s->gpu_stamp, s->stamp, 0),
                         "pinned memory");
    rc = rc ? rc : cuda_check(cudaMalloc(&s->token, 256), "memory");
    if (rc == 0)
        *s->gate = 0;
    return rc;
}

int session_open(struct session *s, const struct options *options, struct ranks_self *self)
{
    struct braid_bootstrap boot = ranks_bootstrap(self);
    struct braid_comm_config config = BRAID_COMM_CONFIG_INIT;
    int rc;

    memset(s, 0, sizeof(*s));
    s->options = options;
    s->self = self;
    s->rank = self->rank;
    s->ranks = self->ranks;
    rc = ranks_agree(self, open_gpu(s));
    if (rc != 0)
        return rc;
    rc = braid_comm_create(&s->comm, &boot, &config);
    if (rc != 0)
        return rc;
    if (braid_comm_gpu_ranks(s->comm) == 1) /* NCCL refuses a GPU twice */
        rc = open_nccl(s);
    if (rc == 0 && s->rank == 0 && options->json != NULL) {
        s->json = fopen(options->json, "a");
        if (s->json == NULL) {
            fprintf(stderr, "braid-overlap: %s: %s\n", options->json, strerror(errno));
            rc = -EIO;
        }
    }
    return ranks_agree(self, rc);
}

void session_close(struct session *s)
{
    if (s->json != NULL)
        fclose(s->json);
    if (s->nccl_comm != NULL)
        s->nccl.destroy(s->nccl_comm);
    braid_comm_destroy(s->comm);
}

void progress(const struct session *s, int done, int total, const char *text)
{
    enum { WIDTH = 30 };
    int filled = total > 0 ? done * WIDTH / total : 0;

    if (s->rank != 0 || s->options->quiet || !isatty(STDERR_FILENO))
        return;
    fprintf(stderr, "\r[%.*s%.*s] %3d %% %-48.48s", filled, "##############################",
            WIDTH - filled, "..............................", total > 0 ? 100 * done / total : 0,
            text);
    if (done >= total)
        fputc('\n', stderr);
    fflush(stderr);
}
