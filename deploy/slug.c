#include "deploy/slug.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define LOWER_DIGITS "abcdefghijklmnopqrstuvwxyz0123456789"

enum err_kind slug_parse(const char *text, struct slug *out, struct err *err)
{
    char safe[80];
    size_t n = text ? strlen(text) : 0;
    const char *why = NULL;
    if (n == 0)
        why = "is empty";
    else if (n > SLUG_MAX)
        why = "is longer than 40 characters";
    else if (strspn(text, LOWER_DIGITS "-") != n)
        why = "may hold only a-z, 0-9 and -";
    else if (text[0] == '-' || text[n - 1] == '-')
        why = "may not begin or end with -";
    else if (strstr(text, "--"))
        why = "may not hold --";
    else if (strcmp(text, "netns") == 0 || strcmp(text, "locks") == 0)
        why = "is a name of utter-deploy's own directories";
    if (why)
        return err_set(err, ERR_INVALID, "slug \"%s\" %s",
                       text_safe(text ? text : "", safe, sizeof(safe)), why);
    memcpy(out->s, text, n + 1);
    return ERR_OK;
}

void slug_handler_id(const struct slug *slug, unsigned generation, char out[SLUG_ID_SIZE])
{
    (void)snprintf(out, SLUG_ID_SIZE, "%s.h%u", slug->s, generation);
}

void slug_data_id(const struct slug *slug, char out[SLUG_ID_SIZE])
{
    (void)snprintf(out, SLUG_ID_SIZE, "%s.data", slug->s);
}

void slug_gate_id(const struct slug *slug, unsigned side, char out[SLUG_ID_SIZE])
{
    (void)snprintf(out, SLUG_ID_SIZE, side ? "%s.gate2" : "%s.gate", slug->s);
}
