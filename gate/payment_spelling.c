/* One spelling for the members of schemes that are opaque here: their hash is the payment's key,
 * and a second spelling of one payment would be a second payment. */
#include <ctype.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "gate/payment_parts.h"

#define NUMBER_MAX ((json_int_t)1 << 53)

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static bool is_hex(const char *s)
{
    return s[0] == '0' && (s[1] == 'x' || s[1] == 'X') &&
           strspn(s + 2, "0123456789abcdefABCDEF") == strlen(s + 2);
}

/* The value of a base64 digit of either alphabet, or -1. */
static int digit(char c)
{
    c = (char)(c == '-' ? '+' : c == '_' ? '/' : c);
    const char *at = c ? strchr(alphabet, c) : NULL;
    return at ? (int)(at - alphabet) : -1;
}

/* In place, when all of it is base64; the bits that no byte is made of become zero. */
static void one_base64(char *s)
{
    size_t n = strcspn(s, "=");
    if (n == 0 || n % 4 == 1 || strlen(s) - n > 2 || strspn(s + n, "=") != strlen(s) - n)
        return;
    for (size_t i = 0; i < n; i++) {
        if (digit(s[i]) < 0)
            return;
    }
    for (size_t i = 0; i < n; i++)
        s[i] = alphabet[digit(s[i])];
    int unused = n % 4 == 2 ? 0xf : n % 4 == 3 ? 0x3 : 0;
    s[n - 1] = alphabet[digit(s[n - 1]) & ~unused];
    s[n] = '\0';
}

static json_t *one_text(const char *text)
{
    char *s CLEANUP_FREE = xstrdup(text);
    if (is_hex(s)) {
        for (char *p = s; *p; p++)
            *p = (char)tolower((unsigned char)*p);
    } else {
        one_base64(s);
    }
    return json_string(s);
}

static json_t *one_object(const json_t *value)
{
    json_t *out CLEANUP_JSON = json_object();
    const char *key;
    json_t *member;
    json_object_foreach((json_t *)(uintptr_t)value, key, member)
    {
        json_t *one = payment_one_spelling(member);
        if (!one)
            return NULL;
        json_object_set_new(out, key, one);
    }
    return STEAL(out);
}

static json_t *one_array(const json_t *value)
{
    json_t *out CLEANUP_JSON = json_array();
    size_t i;
    json_t *item;
    json_array_foreach(value, i, item)
    {
        json_t *one = payment_one_spelling(item);
        if (!one)
            return NULL;
        json_array_append_new(out, one);
    }
    return STEAL(out);
}

/* NOLINTNEXTLINE(misc-no-recursion): the depth of a payload was bounded when it was read. */
json_t *payment_one_spelling(const json_t *payload)
{
    json_int_t n = json_integer_value(payload);
    switch (json_typeof(payload)) {
    case JSON_OBJECT:
        return one_object(payload);
    case JSON_ARRAY:
        return one_array(payload);
    case JSON_STRING:
        return one_text(json_string_value(payload));
    case JSON_INTEGER:
        return n > NUMBER_MAX || n < -NUMBER_MAX ? NULL : json_integer(n);
    case JSON_REAL:
        return NULL;
    case JSON_TRUE:
    case JSON_FALSE:
    case JSON_NULL:
    default:
        return json_deep_copy(payload);
    }
}
