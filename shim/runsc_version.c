/* What runsc prints about itself, parsed. Pure; declared in shim/runsc_binary.h. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "shim/runsc_binary.h"

/* "<prefix>rest" at the start of a line of text: the rest up to the line's end, fitting `size`. */
static bool line_after(const char *text, const char *prefix, char *out, size_t size)
{
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (!text_starts(line, prefix))
            continue;
        line += strlen(prefix);
        size_t n = strcspn(line, "\r\n");
        if (n == 0 || n >= size)
            return false;
        memcpy(out, line, n);
        out[n] = 0;
        return true;
    }
    return false;
}

/* The YYYYMMDD of "release-20240729.0", "release-go-20260905.0-…", "0.0~20240729.0"; 0 if none. */
static int date_in(const char *version)
{
    for (const char *p = version; *p; p++) {
        if (!isdigit((unsigned char)*p) || (p > version && isdigit((unsigned char)p[-1])))
            continue;
        size_t n = strspn(p, "0123456789");
        if (n == 8 && p[8] == '.' && text_starts(p, "20"))
            return (int)strtol(p, NULL, 10);
        p += n - 1;
    }
    return 0;
}

enum err_kind runsc_version_parse(const char *text, char version[96], char spec[32], int *date,
                                  struct err *err)
{
    char safe[128];
    if (text_starts(text, "runc version"))
        return err_set(err, ERR_PRECONDITION, "is runc, not gVisor's runsc");
    if (text_starts(text, "crun version"))
        return err_set(err, ERR_PRECONDITION, "is crun, not gVisor's runsc");
    if (!text_starts(text, "runsc version ") || !line_after(text, "runsc version ", version, 96))
        return err_set(err, ERR_PRECONDITION,
                       "does not answer --version as gVisor's runsc does (\"%s\")",
                       text_safe(text, safe, sizeof(safe)));
    if (!line_after(text, "spec: ", spec, 32))
        spec[0] = 0;
    *date = date_in(version);
    if (!*date)
        return err_set(err, ERR_PRECONDITION,
                       "names no dated release (\"%s\"; install a release of gVisor)",
                       text_safe(version, safe, sizeof(safe)));
    return ERR_OK;
}

enum runsc_class runsc_class_of(int date)
{
    if (date >= RUNSC_DATE_CURRENT)
        return RUNSC_CURRENT;
    return date >= RUNSC_DATE_OLDEST ? RUNSC_COMPAT : RUNSC_REFUSED;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

enum err_kind runsc_flags_parse(const char *text, char ***out, size_t *n_out, struct err *err)
{
    char **names = NULL;
    size_t n = 0;
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (!text_starts(line, "  -")) /* descriptions are indented further */
            continue;
        size_t len = strcspn(line + 3, " \t\r\n");
        if (len == 0 || len > 64)
            continue;
        names = xreallocarray(names, n + 2, sizeof(*names));
        names[n++] = xstrndup(line + 3, len);
        names[n] = NULL;
    }
    if (n < 20) {
        for (size_t i = 0; i < n; i++)
            free(names[i]);
        free(names);
        return err_set(err, ERR_PRECONDITION, "does not answer \"flags\" as gVisor's runsc does");
    }
    qsort(names, n, sizeof(*names), by_name);
    *out = names;
    *n_out = n;
    return ERR_OK;
}

bool runsc_has_flag(const struct runsc_binary *binary, const char *name)
{
    return binary->n_flags > 0 &&
           bsearch(&name, binary->flags, binary->n_flags, sizeof(*binary->flags), by_name) != NULL;
}
