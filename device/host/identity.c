/*
 * Who a rank is: host, container, process and GPU. Two ranks compare these to decide how they can share memory.
 * Called by: comm.c at creation. Threading: any.
 */
#include "device/host/host.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/log.h"
#include "common/param.h"

static uint64_t process_nonce;
static pthread_once_t nonce_once = PTHREAD_ONCE_INIT;

/* Process ids repeat across PID namespaces and in time; a random number drawn once a process does not. */
static void draw_nonce(void)
{
    if (getrandom(&process_nonce, sizeof(process_nonce), 0) != (ssize_t)sizeof(process_nonce))
        process_nonce = 0;
}

static void read_host(uint8_t host[16])
{
    char text[64] = "";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    unsigned value, count = 0;

    if (fd >= 0)
        close(fd);
    memset(host, 0, 16);
    if (n <= 0) { /* no /proc: the host name is the best guess */
        if (gethostname((char *)host, 16) != 0)
            memset(host, 0xff, 16);
        return;
    }
    for (const char *p = text; *p != '\0' && count < 16;) {
        if (*p == '-') {
            p++;
        } else if (sscanf(p, "%2x", &value) == 1) {
            host[count++] = (uint8_t)value;
            p += 2;
        } else {
            break;
        }
    }
}

/* The number in a link such as "net:[4026531840]"; 0 when it cannot be read. */
static uint64_t namespace_number(const char *path)
{
    char link[64] = "";
    ssize_t n = readlink(path, link, sizeof(link) - 1);
    const char *digits = n > 0 ? strchr(link, '[') : NULL;

    return digits != NULL ? strtoull(digits + 1, NULL, 10) : 0;
}

/* Can memory be exported as a fabric handle here? Known only by trying: it needs a fabric manager and an IMEX channel. */
static bool fabric_works(const struct braid_cuda *cuda, int gpu)
{
    struct braid_cu_allocation allocation = {
        .type = BRAID_CU_ALLOCATION_PINNED,
        .handle_types = BRAID_CU_HANDLE_FABRIC,
        .location = {.type = BRAID_CU_LOCATION_DEVICE, .id = gpu},
    };
    struct braid_cu_handle shareable;
    const char *wanted = braid_param_str(BRAID_P_DEVICE_HANDLES);
    uint64_t handle;
    size_t bytes = 0;
    int supported = 0;
    bool works;

    if (strcmp(wanted, "fd") == 0)
        return false;
    if (strcmp(wanted, "auto") != 0)
        BRAID_WARN("BRAID_DEVICE_HANDLES=%s is none of auto, fd; auto is used", wanted);
    if (cuda->device_attribute(&supported, BRAID_CU_ATTRIBUTE_FABRIC_HANDLES, gpu) !=
            BRAID_CU_SUCCESS ||
        supported == 0)
        return false;
    if (cuda->granularity(&bytes, &allocation, BRAID_CU_GRANULARITY_RECOMMENDED) !=
            BRAID_CU_SUCCESS ||
        cuda->mem_create(&handle, bytes, &allocation, 0) != BRAID_CU_SUCCESS)
        return false;
    works = cuda->mem_export(&shareable, handle, BRAID_CU_HANDLE_FABRIC, 0) == BRAID_CU_SUCCESS;
    cuda->mem_release(handle);
    return works;
}

int braid_identity_fill(const struct braid_cuda *cuda, int gpu, struct braid_hello *hello)
{
    int sms = 0, vmm = 0, device, result;

    pthread_once(&nonce_once, draw_nonce);
    read_host(hello->host);
    hello->netns = namespace_number("/proc/self/ns/net");
    hello->pidns = namespace_number("/proc/self/ns/pid");
    hello->process = (uint64_t)getpid();
    hello->nonce = process_nonce;
    hello->gpu = gpu;
    result = cuda->device_get(&device, gpu);
    if (result == BRAID_CU_SUCCESS)
        result = cuda->device_uuid(hello->gpu_uuid, device);
    if (result == BRAID_CU_SUCCESS)
        result = cuda->device_attribute(&sms, BRAID_CU_ATTRIBUTE_SM_COUNT, device);
    if (result == BRAID_CU_SUCCESS)
        result = cuda->device_attribute(&vmm, BRAID_CU_ATTRIBUTE_VMM, device);
    if (result != BRAID_CU_SUCCESS) {
        BRAID_WARN("GPU %d: cannot be queried: %s", gpu, braid_cuda_name(result));
        return braid_cuda_errno(result);
    }
    if (vmm == 0) {
        BRAID_WARN("GPU %d has no virtual memory management, which device communicators need", gpu);
        return -EOPNOTSUPP;
    }
    hello->sms = (uint32_t)sms;
    hello->fabric = fabric_works(cuda, gpu);
    return 0;
}

bool braid_identity_same_process(const struct braid_hello *a, const struct braid_hello *b)
{
    return memcmp(a->host, b->host, sizeof(a->host)) == 0 && a->pidns == b->pidns &&
           a->process == b->process && a->nonce == b->nonce;
}

int braid_identity_same_host(const struct braid_hello *a, const struct braid_hello *b)
{
    if (memcmp(a->host, b->host, sizeof(a->host)) != 0)
        return -EHOSTUNREACH;
    if (a->netns != b->netns || a->pidns != b->pidns)
        return -EXDEV;
    return 0;
}
