#include "deploy/digest.h"

#include <assert.h>
#include <openssl/evp.h>
#include <string.h>

#include "base/text.h"

struct digest {
    EVP_MD_CTX *ctx;
};

struct digest *digest_new(void)
{
    struct digest *d = xcalloc(1, sizeof(*d));
    d->ctx = EVP_MD_CTX_new();
    int ok = d->ctx && EVP_DigestInit_ex(d->ctx, EVP_sha256(), NULL);
    assert(ok);
    return d;
}

void digest_add(struct digest *d, const void *data, size_t len)
{
    int ok = EVP_DigestUpdate(d->ctx, data, len);
    assert(ok);
}

void digest_end(struct digest *d, char out[DIGEST_SIZE])
{
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned int len = 0;
    int ok = EVP_DigestFinal_ex(d->ctx, bytes, &len);
    assert(ok && len == 32);
    memcpy(out, "sha256:", 7);
    text_hex(bytes, len, out + 7);
}

void digest_free(struct digest *d)
{
    if (!d)
        return;
    EVP_MD_CTX_free(d->ctx);
    free(d);
}

void digest_of(const void *data, size_t len, char out[DIGEST_SIZE])
{
    struct digest *d CLEANUP(digest_freep) = digest_new();
    digest_add(d, data, len);
    digest_end(d, out);
}

bool digest_valid(const char *s)
{
    if (!s || strncmp(s, "sha256:", 7) != 0 || strlen(s) != DIGEST_SIZE - 1)
        return false;
    return strspn(s + 7, "0123456789abcdef") == 64;
}
