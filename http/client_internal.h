/* Inside of the client: what both engines share. For http/client*.c only. */
#pragma once

#include <curl/curl.h>

#include "http/chunked.h"
#include "http/client.h"

#define SHARD_CALLS_MAX                                                                            \
    128 /* libcurl walks a host's connections on every call: keep lists short                      \
         */

enum engine { ENGINE_CURL, ENGINE_STRICT };

struct call_link {
    struct call_link *prev, *next;
};

struct http_call {
    struct call_link link; /* first: a link is its call; in client->calls */
    struct http_client *client;
    enum engine engine;
    /* from the spec */
    const char *body;
    size_t body_len;
    size_t response_max;
    uint32_t deadline_ms;
    unsigned flags;
    http_call_guard_fn *guard;
    http_call_head_fn *on_head;
    http_call_data_fn *on_data;
    http_call_done_fn *done;
    void *arg;
    /* progress */
    struct loop_timer timer; /* strict: deadline; both: ending on the next turn */
    uint64_t started_ms;
    struct http_result result;
    struct http_field fields[HTTP_FIELDS_MAX];
    struct buf head;  /* bytes the fields point to */
    struct buf input; /* collected body */
    bool head_done, paused, denied, in_callback, dead, started;
    enum http_call_outcome fault; /* why our callback stopped libcurl */
    const char *fault_why;
    /* libcurl */
    struct shard *shard;
    CURL *easy;
    struct curl_slist *headers;
    struct curl_slist *connect_to;
    char *method;
    bool tainted;    /* had options that another call must not inherit */
    bool ended_well; /* libcurl ended it without a fault: its handle may serve again */
    size_t body_sent;
    /* strict */
    struct strict *strict;
};

struct client_socket { /* a descriptor of libcurl's in our loop */
    struct loop_watch watch;
    struct shard *shard; /* whose it is now */
    int fd;
    int wanted;  /* CURL_POLL_*; CURL_POLL_REMOVE: registered, nobody interested */
    bool opened; /* by our callback, so we are told when it is closed */
};

struct shard { /* one multi handle */
    struct http_client *client;
    CURLM *multi;
    struct loop_timer timer;
    size_t running;
};

struct http_client {
    struct loop *loop;
    char *ca_file, *user_agent;
    struct curl_slist *resolve;
    uint32_t connect_ms, idle_ms;
    CURLSH *share; /* DNS and TLS sessions over the shards */
    struct shard **shards;
    size_t n_shards;
    CURL **spare; /* easy handles to use again */
    size_t n_spare;
    struct client_socket **sockets; /* by descriptor */
    size_t n_sockets;
    int in_curl; /* frames of libcurl on the stack: it must not be entered again */
    struct call_link calls;
    struct http_client_stats stats;
};

/* client.c */
void call_free(struct http_call *call);
/* Ends the call: tells its user, releases it. `why` may be NULL with HTTP_CALL_OK. */
void call_finish(struct http_call *call, enum http_call_outcome outcome, const char *why);
/* Final head is in call->result: asks the user. False: HTTP_CALL_ABORTED. */
bool call_tell_head(struct http_call *call);
/* A piece of body for the user or the collection. */
enum call_take { CALL_TOOK, CALL_PAUSED, CALL_STOP, CALL_OVER };
enum call_take call_take_data(struct http_call *call, const void *data, size_t len);

/* client_curl.c */
CHECKED enum err_kind curl_engine_init(struct http_client *client,
                                       const struct http_client_config *config, struct err *err);
void curl_engine_fini(struct http_client *client);
CHECKED enum err_kind curl_engine_start(struct http_call *call, const struct http_call_spec *spec,
                                        struct err *err);
void curl_engine_end(struct http_call *call);
void curl_engine_resume(struct http_call *call);

/* client_strict.c */
CHECKED enum err_kind strict_engine_start(struct http_call *call, const struct http_call_spec *spec,
                                          struct err *err);
void strict_engine_end(struct http_call *call);
void strict_engine_resume(struct http_call *call);
