#include "deploy/watch_http.h"

#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "deploy/fetch.h"
#include "deploy/plan.h"
#include "deploy/state.h"
#include "deploy/watch.h"
#include "http/server.h"

#define METRICS_MAX (8 * 1024 * 1024)

struct watch_http {
    const struct settings *settings;
    const uint64_t *restarts;
    struct http_server *server;
};

static void answer(struct http_request *request, int status, const char *type, const char *body)
{
    struct http_header header = { .name = "Content-Type", .value = type };
    struct http_answer a = {
        .status = status, .headers = &header, .n_headers = 1, .body = body, .body_len = strlen(body)
    };
    http_answer(request, &a);
}

/* One gate's metrics with its slug as the first label of every sample. */
static void relabel(struct buf *out, const char *text, const char *slug)
{
    for (const char *line = text; *line;) {
        size_t n = strcspn(line, "\n"), name = strcspn(line, "{ \n");
        if (n > 0 && line[0] != '#') {
            bool labels = line[name] == '{';
            buf_printf(out, "%.*s{slug=\"%s\"%s%.*s\n", (int)name, line, slug, labels ? "," : "}",
                       (int)(n - name - (labels ? 1 : 0)), line + name + (labels ? 1 : 0));
        }
        line += n + (line[n] == '\n');
    }
}

static void add_gate(struct buf *out, const struct settings *settings, const char *slug)
{
    json_t *record CLEANUP_JSON = NULL;
    struct plan *plan CLEANUP(plan_freep) = NULL;
    struct buf body CLEANUP(buf_fini);
    long status = 0;
    buf_init(&body, 1024 * 1024);
    if (state_load(settings, slug, &record, ERR_IGNORED) || plan_load(record, &plan, ERR_IGNORED))
        return;
    char *socket CLEANUP_FREE =
        xasprintf("%s/admin%s/admin.sock", plan->run, plan->side ? "2" : "");
    struct fetch fetch = { .url = "http://localhost/metrics", .socket = socket, .timeout_ms = 500 };
    bool ok = fetch_get(&fetch, &status, &body, ERR_IGNORED) == ERR_OK && status == 200;
    buf_printf(out, "utter_deploy_gate_up{slug=\"%s\"} %d\n", slug, ok);
    if (ok)
        relabel(out, buf_cstr(&body), slug);
}

static void metrics(struct watch_http *http, struct http_request *request)
{
    json_t *slugs CLEANUP_JSON = NULL;
    struct buf out CLEANUP(buf_fini);
    buf_init(&out, METRICS_MAX);
    buf_printf(&out, "utter_deploy_restored_total %" PRIu64 "\n", *http->restarts);
    if (state_slugs(http->settings, &slugs, ERR_IGNORED) == ERR_OK) {
        for (size_t i = 0; i < json_array_size(slugs); i++)
            add_gate(&out, http->settings, json_string_value(json_array_get(slugs, i)));
    }
    answer(request, 200, "text/plain; version=0.0.4", buf_cstr(&out));
}

static void routes(struct watch_http *http, struct http_request *request)
{
    json_t *all CLEANUP_JSON = NULL;
    if (watch_routes(http->settings, &all, ERR_IGNORED)) {
        answer(request, 503, "text/plain", "state cannot be read\n");
        return;
    }
    char *text CLEANUP_FREE = json_canonical(all);
    answer(request, 200, "application/json", text);
}

static bool is(struct http_str found, const char *text)
{
    return found.len == strlen(text) && memcmp(found.p, text, found.len) == 0;
}

static void on_request(void *arg, struct http_request *request)
{
    struct watch_http *http = arg;
    const struct http_head *head = http_request_head(request);
    if (head->method != HTTP_GET)
        answer(request, 405, "text/plain", "GET only\n");
    else if (is(head->target, "/"))
        routes(http, request);
    else if (is(head->target, "/metrics"))
        metrics(http, request);
    else
        answer(request, 404, "text/plain", "/ or /metrics\n");
}

enum err_kind watch_http_new(struct loop *loop, const struct settings *settings,
                             const uint64_t *restarts, struct watch_http **out, struct err *err)
{
    struct http_server_config config = { .on_request = on_request };
    struct watch_http *http = xcalloc(1, sizeof(*http));
    http->settings = settings;
    http->restarts = restarts;
    config.arg = http;
    enum err_kind kind = ERR_OK;
    if (!text_starts(settings->route_listen, "127.") &&
        !text_starts(settings->route_listen, "[::1]:"))
        kind = err_set(err, ERR_INVALID, "traefik.http: %s is not a loopback address",
                       settings->route_listen);
    if (!kind)
        kind = http_server_new(loop, &config, &http->server, err);
    if (!kind)
        kind = http_server_listen(http->server, settings->route_listen, err);
    if (kind) {
        watch_http_free(http);
        return kind;
    }
    *out = http;
    return ERR_OK;
}

void watch_http_free(struct watch_http *http)
{
    if (!http)
        return;
    http_server_free(http->server);
    free(http);
}
