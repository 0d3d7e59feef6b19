/* deploy/certificate: how long a certificate from a file is good for. */
#include "deploy/certificate.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/test.h"

#define DAY 86400

/* A self-signed certificate that ends `seconds` from now. */
static void make(const char *path, long seconds)
{
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    X509 *x = X509_new();
    assert_non_null(key);
    assert_non_null(X509_gmtime_adj(X509_getm_notBefore(x), -100L * DAY));
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(x), seconds));
    assert_int_equal(X509_set_pubkey(x, key), 1);
    assert_true(X509_sign(x, key, EVP_sha256()) > 0);
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    assert_int_equal(PEM_write_X509(f, x), 1);
    assert_int_equal(fclose(f), 0);
    X509_free(x);
    EVP_PKEY_free(key);
}

static void test_days(void **state)
{
    static const struct {
        long seconds;
        int64_t days;
    } cases[] = { { 90L * DAY + 60, 90 },
                  { 13L * DAY + 60, 13 },
                  { 60, 0 },
                  { -60, -1 },
                  { -3L * DAY - 60, -4 } };
    char path[] = "/tmp/ut-certificate.XXXXXX";
    (void)state;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    (void)close(fd);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct err err = { 0 };
        int64_t days = 1000;
        make(path, cases[i].seconds);
        assert_int_equal(certificate_days(path, &days, &err), ERR_OK);
        assert_int_equal(days, cases[i].days);
    }
    (void)unlink(path);
}

static void test_no_certificate(void **state)
{
    struct err err = { 0 };
    int64_t days;
    (void)state;
    assert_int_equal(certificate_days("/nonexistent/cert.pem", &days, &err), ERR_NOT_FOUND);
    assert_int_equal(certificate_days("/etc/passwd", &days, &err), ERR_INVALID);
    assert_string_equal(err.msg, "/etc/passwd holds no certificate");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_days),
        cmocka_unit_test(test_no_certificate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
