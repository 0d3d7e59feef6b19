#include "gate/admin.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "gate/gate.h"
#include "gate/ledger_admin.h"
#include "gate/page.h"

static void answer(struct http_request *http, int status, const char *type, const void *body,
                   size_t len)
{
    const struct http_header headers[] = { { "Content-Type", type },
                                           { "Cache-Control", "no-store" },
                                           { "X-Content-Type-Options", "nosniff" } };
    http_answer(http, &(struct http_answer){ .status = status,
                                             .headers = headers,
                                             .n_headers = ARRAY_LEN(headers),
                                             .body = body,
                                             .body_len = len });
}

static void healthz(struct gate *gate, struct http_request *http)
{
    (void)gate; /* that it is answered at all is the answer */
    answer(http, 200, "text/plain; charset=utf-8", "ok\n", 3);
}

static void readyz(struct gate *gate, struct http_request *http)
{
    const char *why = gate_not_ready(gate);
    json_t *body CLEANUP_JSON =
        json_pack("{s:b, s:s, s:s, s:s, s:s, s:i}", "ready", !why[0], "why", why, "instance",
                  gate->instance, "config_sha256", gate->config->sha256, "version", UTTER_VERSION,
                  "in_flight", (int)gate->n_requests);
    if (gate->data_key)
        json_object_set_new(body, "data_key", json_string(data_key_id(gate->data_key)));
    char *text CLEANUP_FREE = json_dumps(body, JSON_COMPACT);
    answer(http, why[0] ? 503 : 200, "application/json", text, strlen(text));
}

static void gauge(struct buf *out, const char *name, const char *help, uint64_t value)
{
    buf_printf(out,
               "# HELP utter_gate_%s %s\n# TYPE utter_gate_%s gauge\nutter_gate_%s %" PRIu64 "\n",
               name, help, name, name, value);
}

static void write_ledger(const struct gate *gate, struct buf *out)
{
    struct ledger_stats s = { 0 };
    if (gate->ledger)
        ledger_stats(gate->ledger, &s);
    gauge(out, "ledger_unresolved", "Payments whose settlement is not known.", s.unresolved);
    gauge(out, "ledger_sealed_bytes", "Bytes of sealed answers.", s.sealed_bytes);
    gauge(out, "ledger_reserved_bytes", "Bytes reserved for answers to come.", s.reserved_bytes);
    gauge(out, "ledger_queue", "Writes waiting for the disk.", s.queue);
    gauge(out, "ledger_settled_total", "Payments settled since start.", s.settled_total);
    gauge(out, "ledger_failed_total", "Settlements refused since start.", s.failed_total);
    gauge(out, "ledger_uncharged_total", "Handler runs without charge since start.",
          s.uncharged_total);
    gauge(out, "ledger_replayed_total", "Sealed answers released again since start.",
          s.replayed_total);
    gauge(out, "ledger_writes_total", "Ledger writes since start.", s.writes);
    gauge(out, "ledger_commits_total", "Ledger commits since start.", s.commits);
    gauge(out, "ledger_deletion_paused", "1 after a step of the wall clock.", s.deletion_paused);
}

static void metrics(struct gate *gate, struct http_request *http)
{
    struct buf out;
    struct http_server_stats server;
    struct http_client_stats client;
    buf_init(&out, (size_t)1 << 20);
    metrics_write(&gate->metrics, &out);
    http_server_stats(gate->server, &server);
    http_client_stats(gate->client, &client);
    gauge(&out, "ready", "1 when new payments are taken.", gate_not_ready(gate)[0] == '\0');
    gauge(&out, "connections", "Open client connections.", server.connections);
    gauge(&out, "requests_in_flight", "Requests under way.", gate->n_requests);
    gauge(&out, "payments_in_flight", "Payments under way in this gate.", gate->paid);
    gauge(&out, "outgoing_calls", "Outgoing calls under way.", client.running);
    write_ledger(gate, &out);
    answer(http, 200, "text/plain; version=0.0.4; charset=utf-8", out.data, out.len);
    buf_fini(&out);
}

static void number(struct buf *out, const char *name, uint64_t value)
{
    buf_printf(out, "<tr><td>%s<td>%" PRIu64, name, value);
}

static void latency(struct buf *out, const char *name, const struct histogram *h)
{
    buf_printf(out, "<tr><td>%s<td>%" PRIu64 "<td>%" PRIu64 " ms<td>%" PRIu64 " ms", name, h->count,
               histogram_quantile(h, 0.5), histogram_quantile(h, 0.99));
}

static void operator_page(struct gate *gate, struct http_request *http)
{
    struct buf out;
    struct ledger_stats ledger = { 0 };
    const char *why = gate_not_ready(gate);
    if (gate->ledger)
        ledger_stats(gate->ledger, &ledger);
    buf_init(&out, (size_t)1 << 20);
    page_open(&out, "utter-gate");
    buf_printf(&out, "<h1>utter-gate %s</h1><p>%s", UTTER_VERSION,
               why[0] ? "Not ready: " : "Ready");
    page_escape(&out, why);
    buf_append_str(&out, "</p><section><h2>Money</h2><table>");
    number(&out, "Settled", ledger.settled_total);
    number(&out, "Refused at settlement", ledger.failed_total);
    number(&out, "Not charged", ledger.uncharged_total);
    number(&out, "Released again", ledger.replayed_total);
    number(&out, "Unresolved", ledger.unresolved);
    number(&out, "Bytes of sealed answers", ledger.sealed_bytes);
    buf_append_str(&out, "</table></section><section><h2>Requests since start</h2><table>");
    for (size_t i = 0; i < OUTCOME_N; i++)
        number(&out, outcome_name((enum outcome)i), gate->metrics.outcomes[i]);
    buf_append_str(&out, "</table></section><section><h2>Latency</h2><table>"
                         "<tr><th><th>calls<th>p50 ≤<th>p99 ≤");
    latency(&out, "402", &gate->metrics.unpaid);
    latency(&out, "Sold call", &gate->metrics.paid);
    latency(&out, "Handler", &gate->metrics.handler);
    latency(&out, "Verify", &gate->metrics.verify);
    latency(&out, "Settle", &gate->metrics.settle);
    buf_append_str(&out,
                   "</table></section><p>Payments one by one: <code>utter-gate ledger</code>. "
                   "Figures: <a href=/metrics>/metrics</a>.</p>");
    page_close(&out);
    answer(http, 200, "text/html; charset=utf-8", out.data, out.len);
    buf_fini(&out);
}

static const struct {
    const char *path;
    void (*fn)(struct gate *gate, struct http_request *http);
} PAGES[] = {
    { "/healthz", healthz },
    { "/readyz", readyz },
    { "/metrics", metrics },
    { "/", operator_page },
};

/* ---- POST /ledger/resolve ---- */

struct resolve {
    struct ledger_admin_call call;
    struct gate *gate;
    struct http_request *http;
};

static void on_resolved(void *arg, int status, const char *text)
{
    struct resolve *r = arg;
    answer(r->http, status, "application/json", text, strlen(text));
    free(r);
}

static void on_resolve_body(struct http_request *http, enum http_body result, const void *data,
                            size_t len, void *arg)
{
    struct gate *gate = arg;
    if (result != HTTP_BODY_OK) {
        http_answer_text(http, 400, "no readable body");
        return;
    }
    if (!gate->settler) {
        http_answer_text(http, 503, "this gate does not hold the ledger");
        return;
    }
    struct resolve *r = xcalloc(1, sizeof(*r));
    r->gate = gate;
    r->http = http;
    ledger_admin_resolve(gate->settler, data, len, &r->call, on_resolved, r);
}

void admin_begin(void *arg, struct http_request *http)
{
    const struct http_head *head = http_request_head(http);
    if (head->method == HTTP_POST && http_str_is(head->path, "/ledger/resolve")) {
        http_request_read_body(http, 8192, on_resolve_body, arg);
        return;
    }
    if (head->method != HTTP_GET && head->method != HTTP_HEAD) {
        http_answer_text(http, 405, "method not allowed");
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(PAGES); i++) {
        if (http_str_is(head->path, PAGES[i].path)) {
            PAGES[i].fn(arg, http);
            return;
        }
    }
    http_answer_text(http, 404, "not found");
}
