#include "dataproxy/admin.h"

#include <inttypes.h>

#include "base/buf.h"
#include "base/log.h"
#include "http/server.h"

#define PAGE_MAX 65536

struct admin {
    struct admin_parts parts;
    struct http_server *server;
};

static void write_metrics(const struct admin *admin, struct buf *page)
{
    struct proxy_stats calls;
    struct requests_stats requests;
    proxy_stats(admin->parts.proxy, &calls);
    requests_stats(admin->parts.requests, &requests);
    buf_append_str(page, "# TYPE utter_dataproxy_calls_total counter\n");
    for (int i = 0; i < PROXY_OUTCOME_N; i++)
        buf_printf(page, "utter_dataproxy_calls_total{outcome=\"%s\"} %" PRIu64 "\n",
                   proxy_outcome_name((enum proxy_outcome)i), calls.outcome[i]);
    buf_printf(page,
               "# TYPE utter_dataproxy_bytes_total counter\n"
               "utter_dataproxy_bytes_total{direction=\"up\"} %" PRIu64 "\n"
               "utter_dataproxy_bytes_total{direction=\"down\"} %" PRIu64 "\n",
               calls.bytes_up, calls.bytes_down);
    buf_printf(page,
               "# TYPE utter_dataproxy_calls gauge\nutter_dataproxy_calls %zu\n"
               "# TYPE utter_dataproxy_requests_open gauge\nutter_dataproxy_requests_open %zu\n"
               "# TYPE utter_dataproxy_gates gauge\nutter_dataproxy_gates %zu\n",
               calls.calls, requests.open, session_server_peers(admin->parts.sessions));
    buf_append_str(page, "# TYPE utter_dataproxy_key gauge\n");
    const char *id;
    for (size_t i = 0; (id = proxy_key_id(admin->parts.proxy, i)); i++) {
        if (*id)
            buf_printf(page, "utter_dataproxy_key{id=\"%s\"} 1\n", id);
    }
    buf_printf(page,
               "# TYPE utter_dataproxy_egress_lost_total counter\n"
               "utter_dataproxy_egress_lost_total %" PRIu64 "\n"
               "# TYPE utter_dataproxy_log_dropped_total counter\n"
               "utter_dataproxy_log_dropped_total %" PRIu64 "\n",
               egress_lost(admin->parts.egress), log_dropped());
}

static void answer_metrics(const struct admin *admin, struct http_request *request)
{
    static const struct http_header headers[] = {
        { "Content-Type", "text/plain; version=0.0.4; charset=utf-8" },
        { "Cache-Control", "no-store" },
    };
    struct buf page CLEANUP(buf_fini);
    buf_init(&page, PAGE_MAX);
    write_metrics(admin, &page);
    http_answer(request, &(struct http_answer){ .status = 200,
                                                .headers = headers,
                                                .n_headers = ARRAY_LEN(headers),
                                                .body = page.data,
                                                .body_len = page.len });
}

static void on_request(void *arg, struct http_request *request)
{
    const struct admin *admin = arg;
    const struct http_head *head = http_request_head(request);
    if (head->method != HTTP_GET && head->method != HTTP_HEAD)
        http_answer_text(request, 405, "methods are GET and HEAD");
    else if (http_str_is(head->path, "/healthz"))
        http_answer_text(request, 200, "ok");
    else if (http_str_is(head->path, "/readyz") && session_server_peers(admin->parts.sessions))
        http_answer_text(request, 200, "ready");
    else if (http_str_is(head->path, "/readyz"))
        http_answer_text(request, 503, "no gate is connected: nothing is served");
    else if (http_str_is(head->path, "/metrics"))
        answer_metrics(admin, request);
    else
        http_answer_text(request, 404, "pages are /healthz, /readyz, /metrics");
}

enum err_kind admin_new(const struct admin_parts *parts, const char *address, struct admin **out,
                        struct err *err)
{
    struct admin *admin CLEANUP(admin_freep) = xcalloc(1, sizeof(*admin));
    admin->parts = *parts;
    const struct http_server_config config = { .max_connections = 32,
                                               .on_request = on_request,
                                               .arg = admin };
    enum err_kind kind = http_server_new(parts->loop, &config, &admin->server, err);
    if (!kind)
        kind = http_server_listen(admin->server, address, err);
    if (kind)
        return kind;
    *out = STEAL(admin);
    return ERR_OK;
}

void admin_free(struct admin *admin)
{
    if (!admin)
        return;
    http_server_free(admin->server);
    free(admin);
}
