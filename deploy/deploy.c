#include "deploy/deploy.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"

char *deploy_beside(const char *name)
{
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (n <= 0)
        return xasprintf("/usr/local/bin/%s", name);
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    return xasprintf("%s/%s", self, name);
}

enum err_kind deploy_open(const char *settings_path, struct deploy *out, struct err *err)
{
    *out = (struct deploy){ .out = stdout };
    if (geteuid() != 0)
        return err_set(err, ERR_DENIED, "utter-deploy must run as root");
    if (settings_load(settings_path, &out->settings, err) ||
        containerd_open(out->settings->containerd, out->settings->ns, out->settings->snapshotter,
                        &out->cd, err) ||
        containerd_namespace_ensure(out->cd, err)) {
        deploy_close(out);
        return err->kind;
    }
    out->logger =
        out->settings->logger ? xstrdup(out->settings->logger) : deploy_beside("utter-log");
    return ERR_OK;
}

void deploy_close(struct deploy *deploy)
{
    containerd_free(deploy->cd);
    settings_free(deploy->settings);
    free(deploy->logger);
    *deploy = (struct deploy){ 0 };
}

void deploy_say(const struct deploy *deploy, const char *fmt, ...)
{
    va_list ap;
    if (!deploy->out)
        return;
    va_start(ap, fmt);
    (void)vfprintf(deploy->out, fmt, ap);
    va_end(ap);
    (void)fputc('\n', deploy->out);
    (void)fflush(deploy->out);
}
