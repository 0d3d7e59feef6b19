#include "dataproxy/requests.h"

#include <string.h>

#define BUCKETS 1024

struct request {
    struct request *next; /* in its bucket */
    char id[DATA_ID_MAX + 1];
    const void *owner;
    bool open;
    bool tainted;
    uint64_t deadline_ms;
    int64_t calls_left;
    int64_t bytes_left;
    int64_t calls_made;
    int64_t bytes_moved;
    size_t n_scope;
    char scope[DATA_SCOPE_MAX][DATA_UPSTREAM_MAX + 1];
    struct request_call *calls;
};

struct requests {
    struct request *bucket[BUCKETS];
    size_t n;
};

struct requests *requests_new(void)
{
    return xcalloc(1, sizeof(struct requests));
}

/* FNV-1a; ids are the gate's own, so no adversary chooses them. */
static size_t bucket_of(const char *id)
{
    uint32_t h = 2166136261u;
    for (; *id; id++)
        h = (h ^ (uint8_t)*id) * 16777619u;
    return h % BUCKETS;
}

static struct request *find(const struct requests *requests, const char *id)
{
    struct request *r = requests->bucket[bucket_of(id)];
    while (r && strcmp(r->id, id) != 0)
        r = r->next;
    return r;
}

static void unlink_call(struct request_call *call)
{
    *call->prev = call->next;
    if (call->next)
        call->next->prev = call->prev;
    call->request = NULL;
    call->next = NULL;
    call->prev = NULL;
}

static void end_request(struct request *r, const char *why)
{
    r->open = false;
    while (r->calls) {
        struct request_call *call = r->calls;
        unlink_call(call);
        call->abort(call, why);
    }
}

void requests_free(struct requests *requests)
{
    if (!requests)
        return;
    for (size_t i = 0; i < BUCKETS; i++) {
        while (requests->bucket[i]) {
            struct request *r = requests->bucket[i];
            requests->bucket[i] = r->next;
            end_request(r, "the proxy stops");
            free(r);
        }
    }
    free(requests);
}

enum err_kind requests_open(struct requests *requests, const struct data_message *open,
                            const void *owner, uint64_t now_ms, struct err *err)
{
    if (find(requests, open->id))
        return err_set(err, ERR_EXISTS, "request %s is known already", open->id);
    if (requests->n == REQUESTS_MAX)
        return err_set(err, ERR_UNAVAILABLE, "more than %d requests", REQUESTS_MAX);
    struct request *r = xcalloc(1, sizeof(*r));
    memcpy(r->id, open->id, sizeof(r->id));
    r->owner = owner;
    r->open = true;
    r->deadline_ms = now_ms + (uint64_t)open->ms;
    r->calls_left = open->calls;
    r->bytes_left = open->bytes;
    r->n_scope = open->n_scope;
    memcpy(r->scope, open->scope, sizeof(r->scope));
    struct request **bucket = &requests->bucket[bucket_of(r->id)];
    r->next = *bucket;
    *bucket = r;
    requests->n++;
    return ERR_OK;
}

enum err_kind requests_end(struct requests *requests, const char *id, const void *owner,
                           struct data_message *ended, struct err *err)
{
    struct request *r = find(requests, id);
    if (!r || !r->open || r->owner != owner)
        return err_set(err, ERR_NOT_FOUND, "request %s is not open", id);
    end_request(r, "the request has ended");
    *ended = (struct data_message){
        .op = DATA_ENDED, .calls = r->calls_made, .bytes = r->bytes_moved, .tainted = r->tainted
    };
    memcpy(ended->id, r->id, sizeof(ended->id));
    return ERR_OK;
}

void requests_end_owner(struct requests *requests, const void *owner, const char *why)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct request *r = requests->bucket[i]; r; r = r->next) {
            if (r->open && r->owner == owner)
                end_request(r, why);
        }
    }
}

void requests_expire(struct requests *requests, uint64_t now_ms)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct request **at = &requests->bucket[i]; *at;) {
            struct request *r = *at;
            if (now_ms < r->deadline_ms) {
                at = &r->next;
                continue;
            }
            if (r->open)
                end_request(r, "the request's time is over");
            *at = r->next;
            free(r);
            requests->n--;
        }
    }
}

static bool in_scope(const struct request *r, const char *upstream)
{
    for (size_t i = 0; i < r->n_scope; i++) {
        if (strcmp(r->scope[i], upstream) == 0)
            return true;
    }
    return false;
}

static CHECKED enum err_kind find_open(const struct requests *requests,
                                       const struct data_token *token, const char *upstream,
                                       uint64_t now_ms, struct request **out, struct err *err)
{
    struct request *r = find(requests, token->request_id);
    if (!r || !r->open || now_ms >= r->deadline_ms)
        return err_set(err, ERR_DENIED, "the request is not open");
    if (!in_scope(r, upstream) || !data_token_in_scope(token, upstream))
        return err_set(err, ERR_DENIED, "upstream %s is not in this request's scope", upstream);
    *out = r;
    return ERR_OK;
}

enum err_kind requests_check(const struct requests *requests, const struct data_token *token,
                             const char *upstream, uint64_t now_ms, struct err *err)
{
    struct request *r;
    return find_open(requests, token, upstream, now_ms, &r, err);
}

enum err_kind requests_begin_call(struct requests *requests, const struct data_token *token,
                                  const char *upstream, uint64_t now_ms, struct request_call *call,
                                  struct err *err)
{
    struct request *r;
    enum err_kind kind = find_open(requests, token, upstream, now_ms, &r, err);
    if (kind)
        return kind;
    if (r->calls_left == 0 || r->calls_made >= token->calls)
        return err_set(err, ERR_UNAVAILABLE, "the request's calls are used up");
    if (r->bytes_left == 0 || r->bytes_moved >= token->bytes)
        return err_set(err, ERR_UNAVAILABLE, "the request's bytes are used up");
    r->calls_left--;
    r->calls_made++;
    call->request = r;
    call->next = r->calls;
    call->prev = &r->calls;
    if (r->calls)
        r->calls->prev = &call->next;
    r->calls = call;
    return ERR_OK;
}

bool request_call_count(struct request_call *call, size_t bytes)
{
    struct request *r = call->request;
    if (!r || (uint64_t)r->bytes_left < bytes)
        return false;
    r->bytes_left -= (int64_t)bytes;
    r->bytes_moved += (int64_t)bytes;
    return true;
}

void request_call_taint(struct request_call *call)
{
    if (call->request)
        call->request->tainted = true;
}

void request_call_end(struct request_call *call)
{
    if (call->request)
        unlink_call(call);
}

const char *request_id(const struct request *request)
{
    return request->id;
}

void requests_stats(const struct requests *requests, struct requests_stats *out)
{
    *out = (struct requests_stats){ 0 };
    for (size_t i = 0; i < BUCKETS; i++) {
        for (const struct request *r = requests->bucket[i]; r; r = r->next) {
            out->open += r->open;
            for (const struct request_call *c = r->calls; c; c = c->next)
                out->calls++;
        }
    }
}
