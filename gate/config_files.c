/* What a configuration names outside itself. Touches the file system and the account database,
 * reads only. */
#include <errno.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gate/auth.h"
#include "gate/config_scan.h"

static void check_auth(struct scan *s, const struct gate_config *c)
{
    struct auth *auth CLEANUP(auth_closep) = NULL;
    struct err err;
    if (auth_open(&c->facilitator, &auth, &err))
        scan_fault(s, "facilitator.auth: %s", err.msg);
}

static void check_readable(struct scan *s, const char *key, const char *path)
{
    if (path && access(path, R_OK))
        scan_fault(s, "%s: %s: %s", key, path, strerror(errno));
}

/* The ledger's directory has to be there; the file itself is made by `ledger init` or `create`. */
static void check_store(struct scan *s, const char *key, const char *path, bool must_exist)
{
    char dir[4096];
    struct stat st;
    if (!path)
        return;
    size_t n = (size_t)(strrchr(path, '/') - path);
    if (n >= sizeof(dir)) {
        scan_fault(s, "%s: path too long", key);
        return;
    }
    memcpy(dir, path, n);
    dir[n] = '\0';
    if (stat(n ? dir : "/", &st) || !S_ISDIR(st.st_mode))
        scan_fault(s, "%s: %s is no directory", key, n ? dir : "/");
    else if (must_exist && stat(path, &st))
        scan_fault(s, "%s: %s does not exist (\"utter-gate ledger init\", or \"create\": true)",
                   key, path);
}

enum err_kind config_check_files(const struct gate_config *c, config_fault_fn *fault, void *arg,
                                 struct err *err)
{
    struct scan s = { .fault = fault, .arg = arg };
    check_auth(&s, c);
    check_readable(&s, "facilitator.ca_file", c->facilitator.ca_file);
    check_store(&s, "ledger.path", c->ledger.path, !c->ledger.create);
    check_store(&s, "claims", c->claims, false);
    if (c->user && !getpwnam(c->user))
        scan_fault(&s, "user: there is no account \"%.64s\"", c->user);
    if (!c->user && geteuid() == 0)
        scan_warning(&s, "user: not set, and this is root; the gate will not serve as root");
    if (s.faults)
        return err_set(err, ERR_INVALID, "%s: %u fault%s", c->file, s.faults,
                       s.faults == 1 ? "" : "s");
    return ERR_OK;
}
