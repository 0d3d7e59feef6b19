/* The libcurl engine: multi handles driven by our loop (socket_action), tuned as measured. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>

#include "http/client_internal.h"

static void check_done(struct shard *shard);

/* ---- descriptors ---- */

static struct client_socket *socket_get(struct http_client *client, int fd)
{
    if ((size_t)fd >= client->n_sockets) {
        size_t n = (size_t)fd + 64;
        client->sockets = xreallocarray(client->sockets, n, sizeof(struct client_socket *));
        memset(client->sockets + client->n_sockets, 0,
               (n - client->n_sockets) * sizeof(struct client_socket *));
        client->n_sockets = n;
    }
    if (!client->sockets[fd]) {
        client->sockets[fd] = xcalloc(1, sizeof(struct client_socket));
        client->sockets[fd]->fd = fd;
        client->sockets[fd]->wanted = CURL_POLL_REMOVE;
    }
    return client->sockets[fd];
}

static void socket_drop(struct http_client *client, int fd)
{
    if ((size_t)fd >= client->n_sockets || !client->sockets[fd])
        return;
    loop_unwatch(&client->sockets[fd]->watch);
    free(STEAL(client->sockets[fd]));
}

static void act(struct shard *shard, curl_socket_t fd, int mask)
{
    int running;
    shard->client->in_curl++;
    (void)curl_multi_socket_action(shard->multi, fd, mask, &running);
    shard->client->in_curl--;
    check_done(shard);
}

static void on_socket(struct loop_watch *watch, uint32_t events)
{
    struct client_socket *s = watch->arg;
    if (s->wanted == CURL_POLL_REMOVE) { /* an idle connection that its peer closed */
        loop_unwatch(&s->watch);
        return;
    }
    int mask = (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP) ? CURL_CSELECT_IN : 0) |
               (events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
               (events & EPOLLERR ? CURL_CSELECT_ERR : 0);
    act(s->shard, s->fd, mask);
}

static int on_want(CURL *easy, curl_socket_t fd, int what, void *userp, void *socketp)
{
    (void)easy;
    (void)socketp;
    struct shard *shard = userp;
    struct http_client *client = shard->client;
    struct client_socket *s = socket_get(client, fd);
    if (what == CURL_POLL_REMOVE) {
        s->wanted = what;
        if (!s->opened)
            socket_drop(client, fd); /* libcurl's own; it will not tell us when it closes it */
        return 0;
    }
    s->shard = shard;
    s->wanted = what;
    uint32_t events = (what & CURL_POLL_IN ? (uint32_t)EPOLLIN : 0U) |
                      (what & CURL_POLL_OUT ? (uint32_t)EPOLLOUT : 0U);
    if (s->watch.loop && s->watch.events == events)
        return 0;
    return loop_watch(client->loop, &s->watch, fd, events, on_socket, s, NULL) ? -1 : 0;
}

static curl_socket_t on_open(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    (void)purpose;
    struct http_call *call = arg;
    if (call->guard && !call->guard(call->arg, &address->addr, address->addrlen)) {
        call->denied = true;
        return CURL_SOCKET_BAD;
    }
    int fd = socket(address->family, address->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                    address->protocol);
    if (fd >= 0) {
        call->client->stats.connects++;
        socket_get(call->client, fd)->opened = true;
    }
    return fd < 0 ? CURL_SOCKET_BAD : fd;
}

static int on_close(void *arg, curl_socket_t fd)
{
    socket_drop(arg, fd);
    return close(fd);
}

static void on_shard_timer(struct loop_timer *timer)
{
    act(timer->arg, CURL_SOCKET_TIMEOUT, 0);
}

static int on_set_timer(CURLM *multi, long ms, void *userp)
{
    (void)multi;
    struct shard *shard = userp;
    if (ms < 0)
        loop_cancel(&shard->timer);
    else
        loop_after(shard->client->loop, &shard->timer, (uint64_t)ms, on_shard_timer, shard);
    return 0;
}

/* ---- shards ---- */

static struct shard *shard_new(struct http_client *client)
{
    struct shard *shard = xcalloc(1, sizeof(*shard));
    shard->client = client;
    shard->multi = curl_multi_init();
    if (!shard->multi)
        abort(); /* out of memory, as in xmalloc() */
    curl_multi_setopt(shard->multi, CURLMOPT_SOCKETFUNCTION, on_want);
    curl_multi_setopt(shard->multi, CURLMOPT_SOCKETDATA, shard);
    curl_multi_setopt(shard->multi, CURLMOPT_TIMERFUNCTION, on_set_timer);
    curl_multi_setopt(shard->multi, CURLMOPT_TIMERDATA, shard);
    curl_multi_setopt(shard->multi, CURLMOPT_MAXCONNECTS, (long)SHARD_CALLS_MAX);
    curl_multi_setopt(shard->multi, CURLMOPT_PIPELINING, CURLPIPE_NOTHING);
    client->shards = xreallocarray(client->shards, client->n_shards + 1, sizeof(struct shard *));
    client->shards[client->n_shards++] = shard;
    return shard;
}

/* The first shard with room, so that few calls share few warm connections. */
static struct shard *shard_pick(struct http_client *client)
{
    for (size_t i = 0; i < client->n_shards; i++) {
        if (client->shards[i]->running < SHARD_CALLS_MAX)
            return client->shards[i];
    }
    return shard_new(client);
}

enum err_kind curl_engine_init(struct http_client *client, const struct http_client_config *config,
                               struct err *err)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT))
        return err_set(err, ERR_INTERNAL, "libcurl does not start");
    client->share = curl_share_init();
    if (!client->share)
        return err_set(err, ERR_INTERNAL, "libcurl share handle");
    curl_share_setopt(client->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_DNS);
    curl_share_setopt(client->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION);
    for (size_t i = 0; i < config->n_resolve; i++)
        client->resolve = curl_slist_append(client->resolve, config->resolve[i]);
    return ERR_OK;
}

void curl_engine_fini(struct http_client *client)
{
    for (size_t i = 0; i < client->n_spare; i++)
        curl_easy_cleanup(client->spare[i]);
    free(client->spare);
    for (size_t i = 0; i < client->n_shards; i++) {
        curl_multi_cleanup(client->shards[i]->multi); /* closes connections through on_close */
        loop_cancel(&client->shards[i]->timer);
        free(client->shards[i]);
    }
    free(client->shards);
    for (size_t i = 0; i < client->n_sockets; i++)
        socket_drop(client, (int)i);
    free(client->sockets);
    curl_slist_free_all(client->resolve);
    if (client->share)
        curl_share_cleanup(client->share);
    curl_global_cleanup();
}

/* ---- bytes of a call ---- */

static size_t stop(struct http_call *call, enum http_call_outcome outcome, const char *why)
{
    call->fault = outcome;
    call->fault_why = why;
    return 0;
}

/* A head is complete in call->head. False: stop. */
static bool take_head(struct http_call *call)
{
    struct http_head head;
    struct http_fault fault = { 0 };
    struct http_str method = { call->method, strlen(call->method) };
    enum http_parsed parsed =
        http_parse_response((const char *)call->head.data, call->head.len, http_method_of(method),
                            call->fields, &head, &fault);
    if (parsed != HTTP_PARSED) {
        (void)stop(call, HTTP_CALL_BAD_ANSWER, fault.why ? fault.why : "malformed head");
        return false;
    }
    if (head.status < 200 && head.status != 101)
        return true; /* interim: the next status line clears it */
    call->head_done = true;
    call->result.status = head.status;
    call->result.n_fields = head.n_fields;
    call->result.framing = head.framing;
    if (head.status == 101) {
        (void)stop(call, HTTP_CALL_BAD_ANSWER, "peer switched protocols");
        return false;
    }
    if (!call->on_data && head.framing == HTTP_FRAMED_LENGTH &&
        head.content_length > call->response_max) {
        (void)stop(call, HTTP_CALL_TOO_LARGE, "body is larger than the cap");
        return false;
    }
    if (!call_tell_head(call)) {
        (void)stop(call, HTTP_CALL_ABORTED, "stopped by its user");
        return false;
    }
    return true;
}

static size_t on_header(char *data, size_t size, size_t n, void *arg)
{
    struct http_call *call = arg;
    size_t len = size * n;
    if (call->head_done)
        return len; /* trailers are dropped */
    if (len > 5 && memcmp(data, "HTTP/", 5) == 0)
        buf_clear(&call->head);
    buf_append(&call->head, data, len);
    if (call->head.failed)
        return stop(call, HTTP_CALL_TOO_LARGE, "head is larger than the cap");
    bool end = len == 2 && data[0] == '\r' && data[1] == '\n';
    if (len && data[len - 1] == '\n' && (len == 1 || data[len - 2] != '\r'))
        return stop(call, HTTP_CALL_BAD_ANSWER, "head line ends in a bare LF");
    return !end || take_head(call) ? len : 0;
}

static size_t on_body(char *data, size_t size, size_t n, void *arg)
{
    struct http_call *call = arg;
    size_t len = size * n;
    if (!call->head_done)
        return stop(call, HTTP_CALL_BAD_ANSWER, "body before a head");
    switch (call_take_data(call, data, len)) {
    case CALL_TOOK:
        return len;
    case CALL_PAUSED:
        return CURL_WRITEFUNC_PAUSE;
    case CALL_OVER:
        return stop(call, HTTP_CALL_TOO_LARGE, "body is larger than the cap");
    case CALL_STOP:
    default:
        return stop(call, HTTP_CALL_ABORTED, "stopped by its user");
    }
}

/* There is no seek function, so libcurl cannot send a body again on another connection. */
static size_t on_upload(char *to, size_t size, size_t n, void *arg)
{
    struct http_call *call = arg;
    size_t room = size * n, left = call->body_len - call->body_sent;
    size_t len = left < room ? left : room;
    if (len)
        memcpy(to, call->body + call->body_sent, len);
    call->body_sent += len;
    return len;
}

/* ---- ending ---- */

static enum http_call_outcome outcome_of(const struct http_call *call, CURLcode code)
{
    if (call->fault)
        return call->fault;
    if (call->denied && code != CURLE_OK && !call->result.maybe_sent)
        return HTTP_CALL_DENIED;
    switch ((int)code) {
    case CURLE_OK:
        return call->head_done ? HTTP_CALL_OK : HTTP_CALL_BROKEN;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_ISSUER_ERROR:
        return call->result.maybe_sent ? HTTP_CALL_BROKEN : HTTP_CALL_NO_CONNECT;
    case CURLE_OPERATION_TIMEDOUT:
        return call->result.maybe_sent ? HTTP_CALL_TIMEOUT : HTTP_CALL_NO_CONNECT;
    case CURLE_UNSUPPORTED_PROTOCOL: /* of the URL, or HTTP/0.9 as an answer */
        return call->result.maybe_sent ? HTTP_CALL_BAD_ANSWER : HTTP_CALL_NO_CONNECT;
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_BAD_CONTENT_ENCODING:
    case CURLE_HTTP2:
        return HTTP_CALL_BAD_ANSWER;
    default:
        return HTTP_CALL_BROKEN;
    }
}

static void finish(struct http_call *call, CURLcode code)
{
    curl_off_t pre = 0, connect = 0;
    (void)curl_easy_getinfo(call->easy, CURLINFO_PRETRANSFER_TIME_T, &pre);
    (void)curl_easy_getinfo(call->easy, CURLINFO_APPCONNECT_TIME_T, &connect);
    if (connect == 0)
        (void)curl_easy_getinfo(call->easy, CURLINFO_CONNECT_TIME_T, &connect);
    call->result.maybe_sent = pre > 0 || call->body_sent > 0 || call->result.status;
    call->result.connect_ms = (uint64_t)(connect / 1000);
    call->ended_well = code == CURLE_OK;
    enum http_call_outcome outcome = outcome_of(call, code);
    const char *why = outcome == HTTP_CALL_OK       ? NULL
                      : call->fault_why             ? call->fault_why
                      : outcome == HTTP_CALL_DENIED ? "every address was refused"
                                                    : curl_easy_strerror(code);
    call_finish(call, outcome, why);
}

static void check_done(struct shard *shard)
{
    CURLMsg *msg;
    int left;
    while ((msg = curl_multi_info_read(shard->multi, &left))) {
        struct http_call *call = NULL;
        if (msg->msg != CURLMSG_DONE)
            continue;
        CURLcode code = msg->data.result;
        (void)curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, (char **)&call);
        finish(call, code);
    }
}

void curl_engine_end(struct http_call *call)
{
    struct http_client *client = call->client;
    if (call->shard && call->started) {
        client->in_curl++;
        (void)curl_multi_remove_handle(call->shard->multi, call->easy);
        client->in_curl--;
    }
    if (call->shard)
        call->shard->running--;
    curl_slist_free_all(call->headers);
    curl_slist_free_all(call->connect_to);
    /* A handle that has failed is not used again: libcurl 8.14 keeps in it that a body has to be
     * sent anew, which on_upload() cannot, and every later call on it would fail before it was
     * sent. */
    if (call->easy && call->ended_well && !call->tainted && client->n_spare < SHARD_CALLS_MAX) {
        client->spare = xreallocarray(client->spare, client->n_spare + 1, sizeof(CURL *));
        client->spare[client->n_spare++] = call->easy;
    } else if (call->easy) {
        curl_easy_cleanup(call->easy);
    }
    free(call->method);
}

void curl_engine_resume(struct http_call *call)
{
    call->client->in_curl++;
    (void)curl_easy_pause(call->easy, CURLPAUSE_CONT);
    call->client->in_curl--;
}

/* ---- starting ---- */

/* What is the same for every call of a client. */
static CURL *easy_new(struct http_client *client)
{
    CURL *easy = curl_easy_init();
    if (!easy)
        abort();
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
    curl_easy_setopt(easy, CURLOPT_HTTP09_ALLOWED, 0L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_SHARE, client->share);
    curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, (long)((client->idle_ms + 999) / 1000));
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)client->connect_ms);
    if (client->ca_file) {
        curl_easy_setopt(easy, CURLOPT_CAINFO, client->ca_file);
        curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
    }
    if (client->user_agent[0])
        curl_easy_setopt(easy, CURLOPT_USERAGENT, client->user_agent);
    if (client->resolve)
        curl_easy_setopt(easy, CURLOPT_RESOLVE, client->resolve);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_upload);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_open);
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, on_close);
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, client);
    return easy;
}

static bool has_header(const struct http_call_spec *spec, const char *name)
{
    for (size_t i = 0; i < spec->n_headers; i++) {
        if (strcasecmp(spec->headers[i].name, name) == 0)
            return true;
    }
    return false;
}

static void set_headers(struct http_call *call, const struct http_call_spec *spec)
{
    struct curl_slist *list = NULL;
    for (size_t i = 0; i < spec->n_headers; i++) {
        const struct http_header *h = &spec->headers[i];
        /* libcurl takes "Name:" as "leave it out"; an empty value is spelt "Name;". */
        char *line CLEANUP_FREE =
            h->value[0] ? xasprintf("%s: %s", h->name, h->value) : xasprintf("%s;", h->name);
        list = curl_slist_append(list, line);
    }
    if (!has_header(spec, "Accept"))
        list = curl_slist_append(list, "Accept:");
    if (!has_header(spec, "Expect"))
        list = curl_slist_append(list, "Expect:");
    if (!has_header(spec, "Content-Type"))
        list = curl_slist_append(list, "Content-Type:");
    if (!has_header(spec, "User-Agent") && !call->client->user_agent[0])
        list = curl_slist_append(list, "User-Agent:");
    call->headers = list;
    curl_easy_setopt(call->easy, CURLOPT_HTTPHEADER, list);
}

/* Order matters: each of these switches libcurl's idea of the method. */
static void set_method(struct http_call *call, const struct http_call_spec *spec)
{
    CURL *easy = call->easy;
    bool head = strcmp(spec->method, "HEAD") == 0;
    bool body = spec->body_len || spec->has_body || strcmp(spec->method, "POST") == 0 ||
                strcmp(spec->method, "PUT") == 0 || strcmp(spec->method, "PATCH") == 0;
    curl_easy_setopt(easy, CURLOPT_NOBODY, 0L);
    curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
    if (body) {
        curl_easy_setopt(easy, CURLOPT_POST, 1L);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, NULL);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)spec->body_len);
    } else if (head) {
        curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
    }
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, head && !body ? NULL : spec->method);
    /* Without body bytes there is nothing that stops libcurl's re-send but a new connection. */
    bool safe = head || strcmp(spec->method, "GET") == 0 || strcmp(spec->method, "OPTIONS") == 0;
    bool fresh = spec->flags & HTTP_CALL_FRESH;
    curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, fresh || (!safe && !spec->body_len) ? 1L : 0L);
    curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, fresh ? 1L : 0L);
}

/* Rare options: a handle that has had one is not used again. */
static void set_rare(struct http_call *call, const struct http_call_spec *spec)
{
    CURL *easy = call->easy;
    if (spec->unix_socket)
        curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, spec->unix_socket);
    if (spec->connect_to) {
        bool v6 = strchr(spec->connect_to, ':') != NULL;
        char *rule CLEANUP_FREE = xasprintf(v6 ? "::[%s]:" : "::%s:", spec->connect_to);
        call->connect_to = curl_slist_append(NULL, rule);
        curl_easy_setopt(easy, CURLOPT_CONNECT_TO, call->connect_to);
    }
    if (spec->userpwd) {
        curl_easy_setopt(easy, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
        curl_easy_setopt(easy, CURLOPT_USERPWD, spec->userpwd);
    }
    if (spec->aws_sigv4) {
        /* libcurl signs POSTFIELDS only. Those it could send again, hence the new connection. */
        curl_easy_setopt(easy, CURLOPT_AWS_SIGV4, spec->aws_sigv4);
        curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
        if (spec->body_len)
            curl_easy_setopt(easy, CURLOPT_POSTFIELDS, spec->body);
    }
    call->tainted = spec->unix_socket || spec->connect_to || spec->userpwd || spec->aws_sigv4;
}

static bool add(struct http_call *call)
{
    call->client->in_curl++;
    call->started = curl_multi_add_handle(call->shard->multi, call->easy) == CURLM_OK;
    call->client->in_curl--;
    return call->started;
}

static void on_late_start(struct loop_timer *timer)
{
    struct http_call *call = timer->arg;
    if (!add(call))
        call_finish(call, HTTP_CALL_NO_CONNECT, "libcurl took no call");
}

enum err_kind curl_engine_start(struct http_call *call, const struct http_call_spec *spec,
                                struct err *err)
{
    struct http_client *client = call->client;
    call->method = xstrdup(spec->method);
    call->easy = client->n_spare ? client->spare[--client->n_spare] : easy_new(client);
    call->shard = shard_pick(client);
    call->shard->running++;
    if (curl_easy_setopt(call->easy, CURLOPT_URL, spec->url))
        return err_set(err, ERR_INVALID, "bad URL");
    set_method(call, spec);
    set_headers(call, spec);
    set_rare(call, spec);
    curl_easy_setopt(call->easy, CURLOPT_TIMEOUT_MS, (long)spec->deadline_ms);
    curl_easy_setopt(call->easy, CURLOPT_PRIVATE, call);
    curl_easy_setopt(call->easy, CURLOPT_HEADERDATA, call);
    curl_easy_setopt(call->easy, CURLOPT_WRITEDATA, call);
    curl_easy_setopt(call->easy, CURLOPT_READDATA, call);
    curl_easy_setopt(call->easy, CURLOPT_OPENSOCKETDATA, call);
    if (client->in_curl) /* asked for from within one of its callbacks */
        loop_after(client->loop, &call->timer, 0, on_late_start, call);
    else if (!add(call))
        return err_set(err, ERR_INTERNAL, "libcurl took no call");
    return ERR_OK;
}
