/*
 * HMAC-SHA256 by libcrypto or AF_ALG; see hmac.h. The library is looked up once, under pthread_once; afterwards only read.
 */
#include "common/hmac.h"

#include <errno.h>
#include <linux/if_alg.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/dl.h"
#include "common/log.h"

struct crypto {
    const void *(*sha256)(void);
    unsigned char *(*hmac)(const void *md, const void *key, int key_bytes,
                           const unsigned char *data, size_t bytes, unsigned char *mac,
                           unsigned int *mac_bytes);
};

static const struct braid_dl_symbol crypto_symbols[] = {
    BRAID_DL_SYMBOL(struct crypto, sha256, EVP_sha256),
    BRAID_DL_SYMBOL(struct crypto, hmac, HMAC),
};

static struct crypto crypto;
static const char *source = "none";
static pthread_once_t source_once = PTHREAD_ONCE_INIT;
static atomic_bool force_kernel;

static int kernel_hmac(const void *key, size_t key_bytes, const void *data, size_t bytes,
                       uint8_t mac[BRAID_HMAC_BYTES])
{
    struct sockaddr_alg addr = {
        .salg_family = AF_ALG, .salg_type = "hash", .salg_name = "hmac(sha256)"};
    int op, err = 0;
    int fd = socket(AF_ALG, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -errno;
    if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) != 0 ||
        setsockopt(fd, SOL_ALG, ALG_SET_KEY, key, (socklen_t)key_bytes) != 0) {
        err = -errno;
        goto err_close;
    }
    op = accept4(fd, NULL, 0, SOCK_CLOEXEC);
    if (op < 0) {
        err = -errno;
        goto err_close;
    }
    if (send(op, data, bytes, 0) != (ssize_t)bytes ||
        read(op, mac, BRAID_HMAC_BYTES) != BRAID_HMAC_BYTES)
        err = errno ? -errno : -EIO;
    close(op);
err_close:
    close(fd);
    return err;
}

static void find_source(void)
{
    static const char *const names[] = {"libcrypto.so.3", "libcrypto.so.1.1", NULL};
    uint8_t mac[BRAID_HMAC_BYTES];
    char why[256];
    int err;

    for (int i = 0; names[i] != NULL; i++) {
        const char *const one[] = {names[i], NULL};
        if (braid_dl_open(one, crypto_symbols, ARRAY_SIZE(crypto_symbols), &crypto, why,
                          sizeof(why)) == 0) {
            source = names[i];
            return;
        }
    }
    crypto = (struct crypto){0};
    err = kernel_hmac("key", 3, "data", 4, mac);
    if (err == 0) {
        source = "AF_ALG";
        return;
    }
    BRAID_WARN("connections cannot be authenticated: neither OpenSSL's libcrypto.so.3 nor "
               "libcrypto.so.1.1 loads (%s), and the kernel offers no hmac(sha256) (%s); install "
               "the package libssl3 (Debian, Ubuntu) or openssl-libs (RHEL)",
               why, strerror(-err));
}

int braid_hmac(const void *key, size_t key_bytes, const void *data, size_t bytes,
               uint8_t mac[BRAID_HMAC_BYTES])
{
    unsigned int mac_bytes = 0;

    pthread_once(&source_once, find_source);
    if (crypto.hmac != NULL && !atomic_load(&force_kernel)) {
        if (crypto.hmac(crypto.sha256(), key, (int)key_bytes, data, bytes, mac, &mac_bytes) ==
                NULL ||
            mac_bytes != BRAID_HMAC_BYTES)
            return -EIO;
        return 0;
    }
    if (strcmp(source, "none") == 0)
        return -ENOSYS;
    return kernel_hmac(key, key_bytes, data, bytes, mac);
}

const char *braid_hmac_source(void)
{
    pthread_once(&source_once, find_source);
    return atomic_load(&force_kernel) ? "AF_ALG" : source;
}

bool braid_bytes_equal(const uint8_t *a, const uint8_t *b, size_t bytes)
{
    uint8_t difference = 0;

    for (size_t i = 0; i < bytes; i++)
        difference |= a[i] ^ b[i];
    return difference == 0;
}

int braid_random(void *buf, size_t bytes)
{
    uint8_t *p = buf;

    while (bytes > 0) {
        ssize_t got = getrandom(p, bytes, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        p += got;
        bytes -= (size_t)got;
    }
    return 0;
}

void braid_hmac_force_kernel(bool on)
{
    atomic_store(&force_kernel, on);
}
