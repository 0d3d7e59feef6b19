#include "dataproxy/upstream.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "base/own.h"
#include "base/text.h"
#include "dataproxy/address.h"

void upstream_fini(struct upstream *u)
{
    for (size_t i = 0; i < u->n_rules; i++) {
        for (size_t k = 0; k < u->rule[i].n_methods; k++)
            free(u->rule[i].method[k]);
        free(u->rule[i].path);
    }
    for (size_t i = 0; i < u->n_headers; i++)
        free(u->header[i]);
    char *owned[] = {
        u->url,          u->host,        u->base,          u->inject.file,    u->inject.name,
        u->inject.value, u->inject.user, u->inject.region, u->inject.service, u->inject.token_url,
        u->inject.scope
    };
    for (size_t i = 0; i < ARRAY_LEN(owned); i++)
        free(owned[i]);
    *u = (struct upstream){ 0 };
}

/* ---- paths ---- */

static bool encoded_is_harmless(uint8_t c)
{
    return c >= 0x20 && c != 0x7f && c != '/' && c != '\\' && c != '.' && c != '%';
}

static bool text_valid(const char *s, size_t len, const char *never)
{
    for (size_t i = 0; i < len; i++) {
        uint8_t c;
        if (s[i] <= 0x20 || s[i] >= 0x7f || strchr(never, s[i]))
            return false;
        if (s[i] != '%')
            continue;
        if (len - i < 3 || !text_unhex(s + i + 1, &c, 1))
            return false;
        if (strchr(never, '\\') && !encoded_is_harmless(c))
            return false;
    }
    return true;
}

bool upstream_path_valid(const char *path, size_t len)
{
    if (len == 0 || path[0] != '/' || !text_valid(path, len, "\\#?\"<>^`{|}"))
        return false;
    for (size_t from = 1; from <= len;) {
        const char *slash = memchr(path + from, '/', len - from);
        size_t end = slash ? (size_t)(slash - path) : len;
        size_t n = end - from;
        /* An empty last segment is a trailing slash, which is one reading. */
        if ((n == 0 && end != len) || (n == 1 && path[from] == '.') ||
            (n == 2 && path[from] == '.' && path[from + 1] == '.'))
            return false;
        from = end + 1;
    }
    return true;
}

bool upstream_query_valid(const char *query, size_t len)
{
    return text_valid(query, len, "#\"<>");
}

static bool segment_is_any(const char *pattern, size_t len)
{
    return len >= 2 && pattern[0] == '{' && pattern[len - 1] == '}';
}

static bool path_matches(const char *pattern, const char *path)
{
    while (*pattern == '/' && *path == '/') {
        pattern++;
        path++;
        if (strcmp(pattern, "*") == 0)
            return *path != 0;
        size_t want = strcspn(pattern, "/");
        size_t have = strcspn(path, "/");
        if (segment_is_any(pattern, want) ? have == 0
                                          : want != have || memcmp(pattern, path, want) != 0)
            return false;
        pattern += want;
        path += have;
    }
    return *pattern == 0 && *path == 0;
}

bool upstream_allows(const struct upstream *u, const char *method, const char *path)
{
    for (size_t i = 0; i < u->n_rules; i++) {
        for (size_t k = 0; k < u->rule[i].n_methods; k++) {
            if (strcmp(u->rule[i].method[k], method) == 0 && path_matches(u->rule[i].path, path))
                return true;
        }
    }
    return false;
}

/* One name of a query, up to '=', '&' or ';', held against `name`. */
static bool names(const char *query, size_t len, const char *name)
{
    size_t at = 0;
    for (; *name; name++) {
        uint8_t c;
        if (at == len)
            return false;
        c = (uint8_t)query[at];
        bool escaped = c == '%' && len - at >= 3 && text_unhex(query + at + 1, &c, 1);
        at += escaped ? 3 : 1;
        if (tolower(c) != tolower((unsigned char)*name))
            return false;
    }
    /* PHP takes "key[]" and "key.x" for key. */
    return at == len || query[at] == '[' || query[at] == '.' || query[at] == '%';
}

bool upstream_query_names_credential(const struct upstream *u, const char *query)
{
    if (u->inject.kind != INJECT_QUERY)
        return false;
    while (*query) {
        size_t pair = strcspn(query, "&;");
        size_t name = strcspn(query, "=&;");
        if (names(query, name < pair ? name : pair, u->inject.name))
            return true;
        query += pair + (query[pair] != 0);
    }
    return false;
}

/* ---- headers ---- */

static bool listed(const char *const *names, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (strcasecmp(names[i], name) == 0)
            return true;
    }
    return false;
}

static const char *const never_sent[] = {
    "authorization",
    "connection",
    "content-length",
    "cookie",
    "cookie2",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "utter-data-token",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
    "accept-encoding",
    "proxy-authenticate",
    "content-encoding",
};

static const char *const sent_by_default[] = {
    "accept", "accept-language", "content-type", "if-none-match", "if-modified-since",
};

static const char *const sent_without_credential[] = { "range", "if-range" };

bool upstream_header_allowed(const struct upstream *u, const char *name)
{
    if (listed(never_sent, ARRAY_LEN(never_sent), name) ||
        (u->inject.kind == INJECT_HEADER && strcasecmp(u->inject.name, name) == 0) ||
        (u->inject.kind == INJECT_SIGV4 && strncasecmp(name, "x-amz-", 6) == 0))
        return false;
    return listed(sent_by_default, ARRAY_LEN(sent_by_default), name) ||
           (u->inject.kind == INJECT_NONE &&
            listed(sent_without_credential, ARRAY_LEN(sent_without_credential), name)) ||
           listed((const char *const *)u->header, u->n_headers, name);
}

static const char *const answered[] = {
    "content-type",
    "content-language",
    "content-range",
    "etag",
    "last-modified",
    "cache-control",
    "expires",
    "age",
    "date",
    "retry-after",
    "link",
    "x-request-id",
    "accept-ranges",
    "content-disposition",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
};

bool upstream_answer_header_allowed(const char *name)
{
    return listed(answered, ARRAY_LEN(answered), name);
}

/* ---- reading ---- */

static CHECKED enum err_kind copy_member(const json_t *object, const char *key, bool required,
                                         char **out, struct err *err)
{
    const char *value = NULL;
    enum err_kind kind = json_get_string(object, key, required, &value, err);
    if (kind || !value)
        return kind;
    if (!*value || strlen(value) > 1024 || strpbrk(value, "\r\n\t"))
        return err_set(err, ERR_INVALID, "\"%s\" must be 1 to 1024 printable characters", key);
    *out = xstrdup(value);
    return ERR_OK;
}

static CHECKED enum err_kind read_port(struct upstream *u, const char *text, struct err *err)
{
    uint64_t port;
    if (!text_u64(text, &port) || port == 0 || port > 65535)
        return err_set(err, ERR_INVALID, "\"url\": port must be 1 to 65535");
    u->port = (uint16_t)port;
    return ERR_OK;
}

static bool host_valid(const char *host)
{
    size_t n = strlen(host);
    if (n == 0 || n > 253 || address_is_odd_literal(host))
        return false;
    if (host[0] == '[')
        return true;
    for (size_t i = 0; i < n; i++) {
        bool dot = host[i] == '.';
        if (!islower((unsigned char)host[i]) && !isdigit((unsigned char)host[i]) &&
            host[i] != '-' && !dot)
            return false;
        if (dot && (i == 0 || i == n - 1 || host[i - 1] == '.'))
            return false;
    }
    return true;
}

static CHECKED enum err_kind read_authority(struct upstream *u, const char *authority, size_t len,
                                            struct err *err)
{
    if (memchr(authority, '@', len))
        return err_set(err, ERR_INVALID, "\"url\": no user and password in a URL (use \"inject\")");
    u->host = xstrndup(authority, len);
    char *colon = u->host[0] == '[' ? strstr(u->host, "]:") : strrchr(u->host, ':');
    if (colon && u->host[0] == '[')
        colon++;
    u->port = u->tls ? 443 : 80;
    if (colon) {
        enum err_kind kind = read_port(u, colon + 1, err);
        *colon = 0;
        if (kind)
            return kind;
    }
    for (char *p = u->host; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    if (!host_valid(u->host))
        return err_set(err, ERR_INVALID,
                       "\"url\": host must be a plain DNS name (punycode for others), an IPv4 "
                       "address in four decimal parts, or an IPv6 address in brackets");
    return ERR_OK;
}

static CHECKED enum err_kind read_url(struct upstream *u, const json_t *object, struct err *err)
{
    if (copy_member(object, "url", true, &u->url, err))
        return err->kind;
    u->tls = text_starts(u->url, "https://");
    if (!u->tls && !text_starts(u->url, "http://"))
        return err_set(err, ERR_INVALID,
                       "\"url\" must begin with https:// (or http:// with "
                       "\"internal\": true)");
    if (!u->tls && !u->internal)
        return err_set(err, ERR_INVALID,
                       "\"url\" is plain http: use https, or declare the upstream "
                       "\"internal\": true");
    const char *authority = u->url + (u->tls ? 8 : 7);
    size_t len = strcspn(authority, "/?#");
    if (read_authority(u, authority, len, err))
        return err->kind;
    const char *path = authority + len;
    size_t path_len = strlen(path);
    if (path_len && path[path_len - 1] == '/')
        path_len--;
    if (path_len && !upstream_path_valid(path, path_len))
        return err_set(err, ERR_INVALID, "\"url\": path must be plain segments, without query");
    u->base = xstrndup(path, path_len);
    return ERR_OK;
}

static bool pattern_valid(const char *path)
{
    if (path[0] != '/' || strlen(path) > 512)
        return false;
    for (const char *p = path; *p;) {
        const char *segment = ++p;
        size_t n = strcspn(p, "/");
        p += n;
        bool last = !*p;
        if (n == 1 && segment[0] == '*' && last)
            continue;
        if (segment_is_any(segment, n) && !memchr(segment + 1, '{', n - 1))
            continue;
        if (n == 0 ? !last : !upstream_path_valid(segment - 1, n + 1) || memchr(segment, '*', n))
            return false;
    }
    return true;
}

static CHECKED enum err_kind read_methods(const json_t *list, struct upstream_rule *rule,
                                          struct err *err)
{
    static const char *const known[] = { "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE" };
    size_t n = json_array_size(list);
    if (n == 0 || n > UPSTREAM_METHODS_MAX)
        return err_set(err, ERR_INVALID, "\"allow\": \"methods\" must list 1 to %d methods",
                       UPSTREAM_METHODS_MAX);
    for (size_t i = 0; i < n; i++) {
        const char *name = json_string_value(json_array_get(list, i));
        bool found = false;
        for (size_t k = 0; name && k < ARRAY_LEN(known); k++)
            found |= strcmp(known[k], name) == 0;
        if (!found)
            return err_set(err, ERR_INVALID,
                           "\"allow\": methods are GET, HEAD, POST, PUT, PATCH, DELETE");
        rule->method[rule->n_methods++] = xstrdup(name);
    }
    return ERR_OK;
}

static CHECKED enum err_kind read_rule(const json_t *object, struct upstream *u, struct err *err)
{
    static const char *const names[] = { "methods", "path", NULL };
    if (!json_is_object(object) || u->n_rules == UPSTREAM_RULES_MAX)
        return err_set(err, ERR_INVALID, "\"allow\" must hold 1 to %d objects {methods, path}",
                       UPSTREAM_RULES_MAX);
    struct upstream_rule *rule = &u->rule[u->n_rules++];
    if (json_only_keys(object, names, "\"allow\"", err) ||
        copy_member(object, "path", true, &rule->path, err) ||
        read_methods(json_object_get(object, "methods"), rule, err))
        return err->kind;
    if (!pattern_valid(rule->path))
        return err_set(err, ERR_INVALID,
                       "\"allow\": path \"%s\" must be /segments, with {name} for any one segment "
                       "and * only as the last",
                       rule->path);
    return ERR_OK;
}

static CHECKED enum err_kind read_rules(struct upstream *u, const json_t *object, struct err *err)
{
    const json_t *list = json_object_get(object, "allow");
    if (json_array_size(list) == 0)
        return err_set(err, ERR_INVALID,
                       "\"allow\" must list at least one {methods, path}: "
                       "nothing is allowed by default");
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (read_rule(json_array_get(list, i), u, err))
            return err->kind;
    }
    return ERR_OK;
}

static bool header_name_valid(const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < n; i++) {
        if (!isalnum((unsigned char)name[i]) && name[i] != '-' && name[i] != '_')
            return false;
    }
    return n > 0 && n <= 64;
}

static CHECKED enum err_kind read_headers(struct upstream *u, const json_t *object, struct err *err)
{
    const json_t *list = json_object_get(object, "headers");
    if (list && (!json_is_array(list) || json_array_size(list) > UPSTREAM_HEADERS_MAX))
        return err_set(err, ERR_INVALID, "\"headers\" must list at most %d names",
                       UPSTREAM_HEADERS_MAX);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (!name || !header_name_valid(name))
            return err_set(err, ERR_INVALID, "\"headers\": not a header name");
        if (listed(never_sent, ARRAY_LEN(never_sent), name))
            return err_set(err, ERR_INVALID, "\"headers\": %s is never passed on", name);
        u->header[u->n_headers++] = xstrdup(name);
    }
    return ERR_OK;
}

/* Which members each kind has: required ones first. */
static const struct inject_form {
    const char *key;
    enum inject_kind kind;
    const char *const names[8];
} inject_forms[] = {
    { "header", INJECT_HEADER, { "name", "file", "value", NULL } },
    { "query", INJECT_QUERY, { "name", "file", NULL } },
    { "basic", INJECT_BASIC, { "user", "file", NULL } },
    { "sigv4", INJECT_SIGV4, { "user", "file", "region", "service", NULL } },
    { "oauth2", INJECT_OAUTH2, { "user", "file", "token_url", "scope", NULL } },
};

static CHECKED enum err_kind check_inject(const struct upstream *u, struct err *err)
{
    const struct inject_spec *in = &u->inject;
    if (in->file[0] != '/')
        return err_set(err, ERR_INVALID, "\"inject\": \"file\" must be an absolute path");
    if (in->kind == INJECT_HEADER) {
        const char *at = in->value ? strstr(in->value, "{secret}") : NULL;
        if (!header_name_valid(in->name))
            return err_set(err, ERR_INVALID, "\"inject\": \"name\" is not a header name");
        if (in->value && (!at || strstr(at + 1, "{secret}")))
            return err_set(err, ERR_INVALID, "\"inject\": \"value\" must hold {secret} once");
        if (strcasecmp(in->name, "authorization") != 0 &&
            listed(never_sent, ARRAY_LEN(never_sent), in->name))
            return err_set(err, ERR_INVALID, "\"inject\": %s cannot carry a credential", in->name);
    }
    if (in->kind == INJECT_QUERY && !header_name_valid(in->name))
        return err_set(err, ERR_INVALID, "\"inject\": \"name\" is not a parameter name");
    if (in->kind == INJECT_BASIC && strchr(in->user, ':'))
        return err_set(err, ERR_INVALID, "\"inject\": \"user\" may not hold a colon");
    if (in->kind == INJECT_OAUTH2 && !text_starts(in->token_url, "https://") &&
        !(u->internal && text_starts(in->token_url, "http://")))
        return err_set(err, ERR_INVALID, "\"inject\": \"token_url\" must begin with https://");
    return ERR_OK;
}

static CHECKED enum err_kind read_inject_members(struct upstream *u, const json_t *object,
                                                 const struct inject_form *form, struct err *err)
{
    struct inject_spec *in = &u->inject;
    const struct {
        const char *key;
        char **to;
    } members[] = {
        { "file", &in->file },           { "name", &in->name },     { "value", &in->value },
        { "user", &in->user },           { "region", &in->region }, { "service", &in->service },
        { "token_url", &in->token_url }, { "scope", &in->scope },
    };
    if (!json_is_object(object))
        return err_set(err, ERR_INVALID, "\"inject\": \"%s\" must be an object", form->key);
    if (json_only_keys(object, form->names, "\"inject\"", err))
        return err->kind;
    in->kind = form->kind;
    for (size_t i = 0; i < ARRAY_LEN(members); i++) {
        bool belongs = false;
        for (size_t k = 0; form->names[k]; k++)
            belongs |= strcmp(form->names[k], members[i].key) == 0;
        bool optional =
            strcmp(members[i].key, "value") == 0 || strcmp(members[i].key, "scope") == 0;
        if (belongs && copy_member(object, members[i].key, !optional, members[i].to, err))
            return err_prefix(err, "\"inject\"");
    }
    return check_inject(u, err);
}

static CHECKED enum err_kind read_inject(struct upstream *u, const json_t *object, struct err *err)
{
    const json_t *inject = json_object_get(object, "inject");
    if (!inject)
        return ERR_OK;
    for (size_t i = 0; json_object_size(inject) == 1 && i < ARRAY_LEN(inject_forms); i++) {
        const json_t *form = json_object_get(inject, inject_forms[i].key);
        if (form)
            return read_inject_members(u, form, &inject_forms[i], err);
    }
    return err_set(err, ERR_INVALID,
                   "\"inject\" must hold one of header, query, basic, sigv4, oauth2");
}

static CHECKED enum err_kind read_limits(struct upstream *u, const json_t *object, struct err *err)
{
    static const char *const names[] = { "request_body", "response_body",
                                         "timeout_ms",   "cache_ms",
                                         "cache_bytes",  "rate_per_minute",
                                         "rate_burst",   NULL };
    int64_t v[] = { 65536, 1048576, 10000, 0, 4194304, 0, 0 };
    static const int64_t most[] = { UPSTREAM_BODY_MAX, UPSTREAM_BODY_MAX, 300000, 86400000,
                                    64 << 20,          1000000,           1000000 };
    static const int64_t least[] = { 0, 1, 10, 0, 0, 0, 0 };
    const json_t *limits = json_object_get(object, "limits");
    if (limits && !json_is_object(limits))
        return err_set(err, ERR_INVALID, "\"limits\" must be an object");
    if (limits && json_only_keys(limits, names, "\"limits\"", err))
        return err->kind;
    for (size_t i = 0; limits && i < ARRAY_LEN(v); i++) {
        if (json_get_int(limits, names[i], false, least[i], most[i], &v[i], err))
            return err_prefix(err, "\"limits\"");
    }
    u->request_body = (size_t)v[0];
    u->response_body = (size_t)v[1];
    u->timeout_ms = (uint32_t)v[2];
    u->cache_ms = (uint32_t)v[3];
    u->cache_bytes = (size_t)v[4];
    u->rate_per_minute = (uint32_t)v[5];
    u->rate_burst = (uint32_t)(v[6] ? v[6] : v[5] / 6 + 1);
    return ERR_OK;
}

static CHECKED enum err_kind read_members(const json_t *object, struct upstream *u, struct err *err)
{
    if (json_get_bool(object, "internal", false, &u->internal, err) || read_url(u, object, err) ||
        read_rules(u, object, err) || read_headers(u, object, err) || read_inject(u, object, err) ||
        read_limits(u, object, err))
        return err_prefix(err, "upstream \"%s\"", u->name);
    return ERR_OK;
}

enum err_kind upstream_read(const json_t *object, struct upstream *out, struct err *err)
{
    static const char *const names[] = { "name",    "url",    "internal", "allow",
                                         "headers", "inject", "limits",   NULL };
    struct err scratch;
    err = err ? err : &scratch;
    const char *name = NULL;
    *out = (struct upstream){ 0 };
    if (!json_is_object(object))
        return err_set(err, ERR_INVALID, "an upstream must be an object");
    if (json_get_string(object, "name", true, &name, err))
        return err_prefix(err, "upstream");
    if (!data_name_valid(name, DATA_UPSTREAM_MAX))
        return err_set(err, ERR_INVALID,
                       "upstream: \"name\" must be 1 to %d of a-z, 0-9, inner - and _",
                       DATA_UPSTREAM_MAX);
    strcpy(out->name, name);
    if (json_only_keys(object, names, "upstream", err))
        return err_prefix(err, "upstream \"%s\"", name);
    return read_members(object, out, err);
}
