/* The default names, each with the form of its value. A name belongs here when an official image or
 * a tool sets it by itself; anything else is for the operator's list. */
#include "policy/env.h"

#include <ctype.h>
#include <string.h>

#include "base/own.h"
#include "base/text.h"
#include "policy/check.h"

/* ---- forms ---------------------------------------------------------------------------------- */

static bool is_all(const char *value, size_t max, const char *also)
{
    size_t n = strlen(value);
    for (size_t i = 0; i < n; i++) {
        if (!isalnum((unsigned char)value[i]) && !strchr(also, value[i]))
            return false;
    }
    return n > 0 && n <= max;
}

static bool is_hex(const char *value, size_t digits)
{
    return strlen(value) == digits && strspn(value, "0123456789abcdefABCDEF") == digits;
}

static bool is_hex40(const char *value)
{
    return is_hex(value, 40);
}

static bool is_hex64(const char *value)
{
    return is_hex(value, 64);
}

static bool is_version(const char *value)
{
    return is_all(value, 31, ".+~-_");
}

static bool is_path(const char *value)
{
    return path_is_clean(value) && is_all(value, 200, "/._+-@");
}

static bool is_path_list(const char *value)
{
    char item[256];
    for (const char *p = value;;) {
        size_t n = strcspn(p, ":");
        if (n == 0 || n >= sizeof(item))
            return false;
        memcpy(item, p, n);
        item[n > 1 && p[n - 1] == '/' ? n - 1 : n] = 0;
        if (!is_path(item))
            return false;
        if (!p[n])
            return true;
        p += n + 1;
    }
}

static bool is_locale(const char *value)
{
    return is_all(value, 31, "._@-:");
}

static bool is_terminal(const char *value)
{
    return is_all(value, 31, ".+-_");
}

static bool is_flag(const char *value)
{
    return strcmp(value, "0") == 0 || strcmp(value, "1") == 0 || strcmp(value, "true") == 0 ||
           strcmp(value, "false") == 0;
}

static bool is_local(const char *value)
{
    return strcmp(value, "local") == 0 || strcmp(value, "auto") == 0;
}

static bool is_https(const char *value)
{
    return text_starts(value, "https://") && is_all(value, 250, "/._+-:~");
}

/* Words of at most 64 bytes, separated by blanks. */
static bool is_words(const char *value, const char *also, bool (*word_is)(const char *word))
{
    char word[65];
    const char *p = value + strspn(value, " \t");
    if (!*p)
        return false;
    while (*p) {
        size_t n = strcspn(p, " \t");
        if (n >= sizeof(word))
            return false;
        memcpy(word, p, n);
        word[n] = 0;
        if (word_is ? !word_is(word) : !is_all(word, 64, also))
            return false;
        p += n + strspn(p + n, " \t");
    }
    return strlen(value) <= 1024;
}

static bool is_hex40_words(const char *value)
{
    return is_words(value, NULL, is_hex40);
}

static bool is_packages(const char *value)
{
    return is_words(value, "+.-", NULL);
}

static bool is_option(const char *word)
{
    return word[0] == '-' && is_all(word, 64, "-_=,.+/");
}

static bool is_options(const char *value)
{
    return is_words(value, NULL, is_option);
}

static bool is_port(const char *value)
{
    uint64_t port;
    return text_u64(value, &port) && port >= 1 && port <= 65535;
}

static bool is_protocol(const char *value)
{
    return strcmp(value, "tcp") == 0 || strcmp(value, "udp") == 0 || strcmp(value, "sctp") == 0;
}

/* tcp://10.0.0.1:80, tcp://[fd00::1]:80 */
static bool is_endpoint(const char *value)
{
    char host[64];
    const char *rest = strstr(value, "://");
    if (!rest || rest - value > 4)
        return false;
    memcpy(host, value, (size_t)(rest - value));
    host[rest - value] = 0;
    if (!is_protocol(host))
        return false;
    rest += 3;
    const char *colon = strrchr(rest, ':');
    size_t n = colon ? (size_t)(colon - rest) : 0;
    bool bracket = n >= 2 && rest[0] == '[' && rest[n - 1] == ']';
    if (n == 0 || n >= sizeof(host) || !is_port(colon + 1))
        return false;
    memcpy(host, rest + bracket, n - 2 * (size_t)bracket);
    host[n - 2 * (size_t)bracket] = 0;
    return ip_is_valid(host);
}

static bool is_port_or_endpoint(const char *value)
{
    return is_port(value) || is_endpoint(value);
}

/* ---- the default names --------------------------------------------------------------------- */

#define LAST                                                                                       \
    {                                                                                              \
        NULL, NULL, NULL                                                                           \
    }
#define VERSION is_version, "a version, at most 31 bytes"
#define SHA256 is_hex64, "64 hex digits"
#define DIRECTORY is_path, "an absolute path"
#define URL is_https, "an https:// address without credentials or query"

static const struct env_name tool_names[] = {
    { "PATH", is_path_list, "a list of absolute paths" },
    { "HOSTNAME", hostname_is_valid, "a host name" },
    { "TERM", is_terminal, "a terminal type" },
    { "HOME", DIRECTORY },
    { "LANG", is_locale, "a locale" },
    LAST,
};

static const struct env_name python_names[] = {
    { "GPG_KEY", is_hex40, "40 hex digits" },
    { "PYTHON_VERSION", VERSION },
    { "PYTHON_SHA256", SHA256 },
    { "PYTHON_PIP_VERSION", VERSION },
    { "PYTHON_SETUPTOOLS_VERSION", VERSION },
    { "PYTHON_GET_PIP_URL", URL },
    { "PYTHON_GET_PIP_SHA256", SHA256 },
    LAST,
};

static const struct env_name node_names[] = {
    { "NODE_VERSION", VERSION },
    { "YARN_VERSION", VERSION },
    LAST,
};

static const struct env_name golang_names[] = {
    { "GOLANG_VERSION", VERSION },
    { "GOTOOLCHAIN", is_local, "local or auto" },
    { "GOPATH", DIRECTORY },
    LAST,
};

static const struct env_name ruby_names[] = {
    { "RUBY_VERSION", VERSION },
    { "RUBY_MAJOR", VERSION },
    { "RUBY_DOWNLOAD_URL", URL },
    { "RUBY_DOWNLOAD_SHA256", SHA256 },
    { "GEM_HOME", DIRECTORY },
    { "BUNDLE_SILENCE_ROOT_WARNING", is_flag, "0, 1, true or false" },
    { "BUNDLE_APP_CONFIG", DIRECTORY },
    LAST,
};

static const struct env_name openjdk_names[] = {
    { "JAVA_HOME", DIRECTORY },
    { "JAVA_VERSION", VERSION },
    { "LANGUAGE", is_locale, "locales" },
    { "LC_ALL", is_locale, "a locale" },
    LAST,
};

static const struct env_name php_names[] = {
    { "PHPIZE_DEPS", is_packages, "package names" },
    { "PHP_INI_DIR", DIRECTORY },
    { "PHP_CFLAGS", is_options, "compiler options" },
    { "PHP_CPPFLAGS", is_options, "compiler options" },
    { "PHP_LDFLAGS", is_options, "linker options" },
    { "PHP_EXTRA_CONFIGURE_ARGS", is_options, "configure options" },
    { "PHP_EXTRA_BUILD_DEPS", is_packages, "package names" },
    { "GPG_KEYS", is_hex40_words, "words of 40 hex digits" },
    { "PHP_VERSION", VERSION },
    { "PHP_URL", URL },
    { "PHP_ASC_URL", URL },
    { "PHP_SHA256", SHA256 },
    { "APACHE_CONFDIR", DIRECTORY },
    { "APACHE_ENVVARS", DIRECTORY },
    LAST,
};

static const struct env_name rust_names[] = {
    { "RUSTUP_HOME", DIRECTORY },
    { "CARGO_HOME", DIRECTORY },
    { "RUST_VERSION", VERSION },
    LAST,
};

const struct env_source env_sources[] = {
    { "tools: containerd, nerdctl, CRI, 2026-08", tool_names },
    { "python: docker-library/python 3.12 to 3.14, 2025-11", python_names },
    { "node: nodejs/docker-node 20 to 24, 2025-11", node_names },
    { "golang: docker-library/golang 1.23 to 1.25, 2025-11", golang_names },
    { "ruby: docker-library/ruby 3.3 to 3.4, 2025-11", ruby_names },
    { "openjdk: docker-library/openjdk, adoptium/containers, 2025-11", openjdk_names },
    { "php: docker-library/php 8.3 to 8.4, 2025-08", php_names },
    { "rust: rust-lang/docker-rust 1.80 to 1.91, 2025-11", rust_names },
    { NULL, NULL },
};

/* ---- Kubernetes' service links --------------------------------------------------------------- */

static const struct env_name link_host = { "*_SERVICE_HOST", ip_is_valid, "an IP address" };
static const struct env_name link_port = { "*_SERVICE_PORT", is_port, "a port" };
static const struct env_name link_endpoint = { "*_PORT", is_port_or_endpoint,
                                               "a port or tcp://IP:port" };
static const struct env_name link_protocol = { "*_PORT_*_PROTO", is_protocol, "tcp, udp or sctp" };

static bool ends(const char *name, size_t n, const char *suffix, size_t *cut)
{
    size_t k = strlen(suffix);
    if (n <= k || memcmp(name + n - k, suffix, k) != 0)
        return false;
    *cut = n - k;
    return true;
}

/* NAME_PORT_80_TCP: where "_PORT_80_TCP" starts; 0 if it is not of that form. */
static size_t port_part(const char *name, size_t n)
{
    static const char *const protocols[] = { "_TCP", "_UDP", "_SCTP" };
    for (size_t i = 0; i < ARRAY_LEN(protocols); i++) {
        size_t cut;
        if (!ends(name, n, protocols[i], &cut))
            continue;
        size_t digits = cut;
        while (digits > 0 && isdigit((unsigned char)name[digits - 1]))
            digits--;
        if (digits < cut && ends(name, digits, "_PORT_", &cut))
            return cut;
    }
    return 0;
}

static const struct env_name *link_find(const char *name, size_t *service)
{
    size_t n = strlen(name), cut;
    const char *named = strstr(name, "_SERVICE_PORT_");
    if (ends(name, n, "_SERVICE_HOST", service))
        return &link_host;
    if (ends(name, n, "_SERVICE_PORT", service))
        return &link_port;
    if (ends(name, n, "_PROTO", &cut) && (*service = port_part(name, cut)))
        return &link_protocol;
    if (ends(name, n, "_ADDR", &cut) && (*service = port_part(name, cut)))
        return &link_host;
    if (ends(name, n, "_PORT", &cut) && (*service = port_part(name, cut)))
        return &link_port;
    if ((*service = port_part(name, n)) || ends(name, n, "_PORT", service))
        return &link_endpoint;
    if (named && named > name && named[strlen("_SERVICE_PORT_")]) {
        *service = (size_t)(named - name);
        return &link_port;
    }
    return NULL;
}

bool env_link_service(const char *name, char service[ENV_NAME_MAX])
{
    size_t n = 0;
    if (strlen(name) >= ENV_NAME_MAX || !link_find(name, &n))
        return false;
    memcpy(service, name, n);
    service[n] = 0;
    return true;
}

const struct env_name *env_name_find(const char *name, bool pod)
{
    for (const struct env_source *source = env_sources; source->source; source++) {
        for (const struct env_name *row = source->names; row->name; row++) {
            if (strcmp(row->name, name) == 0)
                return row;
        }
    }
    size_t service;
    return pod ? link_find(name, &service) : NULL;
}

bool env_split(const char *entry, char name[ENV_NAME_MAX], const char **value)
{
    size_t n = strcspn(entry, "=");
    if (entry[n] != '=' || n == 0 || n >= ENV_NAME_MAX || isdigit((unsigned char)entry[0]))
        return false;
    memcpy(name, entry, n);
    name[n] = 0;
    *value = entry + n + 1;
    for (size_t i = 0; i < n; i++) {
        if (!isalnum((unsigned char)name[i]) && name[i] != '_')
            return false;
    }
    return true;
}
