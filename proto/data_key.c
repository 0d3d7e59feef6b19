/* Ed25519 keys of the data token: generated, loaded, named by their own content. */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/fs.h"
#include "base/text.h"
#include "proto/data_token_priv.h"

#define PEM_MAX 4096

static void pkey_freep(EVP_PKEY **p)
{
    EVP_PKEY_free(*p);
}

static void bio_freep(BIO **p)
{
    (void)BIO_free(*p);
}

void data_key_free(struct data_key *key)
{
    if (!key)
        return;
    EVP_MD_CTX_free(key->verifier);
    EVP_PKEY_free(key->pkey);
    free(key);
}

const char *data_key_id(const struct data_key *key)
{
    return key->id;
}

/* One text for every token of a key, so that a check compares it instead of reading it. */
static void write_header(struct data_key *key)
{
    char header[DATA_HEADER_MAX * 3 / 4];
    int n = snprintf(header, sizeof(header), "{\"alg\":\"EdDSA\",\"kid\":\"%s\",\"typ\":\"JWT\"}",
                     key->id);
    assert(text_b64_len((size_t)n) < sizeof(key->header));
    (void)text_b64url(header, (size_t)n, key->header);
}

/* Takes pkey also when it fails. */
static CHECKED enum err_kind key_take(EVP_PKEY *taken, bool private, struct data_key **out,
                                      struct err *err)
{
    EVP_PKEY *pkey CLEANUP(pkey_freep) = taken;
    uint8_t raw[32];
    size_t len = sizeof(raw);
    if (EVP_PKEY_get_id(pkey) != EVP_PKEY_ED25519 ||
        EVP_PKEY_get_raw_public_key(pkey, raw, &len) != 1 || len != sizeof(raw))
        return err_set(err, ERR_INVALID, "not an Ed25519 key");
    uint8_t digest[SHA256_DIGEST_LENGTH];
    SHA256(raw, len, digest);
    struct data_key *key CLEANUP(data_key_freep) = xcalloc(1, sizeof(*key));
    key->pkey = STEAL(pkey);
    key->private = private;
    text_hex(digest, DATA_KEY_ID_LEN / 2, key->id);
    write_header(key);
    key->verifier = EVP_MD_CTX_new();
    if (!key->verifier || EVP_DigestVerifyInit(key->verifier, NULL, NULL, NULL, key->pkey) != 1)
        return err_set(err, ERR_INTERNAL, "cannot set up an Ed25519 verification");
    *out = STEAL(key);
    return ERR_OK;
}

enum err_kind data_key_generate(struct data_key **out, struct err *err)
{
    EVP_PKEY *pkey = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    if (!pkey)
        return err_set(err, ERR_INTERNAL, "cannot generate an Ed25519 key");
    return key_take(pkey, true, out, err);
}

static CHECKED enum err_kind read_pem(const char *path, bool private, struct data_key **out,
                                      struct err *err)
{
    char *text CLEANUP_FREE = NULL;
    size_t len = 0;
    if (fs_read(path, PEM_MAX, &text, &len, err))
        return err->kind;
    BIO *bio CLEANUP(bio_freep) = BIO_new_mem_buf(text, (int)len);
    /* An encrypted file would make OpenSSL ask on the terminal: the empty passphrase stops that. */
    char no_passphrase[] = "";
    EVP_PKEY *pkey = private ? PEM_read_bio_PrivateKey(bio, NULL, NULL, no_passphrase)
                             : PEM_read_bio_PUBKEY(bio, NULL, NULL, no_passphrase);
    explicit_bzero(text, len);
    if (!pkey)
        return err_set(err, ERR_INVALID, "%s: no PEM %s key", path, private ? "private" : "public");
    if (key_take(pkey, private, out, err))
        return err_prefix(err, "%s", path);
    return ERR_OK;
}

enum err_kind data_key_load_private(const char *path, struct data_key **out, struct err *err)
{
    struct err scratch;
    err = err ? err : &scratch;
    struct stat st;
    if (stat(path, &st))
        return err_sys(err, errno, "%s", path);
    if (!fs_kept(&st))
        return err_set(err, ERR_PRECONDITION,
                       "%s: mode %04o lets others read the signing key (chmod 0400)", path,
                       st.st_mode & 07777);
    return read_pem(path, true, out, err);
}

enum err_kind data_key_load_public(const char *path, struct data_key **out, struct err *err)
{
    struct err scratch;
    return read_pem(path, false, out, err ? err : &scratch);
}

static CHECKED enum err_kind bio_text(BIO *bio, int written, char **out, struct err *err)
{
    char *data = NULL;
    long len = written == 1 ? BIO_get_mem_data(bio, &data) : 0;
    if (len <= 0)
        return err_set(err, ERR_INTERNAL, "cannot encode the key");
    *out = xstrndup(data, (size_t)len);
    return ERR_OK;
}

enum err_kind data_key_private_pem(const struct data_key *key, char **out, struct err *err)
{
    if (!key->private)
        return err_set(err, ERR_PRECONDITION, "key %s has no private half here", key->id);
    BIO *bio CLEANUP(bio_freep) = BIO_new(BIO_s_mem());
    return bio_text(bio, PEM_write_bio_PrivateKey(bio, key->pkey, NULL, NULL, 0, NULL, NULL), out,
                    err);
}

enum err_kind data_key_public_pem(const struct data_key *key, char **out, struct err *err)
{
    BIO *bio CLEANUP(bio_freep) = BIO_new(BIO_s_mem());
    return bio_text(bio, PEM_write_bio_PUBKEY(bio, key->pkey), out, err);
}

void data_keys_fini(struct data_keys *keys)
{
    for (size_t i = 0; i < keys->n; i++)
        data_key_free(keys->key[i]);
    *keys = (struct data_keys){ 0 };
}

static CHECKED enum err_kind add_public(struct data_keys *keys, const char *dir, const char *name,
                                        struct err *err)
{
    if (keys->n == DATA_KEYS_MAX)
        return err_set(err, ERR_INVALID, "%s: more than %d public keys", dir, DATA_KEYS_MAX);
    char *path CLEANUP_FREE = xasprintf("%s/%s", dir, name);
    if (data_key_load_public(path, &keys->key[keys->n], err))
        return err->kind;
    keys->n++;
    return ERR_OK;
}

enum err_kind data_keys_load(const char *dir, struct data_keys *out, struct err *err)
{
    struct err scratch;
    err = err ? err : &scratch;
    struct data_keys keys CLEANUP(data_keys_fini) = { 0 };
    DIR *d CLEANUP_DIR = opendir(dir);
    if (!d)
        return err_sys(err, errno, "%s", dir);
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.' || !text_ends(e->d_name, ".pub"))
            continue;
        if (add_public(&keys, dir, e->d_name, err))
            return err->kind;
    }
    if (!keys.n)
        return err_set(err, ERR_NOT_FOUND, "%s: no *.pub key", dir);
    *out = keys;
    keys = (struct data_keys){ 0 };
    return ERR_OK;
}
