#include "deploy/certificate.h"

#include <errno.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>

#include "base/json.h"
#include "base/own.h"

static void x509_freep(X509 **certificate)
{
    X509_free(*certificate);
}

enum err_kind certificate_days(const char *path, int64_t *days, struct err *err)
{
    FILE *f CLEANUP_FILE = fopen(path, "re");
    if (!f)
        return errno == ENOENT ? err_set(err, ERR_NOT_FOUND, "%s: no such file", path)
                               : err_sys(err, errno, "%s", path);
    X509 *certificate CLEANUP(x509_freep) = PEM_read_X509(f, NULL, NULL, NULL);
    int whole = 0, seconds = 0;
    if (!certificate || !ASN1_TIME_diff(&whole, &seconds, NULL, X509_get0_notAfter(certificate)))
        return err_set(err, ERR_INVALID, "%s holds no certificate", path);
    /* Both have the same sign: one that ended today is over, not good for 0 days. */
    *days = whole < 0 || seconds < 0 ? (int64_t)whole - 1 : whole;
    return ERR_OK;
}

const char *certificate_of_route(const json_t *route)
{
    return json_string_value(json_at(route, "/tls/certificates/0/certFile"));
}
