/*
 * Copy blocks of the device library by SM count: ordinary stores into the peer (push), ordinary loads from it (pull), bulk copies by
 * TMA both ways, beside the copy engine. Both GPUs at once, 64 MiB and 1 MiB each way. Checks the last copy of each kind.
 * Appends rows to $OUT/collectives.jsonl; one process, two GPUs, exit code 77 with fewer.
 */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include <algorithm>
#include <vector>

#include <cuda_runtime.h>

#define BRAID_COPY_UNROLL 8
#include <braid/device/bulk.cuh>
#include <braid/device/copy.cuh>

#define CHECK(x)                                                                                   \
    do {                                                                                           \
        cudaError_t e_ = (x);                                                                      \
        if (e_ != cudaSuccess) {                                                                   \
            printf("FATAL line %d: %s\n", __LINE__, cudaGetErrorString(e_));                       \
            exit(3);                                                                               \
        }                                                                                          \
    } while (0)

enum { PUSH, PULL, TMA_PUSH, TMA_PULL, ENGINE, KINDS };
static const char *const names[KINDS] = {"push", "pull", "tma_push", "tma_pull", "copy_engine"};

extern __shared__ __align__(128) uint8_t ring_memory[];

__global__ void __launch_bounds__(1024, 1) copy_stores(char *dst, const char *src, uint64_t bytes)
{
    braid_copy_group(dst, src, bytes, blockIdx.x * blockDim.x + threadIdx.x,
                     gridDim.x * blockDim.x);
}

/* One thread a CTA; each CTA a part of its own. */
__global__ void copy_bulk(char *dst, const char *src, uint64_t bytes)
{
    struct braid_bulk ring;
    uint64_t part = (bytes / gridDim.x + 16383) & ~16383ull;
    uint64_t begin = part * blockIdx.x;
    uint64_t to = (uint64_t)dst + begin;

    if (threadIdx.x != 0 || begin >= bytes)
        return;
    ring = braid_bulk_open_thread(ring_memory);
    braid_bulk_copy_thread(&ring, &to, 1, (uint64_t)src + begin,
                           begin + part < bytes ? part : bytes - begin);
    braid_bulk_drain();
}

static char *memory[2][2]; /* by GPU: source, destination */
static cudaStream_t stream[2];

static void start(int gpu, int kind, int sms, uint64_t bytes)
{
    char *src = memory[gpu][0], *dst = memory[!gpu][1];

    if (kind == PULL || kind == TMA_PULL) {
        src = memory[!gpu][0];
        dst = memory[gpu][1];
    }
    if (kind == ENGINE)
        CHECK(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice, stream[gpu]));
    else if (kind == PUSH || kind == PULL)
        copy_stores<<<sms, 1024, 0, stream[gpu]>>>(dst, src, bytes);
    else
        copy_bulk<<<sms, 32, BRAID_BULK_SHARED, stream[gpu]>>>(dst, src, bytes);
}

/* Microseconds of one copy on the slower GPU: sorted medians of rounds of `repeats`. */
static std::vector<double> measure(int kind, int sms, uint64_t bytes, int repeats)
{
    std::vector<double> times;
    cudaEvent_t begin[2], end[2];

    for (int g = 0; g < 2; g++) {
        CHECK(cudaSetDevice(g));
        CHECK(cudaEventCreate(&begin[g]));
        CHECK(cudaEventCreate(&end[g]));
        CHECK(cudaMemset(memory[g][1], 0, bytes));
        CHECK(cudaDeviceSynchronize());
    }
    for (int round = 0; round < 9; round++) {
        float worst = 0, ms;

        for (int g = 0; g < 2; g++) {
            CHECK(cudaSetDevice(g));
            CHECK(cudaEventRecord(begin[g], stream[g]));
            for (int i = 0; i < repeats; i++)
                start(g, kind, sms, bytes);
            CHECK(cudaEventRecord(end[g], stream[g]));
        }
        for (int g = 0; g < 2; g++) {
            CHECK(cudaSetDevice(g));
            CHECK(cudaStreamSynchronize(stream[g]));
            CHECK(cudaEventElapsedTime(&ms, begin[g], end[g]));
            worst = std::max(worst, ms);
        }
        if (round > 0)
            times.push_back(worst * 1e3 / repeats);
    }
    std::sort(times.begin(), times.end());
    return times;
}

static int right(uint64_t bytes)
{
    std::vector<char> got(bytes);
    int wrong = 0;

    for (int g = 0; g < 2; g++) {
        CHECK(cudaMemcpy(got.data(), memory[g][1], bytes, cudaMemcpyDeviceToHost));
        for (uint64_t i = 0; i < bytes; i += 61)
            wrong += got[i] != 3 + !g;
        wrong += got[bytes - 1] != 3 + !g;
    }
    return wrong == 0;
}

static void row(FILE *f, int kind, int sms, uint64_t bytes, const std::vector<double> &t,
                double engine_us)
{
    char date[16], sm[16] = "";
    time_t now = time(NULL);

    strftime(date, sizeof(date), "%Y-%m-%d", gmtime(&now));
    if (sms != 0)
        snprintf(sm, sizeof(sm), "/sms%d", sms);
    fprintf(
        f,
        "{\"bench\": \"collectives\", \"case\": \"copy_%s/u8/%llu%s\", \"metric\": \"bw_GBps\", "
        "\"value\": %.1f, \"spread\": [%.1f, %.1f], \"runs\": %zu, \"limit\": %.1f, "
        "\"limit_name\": \"copy_engine\", \"machine\": \"2x NVIDIA H200 NVLink\", \"versions\": "
        "{\"cuda\": \"13.0\"}, \"commit\": "
        "\"%s\", \"date\": \"%s\"}\n",
        names[kind], (unsigned long long)bytes, sm, bytes / t[t.size() / 2] / 1e3,
        bytes / t[t.size() - 1] / 1e3, bytes / t[0] / 1e3, t.size(), bytes / engine_us / 1e3,
        getenv("COMMIT") ? getenv("COMMIT") : "", date);
}

int main()
{
    const int sm_counts[] = {1, 2, 4, 8, 12, 16, 24, 32};
    char path[512];
    FILE *f;
    int count = 0, failures = 0;

    if (cudaGetDeviceCount(&count) != cudaSuccess || count < 2) {
        printf("skipped: needs two GPUs\n");
        return 77;
    }
    snprintf(path, sizeof(path), "%s/collectives.jsonl", getenv("OUT") ? getenv("OUT") : ".");
    f = fopen(path, "a");
    for (int g = 0; g < 2; g++) {
        CHECK(cudaSetDevice(g));
        CHECK(cudaDeviceEnablePeerAccess(!g, 0));
        CHECK(cudaStreamCreateWithFlags(&stream[g], cudaStreamNonBlocking));
        CHECK(cudaFuncSetAttribute(copy_bulk, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   BRAID_BULK_SHARED));
        for (int i = 0; i < 2; i++)
            CHECK(cudaMalloc(&memory[g][i], 64 << 20));
        CHECK(cudaMemset(memory[g][0], 3 + g, 64 << 20));
    }
    for (uint64_t bytes : {64ull << 20, 4ull << 20, 1ull << 20}) {
        int repeats = bytes > (16u << 20) ? 10 : 50;
        std::vector<double> engine = measure(ENGINE, 0, bytes, repeats);
        double engine_us = engine[engine.size() / 2];

        if (f != NULL)
            row(f, ENGINE, 0, bytes, engine, engine_us);
        printf("%4llu MiB both ways, GB/s each way; copy engine %.0f (%.1f us)\n%-10s",
               (unsigned long long)bytes >> 20, bytes / engine_us / 1e3, engine_us, "SMs");
        for (int sms : sm_counts)
            printf("%8d", sms);
        printf("\n");
        for (int kind = PUSH; kind < ENGINE; kind++) {
            printf("%-10s", names[kind]);
            for (int sms : sm_counts) {
                std::vector<double> t = measure(kind, sms, bytes, repeats);

                if (f != NULL)
                    row(f, kind, sms, bytes, t, engine_us);
                printf("%8.0f", bytes / t[t.size() / 2] / 1e3);
                CHECK(cudaGetLastError());
            }
            if (!right(bytes)) {
                failures++;
                printf("  WRONG");
            }
            printf("\n");
        }
    }
    if (f != NULL)
        fclose(f);
    printf("gpu_copy_blocks: %d failures\n", failures);
    return failures != 0;
}
