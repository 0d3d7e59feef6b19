#include "gate/pay/ticket.h"

#include <jansson.h>
#include <openssl/crypto.h>
#include <stdint.h>
#include <string.h>

#include "base/fs.h"
#include "base/json.h"

static void wipe(char **text)
{
    if (*text)
        OPENSSL_cleanse(*text, strlen(*text));
    free(*text);
    *text = NULL;
}

void ticket_fini(struct ticket *t)
{
    wipe(&t->url);
    wipe(&t->method);
    wipe(&t->payment);
    wipe(&t->resume);
}

enum err_kind ticket_save(const struct ticket *t, char **path, struct err *err)
{
    const char *home = getenv("HOME");
    if (!home || home[0] != '/')
        return err_set(err, ERR_PRECONDITION, "HOME is not set");
    char *dir CLEANUP_FREE = xasprintf("%s/.local/state/utter", home);
    char *file CLEANUP_FREE = xasprintf("%s/pay-%.8s.json", dir, t->resume);
    json_t *value CLEANUP_JSON =
        json_pack("{s:i, s:s, s:s, s:s, s:s}", "version", t->version, "url", t->url, "method",
                  t->method, "payment", t->payment, "resume", t->resume);
    char *text CLEANUP_FREE = json_dumps(value, JSON_INDENT(2));
    if (fs_mkdirs(dir, 0700, err) || fs_write(file, text, strlen(text), 0600, true, err))
        return err->kind;
    *path = STEAL(file);
    return ERR_OK;
}

enum err_kind ticket_load(const char *path, struct ticket *out, struct err *err)
{
    json_t *root CLEANUP_JSON = NULL;
    const char *url = NULL, *method = NULL, *payment = NULL, *resume = NULL;
    int64_t version = 0;
    if (json_strict_load_file(path, 65536, &root, err) ||
        json_get_int(root, "version", true, 1, 2, &version, err) ||
        json_get_string(root, "url", true, &url, err) ||
        json_get_string(root, "method", true, &method, err) ||
        json_get_string(root, "payment", true, &payment, err) ||
        json_get_string(root, "resume", true, &resume, err))
        return err_prefix(err, "%s", path);
    if (strlen(resume) != 64)
        return err_set(err, ERR_INVALID, "%s: resume is not 64 characters", path);
    *out = (struct ticket){ (int)version, xstrdup(url), xstrdup(method), xstrdup(payment),
                            xstrdup(resume) };
    return ERR_OK;
}
