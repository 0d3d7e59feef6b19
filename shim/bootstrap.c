#include "shim/bootstrap.h"

#include <bootstrap.pb-c.h>
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "base/text.h"
#include "proto/unpack.h"

#define IDENTIFIER_MAX 76

static bool alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool bootstrap_identifier(const char *s)
{
    size_t n = s ? strlen(s) : 0;
    if (n == 0 || n > IDENTIFIER_MAX || !alnum(s[0]) || !alnum(s[n - 1]))
        return false;
    for (size_t i = 1; i < n; i++) {
        bool separator = s[i] == '.' || s[i] == '_' || s[i] == '-';
        if (!alnum(s[i]) && !(separator && alnum(s[i - 1])))
            return false;
    }
    return true;
}

enum flag_kind {
    FLAG_STRING,
    FLAG_BOOL,
    FLAG_ACTION,
};

struct flag {
    const char *name;
    enum flag_kind kind;
    size_t offset; /* in struct bootstrap; FLAG_STRING and FLAG_BOOL */
    enum bootstrap_action action;
};

#define NOWHERE ((size_t)-1)

static const struct flag FLAGS[] = {
    { "namespace", FLAG_STRING, offsetof(struct bootstrap, ns), BOOTSTRAP_NONE },
    { "id", FLAG_STRING, offsetof(struct bootstrap, id), BOOTSTRAP_NONE },
    { "address", FLAG_STRING, offsetof(struct bootstrap, address), BOOTSTRAP_NONE },
    { "publish-binary", FLAG_STRING, offsetof(struct bootstrap, publish_binary), BOOTSTRAP_NONE },
    { "bundle", FLAG_STRING, offsetof(struct bootstrap, bundle), BOOTSTRAP_NONE },
    { "socket", FLAG_STRING, NOWHERE, BOOTSTRAP_NONE },
    { "debug-socket", FLAG_STRING, NOWHERE, BOOTSTRAP_NONE },
    { "debug", FLAG_BOOL, offsetof(struct bootstrap, debug), BOOTSTRAP_NONE },
    { "v", FLAG_ACTION, NOWHERE, BOOTSTRAP_VERSION },
    { "version", FLAG_ACTION, NOWHERE, BOOTSTRAP_VERSION },
    { "info", FLAG_ACTION, NOWHERE, BOOTSTRAP_INFO },
    { "h", FLAG_ACTION, NOWHERE, BOOTSTRAP_HELP },
    { "help", FLAG_ACTION, NOWHERE, BOOTSTRAP_HELP },
};

static const struct flag *find_flag(const char *name, size_t n)
{
    for (size_t i = 0; i < ARRAY_LEN(FLAGS); i++)
        if (strlen(FLAGS[i].name) == n && memcmp(FLAGS[i].name, name, n) == 0)
            return &FLAGS[i];
    return NULL;
}

static CHECKED enum err_kind parse_bool(const char *name, const char *value, bool *out,
                                        struct err *err)
{
    static const char *const YES[] = { "1", "t", "T", "true", "TRUE", "True" };
    static const char *const NO[] = { "0", "f", "F", "false", "FALSE", "False" };
    for (size_t i = 0; i < ARRAY_LEN(YES); i++) {
        if (strcmp(value, YES[i]) == 0 || strcmp(value, NO[i]) == 0) {
            *out = strcmp(value, YES[i]) == 0;
            return ERR_OK;
        }
    }
    return err_set(err, ERR_INVALID, "-%s: %s is neither true nor false", name, value);
}

/* Takes argv[*i] and, for a string without '=', its value. */
static CHECKED enum err_kind take_flag(int argc, const char *const *argv, int *i,
                                       struct bootstrap *out, struct err *err)
{
    const char *name = argv[*i] + (argv[*i][1] == '-' ? 2 : 1);
    size_t n = strcspn(name, "=");
    const char *value = name[n] == '=' ? name + n + 1 : NULL;
    const struct flag *flag = find_flag(name, n);
    if (!flag)
        return err_set(err, ERR_INVALID, "unknown flag %s", argv[*i]);
    bool on = true;
    if (flag->kind != FLAG_STRING && value) {
        enum err_kind kind = parse_bool(flag->name, value, &on, err);
        if (kind)
            return kind;
    }
    if (flag->kind == FLAG_ACTION) {
        if (on && out->action == BOOTSTRAP_NONE)
            out->action = flag->action;
        return ERR_OK;
    }
    if (flag->kind == FLAG_BOOL) {
        *(bool *)((char *)out + flag->offset) = on;
        return ERR_OK;
    }
    if (!value) {
        if (*i + 1 >= argc)
            return err_set(err, ERR_INVALID, "flag %s needs a value", argv[*i]);
        value = argv[++*i];
    }
    if (flag->offset != NOWHERE)
        *(const char **)((char *)out + flag->offset) = value;
    return ERR_OK;
}

static CHECKED enum err_kind take_action(const char *word, struct bootstrap *out, struct err *err)
{
    if (out->action != BOOTSTRAP_NONE)
        return ERR_OK; /* -v start: as Go's flag package, -v wins */
    if (strcmp(word, "start") == 0)
        out->action = BOOTSTRAP_START;
    else if (strcmp(word, "delete") == 0)
        out->action = BOOTSTRAP_DELETE;
    else
        return err_set(err, ERR_INVALID, "unknown command %s (start and delete are known)", word);
    return ERR_OK;
}

static CHECKED enum err_kind check_complete(const struct bootstrap *boot, struct err *err)
{
    if (boot->action == BOOTSTRAP_NONE)
        return err_set(err, ERR_INVALID,
                       "no command (containerd calls this program with start "
                       "or delete)");
    if (boot->action != BOOTSTRAP_START && boot->action != BOOTSTRAP_DELETE)
        return ERR_OK;
    if (!bootstrap_identifier(boot->ns))
        return err_set(err, ERR_INVALID, "-namespace: missing or no identifier");
    if (!bootstrap_identifier(boot->id))
        return err_set(err, ERR_INVALID, "-id: missing or no identifier");
    if (!boot->address || !*boot->address)
        return err_set(err, ERR_INVALID, "-address: missing");
    return ERR_OK;
}

enum err_kind bootstrap_args(int argc, const char *const *argv, struct bootstrap *out,
                             struct err *err)
{
    *out = (struct bootstrap){ .action = BOOTSTRAP_NONE };
    for (int i = 1; i < argc; i++) {
        enum err_kind kind;
        bool flag = argv[i][0] == '-' && argv[i][1] != '\0' && strcmp(argv[i], "--") != 0;
        if (flag) {
            kind = take_flag(argc, argv, &i, out, err);
        } else {
            kind = take_action(argv[i], out, err);
            if (!kind)
                break; /* what follows the action is none of ours */
        }
        if (kind)
            return kind;
    }
    return check_complete(out, err);
}

void bootstrap_stdin(const uint8_t *data, size_t len, struct bootstrap *boot)
{
    if (len == 0 || len > BOOTSTRAP_STDIN_MAX)
        return;
    Bootstrap__BootstrapParams *params CLEANUP_MESSAGE =
        (Bootstrap__BootstrapParams *)(void *)proto_unpack(&bootstrap__bootstrap_params__descriptor,
                                                           data, len, PROTO_UNPACK_MAX);
    if (!params || strcmp(params->instance_id, boot->id) != 0 ||
        strcmp(params->namespace_, boot->ns) != 0)
        return;
    if (params->log_level <= -4)
        boot->debug = true;
    if (params->socket_dir && strlen(params->socket_dir) <= BOOTSTRAP_SOCKET_DIR_MAX &&
        params->socket_dir[0] == '/')
        (void)snprintf(boot->socket_dir, sizeof(boot->socket_dir), "%s", params->socket_dir);
    if (strlen(params->containerd_ttrpc_address) < sizeof(boot->params_ttrpc))
        (void)snprintf(boot->params_ttrpc, sizeof(boot->params_ttrpc), "%s",
                       params->containerd_ttrpc_address);
}
