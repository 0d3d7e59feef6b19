/* What secrets look like. A known mark is enough; nothing here proves that a value is harmless. */
#include <ctype.h>
#include <string.h>

#include "base/own.h"
#include "policy/env.h"

static bool is_token_byte(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-';
}

static size_t token_length(const char *p)
{
    size_t n = 0;
    while (is_token_byte(p[n]))
        n++;
    return n;
}

/* A mark, then at least `rest` bytes of letters, digits, '_' and '-'. */
static const struct {
    const char *mark;
    size_t rest;
    const char *what;
} marks[] = {
    { "-----BEGIN", 0, "a PEM block" },
    { "AGE-SECRET-KEY-", 0, "an age key" },
    { "AKIA", 16, "an AWS access key" },
    { "ASIA", 16, "an AWS session key" },
    { "AIza", 35, "a Google API key" },
    { "ya29.", 20, "a Google access token" },
    { "AccountKey=", 0, "an Azure storage key" },
    { "SharedAccessSignature", 0, "an Azure access signature" },
    { "ghp_", 20, "a GitHub token" },
    { "gho_", 20, "a GitHub token" },
    { "ghu_", 20, "a GitHub token" },
    { "ghs_", 20, "a GitHub token" },
    { "ghr_", 20, "a GitHub token" },
    { "github_pat_", 20, "a GitHub token" },
    { "glpat-", 16, "a GitLab token" },
    { "xoxb-", 10, "a Slack token" },
    { "xoxp-", 10, "a Slack token" },
    { "xoxa-", 10, "a Slack token" },
    { "xapp-", 10, "a Slack token" },
    { "sk_live_", 10, "a Stripe key" },
    { "sk_test_", 10, "a Stripe key" },
    { "rk_live_", 10, "a Stripe key" },
    { "sk-", 20, "an API key" },
    { "hf_", 30, "a Hugging Face token" },
    { "npm_", 30, "an npm token" },
    { "pypi-", 30, "a PyPI token" },
    { "dop_v1_", 30, "a DigitalOcean token" },
    { "dckr_pat_", 16, "a Docker token" },
    { "SG.", 20, "a SendGrid key" },
    { "hvs.", 20, "a Vault token" },
};

static bool starts_a_word(const char *value, const char *p)
{
    return p == value || !isalnum((unsigned char)p[-1]);
}

static const char *marked(const char *value)
{
    for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
        size_t n = strlen(marks[i].mark);
        for (const char *p = strstr(value, marks[i].mark); p; p = strstr(p + 1, marks[i].mark)) {
            if (starts_a_word(value, p) && token_length(p + n) >= marks[i].rest)
                return marks[i].what;
        }
    }
    return NULL;
}

/* eyJ… . eyJ… . …: a base64url object, a dot, another object. */
static bool has_jwt(const char *value)
{
    for (const char *p = strstr(value, "eyJ"); p; p = strstr(p + 1, "eyJ")) {
        size_t n = token_length(p);
        if (n >= 8 && p[n] == '.' && strncmp(p + n + 1, "eyJ", 3) == 0)
            return true;
    }
    return false;
}

/* scheme://user:password@host */
static bool has_userinfo(const char *value)
{
    for (const char *p = strstr(value, "://"); p; p = strstr(p + 3, "://")) {
        const char *authority = p + 3;
        size_t n = strcspn(authority, "/?# \t");
        const char *sign = memchr(authority, '@', n);
        if (sign && memchr(authority, ':', (size_t)(sign - authority)))
            return true;
    }
    return false;
}

static bool has_private_key(const char *value)
{
    for (const char *p = strstr(value, "0x"); p; p = strstr(p + 1, "0x")) {
        if (strspn(p + 2, "0123456789abcdefABCDEF") == 64)
            return true;
    }
    return false;
}

const char *env_secret_shape(const char *value)
{
    const char *what = marked(value);
    if (what)
        return what;
    if (has_jwt(value))
        return "a JSON Web Token";
    if (has_userinfo(value))
        return "an address with a password";
    return has_private_key(value) ? "a 32-byte key" : NULL;
}

static bool is_blob_byte(char c, bool slash)
{
    return is_token_byte(c) || c == '+' || c == '=' || (slash && c == '/');
}

static const char *blob_shape(const char *p, size_t n)
{
    bool upper = false, lower = false, digit = false, hex = true;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)p[i];
        upper |= isupper(c) != 0;
        lower |= islower(c) != 0;
        digit |= isdigit(c) != 0;
        hex &= isxdigit(c) != 0;
    }
    if (n < 32)
        return NULL;
    if (hex && digit && (upper || lower))
        return "a key of hex digits";
    return upper && lower && digit ? "a random-looking token" : NULL;
}

const char *env_secret_guess(const char *value)
{
    /* In a path or an address '/' parts words, in base64 it belongs to them. */
    bool slash = value[0] != '/' && !strstr(value, "://");
    for (const char *p = value; *p;) {
        size_t n = 0;
        while (p[n] && is_blob_byte(p[n], slash))
            n++;
        const char *what = blob_shape(p, n);
        if (what)
            return what;
        p += n ? n : 1;
    }
    return NULL;
}
