/* The IO rules as far as text goes: what a URI may be. Files are opened and judged by the shim. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "policy/nerdctl.h"

/* FIFOs of the host's own that obey who writes to them, and links to whatever a process has open.
 */
static bool is_hosts_own(const char *path)
{
    static const char *const places[] = { "/proc",          "/sys",         "/dev",
                                          "/run/initctl",   "/run/systemd", "/run/utter",
                                          "/var/lib/utter", "/etc" };
    if (text_starts(path, "/var/run/"))
        path += strlen("/var");
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        if (path_below(path, places[i]))
            return true;
    }
    return false;
}

/* containerd's own places: logs of shims, other plugins' state. CRI's streams lie in its plugin's.
 */
static bool is_containerds_own(const char *path, const struct policy_context *context)
{
    const char *state = context->containerd_state ? context->containerd_state : "/run/containerd";
    size_t n = strlen(state);
    if (strncmp(path, state, n) != 0 || !text_starts(path + n, "/io.containerd."))
        return false;
    bool cri = context->ns && strcmp(context->ns, "k8s.io") == 0;
    return !cri || !text_starts(path + n, "/io.containerd.grpc.v1.cri/");
}

static bool check_fifo(const char *uri, const struct policy_context *context,
                       struct policy_stdio *out)
{
    if (!path_is_clean(uri) || !uri[1] || is_hosts_own(uri) || is_containerds_own(uri, context) ||
        strlen(uri) >= sizeof(out->path))
        return false;
    out->kind = POLICY_STDIO_FIFO;
    (void)snprintf(out->path, sizeof(out->path), "%s", uri);
    return true;
}

static bool check_file(const char *path, const struct policy_config *config,
                       struct policy_stdio *out)
{
    for (char **prefix = config->log_prefixes; prefix && *prefix; prefix++) {
        if (!path_is_clean(path) || !path_below(path, *prefix) || strcmp(path, *prefix) == 0)
            continue;
        out->kind = POLICY_STDIO_FILE;
        out->prefix = *prefix;
        (void)snprintf(out->path, sizeof(out->path), "%s", path + strlen(*prefix) + 1);
        return true;
    }
    return false;
}

/* What containerd's Go does to a query value: %XX and '+'. */
static bool unescape(const char *text, size_t n, char *out, size_t size)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        uint8_t byte = (uint8_t)text[i];
        if (text[i] == '%') {
            if (i + 2 >= n || !text_unhex(text + i + 1, &byte, 1) || byte == 0)
                return false;
            i += 2;
        } else if (text[i] == '+') {
            byte = ' ';
        }
        if (k + 1 >= size)
            return false;
        out[k++] = (char)byte;
    }
    out[k] = 0;
    return true;
}

struct query {
    char keys[8][256];
    char values[8][1024];
    size_t n;
};

static bool parse_query(const char *text, struct query *query)
{
    query->n = 0;
    while (*text) {
        size_t n = strcspn(text, "&"), k = strcspn(text, "=&");
        if (query->n >= ARRAY_LEN(query->keys) || k >= n ||
            !unescape(text, k, query->keys[query->n], sizeof(query->keys[0])) ||
            !unescape(text + k + 1, n - k - 1, query->values[query->n], sizeof(query->values[0])))
            return false;
        query->n++;
        text += n + (text[n] == '&');
    }
    return true;
}

static bool logger_equals(const struct policy_logger *logger, const char *path,
                          const struct query *query)
{
    size_t n = 0;
    if (strcmp(logger->path, path) != 0)
        return false;
    for (; logger->keys[n]; n++) {
        size_t i = 0;
        while (i < query->n && strcmp(query->keys[i], logger->keys[n]) != 0)
            i++;
        if (i == query->n || strcmp(query->values[i], logger->values[n]) != 0)
            return false;
    }
    return query->n == n;
}

/* binary:///usr/local/bin/nerdctl?_NERDCTL_INTERNAL_LOGGING=<data-root>/<8 hex>: the one that every
 * nerdctl run -d uses. The value must be the store of this container's own state-dir. */
static bool is_nerdctl_logger(const char *path, const struct query *query, const json_t *spec,
                              const struct policy_config *config)
{
    const char *root = config->nerdctl.data_root, *value = query->values[0];
    size_t n = strlen(root);
    if (strcmp(path, config->nerdctl.binary) != 0 || query->n != 1 ||
        strcmp(query->keys[0], "_NERDCTL_INTERNAL_LOGGING") != 0)
        return false;
    if (strncmp(value, root, n) != 0 || value[n] != '/' || strlen(value) != n + 9 ||
        strspn(value + n + 1, "0123456789abcdef") != 8)
        return false;
    const char *state = spec_annotation(spec, "nerdctl/state-dir");
    return !state || path_below(state, value);
}

static bool check_binary(const char *rest, const json_t *spec, const struct policy_config *config,
                         struct policy_stdio *out)
{
    struct query query;
    size_t n = strcspn(rest, "?");
    char path[4096];
    if (n >= sizeof(path) || !unescape(rest, n, path, sizeof(path)) || strchr(rest, '+') ||
        strchr(rest, '#') || strchr(rest, ';') || !path_is_clean(path) ||
        !parse_query(rest + n + (rest[n] == '?'), &query))
        return false;
    out->kind = POLICY_STDIO_BINARY;
    (void)snprintf(out->path, sizeof(out->path), "%s", path);
    for (size_t i = 0; i < config->n_loggers; i++) {
        if (logger_equals(&config->loggers[i], path, &query)) {
            out->logger = &config->loggers[i];
            return true;
        }
    }
    if (!is_nerdctl_logger(path, &query, spec, config))
        return false;
    (void)snprintf(out->value, sizeof(out->value), "%s", query.values[0]);
    return true;
}

static bool is_accepted(const char *uri, bool input, const json_t *spec,
                        const struct policy_context *context, const struct policy_config *config,
                        struct policy_stdio *out)
{
    if (uri[0] == '/')
        return check_fifo(uri, context, out);
    if (input)
        return false;
    if (text_starts(uri, "file://"))
        return check_file(uri + strlen("file://"), config, out);
    return text_starts(uri, "binary://") &&
           check_binary(uri + strlen("binary://"), spec, config, out);
}

void policy_check_stdio(const char *uri, const char *which, const json_t *spec,
                        const struct policy_context *context, const struct policy_config *config,
                        struct policy_stdio *out, struct policy_report *report)
{
    memset(out, 0, sizeof(*out));
    if (!*uri || is_accepted(uri, strcmp(which, "stdin") == 0, spec, context, config, out))
        return;
    memset(out, 0, sizeof(*out));
    policy_report_add(report, "stdio", which, "%s is \"%s\"", which, uri);
}
