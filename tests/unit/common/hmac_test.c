/* HMAC-SHA256 against RFC 4231, from both sources. */
#include "tests/unit/cmocka_all.h"

#include <stdio.h>

#include "common/hmac.h"

static void check(const void *key, size_t key_bytes, const void *data, size_t bytes,
                  const char *hex)
{
    uint8_t mac[BRAID_HMAC_BYTES];
    char text[2 * BRAID_HMAC_BYTES + 1];

    assert_int_equal(braid_hmac(key, key_bytes, data, bytes, mac), 0);
    for (size_t i = 0; i < sizeof(mac); i++)
        snprintf(text + 2 * i, 3, "%02x", mac[i]);
    assert_string_equal(text, hex);
}

static void check_all(void)
{
    uint8_t key[131], data[50];

    memset(key, 0x0b, sizeof(key));
    check(key, 20, "Hi There", 8,
          "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    check("Jefe", 4, "what do ya want for nothing?", 28,
          "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof(key));
    memset(data, 0xdd, sizeof(data));
    check(key, 20, data, 50, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    check(key, 131, "Test Using Larger Than Block-Size Key - Hash Key First", 54,
          "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

static void libcrypto(void **state)
{
    if (strncmp(braid_hmac_source(), "libcrypto", 9) != 0)
        skip();
    check_all();
}

static void kernel(void **state)
{
    uint8_t mac[BRAID_HMAC_BYTES];

    braid_hmac_force_kernel(true);
    if (braid_hmac("key", 3, "data", 4, mac) != 0) {
        braid_hmac_force_kernel(false);
        skip(); /* a kernel without AF_ALG */
    }
    check_all();
    braid_hmac_force_kernel(false);
}

static void comparing(void **state)
{
    uint8_t a[32] = {1, 2, 3}, b[32] = {1, 2, 3};

    assert_true(braid_bytes_equal(a, b, 32));
    b[31] = 1;
    assert_false(braid_bytes_equal(a, b, 32));
    assert_int_equal(braid_random(a, 32), 0);
    assert_int_equal(braid_random(b, 32), 0);
    assert_false(braid_bytes_equal(a, b, 32));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(libcrypto), cmocka_unit_test(kernel),
                                       cmocka_unit_test(comparing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
