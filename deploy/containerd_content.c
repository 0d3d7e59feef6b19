/*
 * containerd's content store: streams in and out, digests checked on both sides.
 */
#include <errno.h>
#include <openssl/evp.h>
#include <string.h>

#include "base/fs.h"
#include "base/text.h"
#include "deploy/containerd.h"
#include "deploy/containerd_wire.h"
#include "deploy/digest.h"

#define SERVICE "/containerd.services.content.v1.Content/"
#define PIECE (1024 * 1024)

enum err_kind containerd_content_has(struct containerd *cd, const char *digest, int64_t *size,
                                     struct err *err)
{
    Utter__Cd__ContentDigest request = UTTER__CD__CONTENT_DIGEST__INIT;
    request.digest = cd_str(digest);
    ProtobufCMessage *raw CLEANUP_MESSAGE = NULL;
    if (cd_call(cd, CD_CALL_MS, SERVICE "Info", &request.base,
                &utter__cd__content_info_message__descriptor, &raw, err))
        return err->kind;
    const Utter__Cd__ContentInfo *info = ((Utter__Cd__ContentInfoMessage *)raw)->info;
    if (size)
        *size = info ? info->size : 0;
    return ERR_OK;
}

/* Reads pieces until the stream ends; the buffer's limit bounds it. */
static enum err_kind read_pieces(struct rpc_stream *stream, struct buf *bytes, struct err *err)
{
    for (;;) {
        ProtobufCMessage *raw CLEANUP_MESSAGE = NULL;
        if (rpc_stream_recv(stream, -1, &utter__cd__content_piece__descriptor, &raw, err))
            return err->kind;
        if (!raw)
            return ERR_OK;
        const Utter__Cd__ContentPiece *piece = (Utter__Cd__ContentPiece *)raw;
        buf_append(bytes, piece->data.data, piece->data.len);
        if (bytes->failed)
            return err_set(err, ERR_INVALID, "content is larger than %zu bytes", bytes->max);
    }
}

enum err_kind containerd_content_read(struct containerd *cd, const char *digest, size_t max,
                                      char **out, size_t *len, struct err *err)
{
    struct rpc_context ctx = cd_context(cd, CD_CALL_MS);
    struct rpc_stream *stream CLEANUP(rpc_stream_freep) = NULL;
    if (rpc_stream_open(cd->rpc, &ctx, SERVICE "Read", &stream, err))
        return err->kind;
    Utter__Cd__ContentRead request = UTTER__CD__CONTENT_READ__INIT;
    request.digest = cd_str(digest);
    if (rpc_stream_send(stream, &request.base, err) || rpc_stream_half_close(stream, err))
        return err->kind;
    struct buf bytes CLEANUP(buf_fini);
    buf_init(&bytes, max);
    if (read_pieces(stream, &bytes, err))
        return err_prefix(err, "%s", digest);
    char found[DIGEST_SIZE];
    digest_of(bytes.data, bytes.len, found);
    if (strcmp(found, digest) != 0)
        return err_set(err, ERR_INVALID, "content %s: its bytes hash to %s", digest, found);
    *out = xstrndup(buf_cstr(&bytes), bytes.len);
    if (len)
        *len = bytes.len;
    return ERR_OK;
}

/* One Write request and its answer. */
static enum err_kind write_step(struct rpc_stream *stream, Utter__Cd__ContentWrite *request,
                                int64_t *offset, struct err *err)
{
    ProtobufCMessage *raw CLEANUP_MESSAGE = NULL;
    if (rpc_stream_send(stream, &request->base, err) ||
        rpc_stream_recv(stream, -1, &utter__cd__content_written__descriptor, &raw, err))
        return err->kind;
    if (!raw)
        return err_set(err, ERR_UNAVAILABLE, "containerd ended the upload early");
    if (offset)
        *offset = ((Utter__Cd__ContentWritten *)raw)->offset;
    return ERR_OK;
}

struct source {
    cd_read_fn *read;
    void *arg;
    int64_t size;
};

/* Exactly `want` bytes, or an error. */
static enum err_kind source_read(const struct source *source, uint8_t *out, size_t want,
                                 struct err *err)
{
    size_t got = 0;
    while (got < want) {
        ssize_t n = source->read(source->arg, out + got, want - got);
        if (n < 0)
            return err_set(err, ERR_INVALID, "blob cannot be read");
        if (n == 0)
            return err_set(err, ERR_INVALID, "blob ends %zu bytes early", want - got);
        got += (size_t)n;
    }
    return ERR_OK;
}

static ssize_t read_fd(void *arg, void *out, size_t want)
{
    ssize_t n;
    do {
        n = read(*(int *)arg, out, want);
    } while (n < 0 && errno == EINTR);
    return n;
}

static ssize_t read_bytes(void *arg, void *out, size_t want)
{
    struct in *in = arg;
    const uint8_t *bytes = in_bytes(in, want);
    if (!bytes)
        return -1;
    memcpy(out, bytes, want);
    return (ssize_t)want;
}

static enum err_kind upload(struct rpc_stream *stream, const char *digest,
                            const struct source *source, const json_t *labels, struct err *err)
{
    struct cd_pairs pairs CLEANUP(cd_pairs_fini) = cd_pairs_make(labels);
    Utter__Cd__ContentWrite request = UTTER__CD__CONTENT_WRITE__INIT;
    char *ref CLEANUP_FREE = xasprintf("utter-%s", digest);
    request.ref = ref;
    request.total = source->size;
    request.expected = cd_str(digest);
    int64_t at = 0;
    if (write_step(stream, &request, &at, err))
        return err->kind;
    if (at !=
        0) /* what an upload that died left is not ours to vouch for: over it from the start */
        at = 0;
    uint8_t *piece CLEANUP_FREE = xmalloc(PIECE);
    request.action = UTTER__CD__CONTENT_ACTION__WRITE;
    while (at < source->size) {
        size_t want = source->size - at > PIECE ? PIECE : (size_t)(source->size - at);
        if (source_read(source, piece, want, err))
            return err->kind;
        request.offset = at;
        request.data = (ProtobufCBinaryData){ .len = want, .data = piece };
        if (write_step(stream, &request, NULL, err))
            return err->kind;
        at += (int64_t)want;
    }
    request.action = UTTER__CD__CONTENT_ACTION__COMMIT;
    request.offset = source->size;
    request.data = (ProtobufCBinaryData){ 0 };
    request.n_labels = pairs.n;
    request.labels = pairs.list;
    return write_step(stream, &request, NULL, err);
}

static enum err_kind put(struct containerd *cd, const char *digest, const struct source *source,
                         const json_t *labels, struct err *err)
{
    enum err_kind kind = containerd_content_has(cd, digest, NULL, err);
    if (kind != ERR_NOT_FOUND)
        return kind;
    /* An upload of ours that a kill cut off would hold the reference and a half-written file. */
    Utter__Cd__ContentAbort abort_request = UTTER__CD__CONTENT_ABORT__INIT;
    char *ref CLEANUP_FREE = xasprintf("utter-%s", digest);
    abort_request.ref = ref;
    (void)!cd_call(cd, CD_CALL_MS, SERVICE "Abort", &abort_request.base, NULL, NULL, ERR_IGNORED);
    struct rpc_context ctx = cd_context(cd, CD_LONG_MS);
    struct rpc_stream *stream CLEANUP(rpc_stream_freep) = NULL;
    if (rpc_stream_open(cd->rpc, &ctx, SERVICE "Write", &stream, err))
        return err->kind;
    kind = upload(stream, digest, source, labels, err);
    return kind == ERR_EXISTS ? ERR_OK : kind;
}

enum err_kind containerd_content_put_from(struct containerd *cd, const char *digest, int64_t size,
                                          cd_read_fn *read_fn, void *arg, const json_t *labels,
                                          struct err *err)
{
    struct source source = { .read = read_fn, .arg = arg, .size = size };
    return put(cd, digest, &source, labels, err);
}

enum err_kind containerd_content_put(struct containerd *cd, const char *digest, int fd,
                                     int64_t size, const json_t *labels, struct err *err)
{
    return containerd_content_put_from(cd, digest, size, read_fd, &fd, labels, err);
}

enum err_kind containerd_content_put_bytes(struct containerd *cd, const char *digest,
                                           const void *data, size_t len, const json_t *labels,
                                           struct err *err)
{
    struct in in = in_make(data, len);
    return containerd_content_put_from(cd, digest, (int64_t)len, read_bytes, &in, labels, err);
}

enum err_kind containerd_content_list(struct containerd *cd, json_t **out, struct err *err)
{
    struct rpc_context ctx = cd_context(cd, CD_CALL_MS);
    struct rpc_stream *stream CLEANUP(rpc_stream_freep) = NULL;
    Utter__Cd__ContentList request = UTTER__CD__CONTENT_LIST__INIT;
    if (rpc_stream_open(cd->rpc, &ctx, SERVICE "List", &stream, err) ||
        rpc_stream_send(stream, &request.base, err) || rpc_stream_half_close(stream, err))
        return err->kind;
    json_t *list CLEANUP_JSON = json_array();
    for (;;) {
        ProtobufCMessage *raw CLEANUP_MESSAGE = NULL;
        if (rpc_stream_recv(stream, -1, &utter__cd__content_listed__descriptor, &raw, err))
            return err->kind;
        if (!raw)
            break;
        const Utter__Cd__ContentListed *some = (Utter__Cd__ContentListed *)raw;
        for (size_t i = 0; i < some->n_info; i++)
            json_array_append_new(list, json_string(some->info[i]->digest));
    }
    *out = STEAL(list);
    return ERR_OK;
}
