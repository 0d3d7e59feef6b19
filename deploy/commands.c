#include "deploy/commands.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/own.h"
#include "deploy/audit.h"
#include "deploy/deploy.h"
#include "deploy/endpoint.h"
#include "deploy/image.h"
#include "deploy/look.h"
#include "deploy/operate.h"
#include "deploy/render.h"
#include "deploy/watch.h"

#define CLEANUP_DEPLOY CLEANUP(deploy_close)

enum err_kind command_up(const struct command_line *line, struct err *err)
{
    struct deploy d CLEANUP_DEPLOY = { 0 };
    if (deploy_open(line->settings, &d, err))
        return err->kind;
    return deploy_up(&d, line->args[0], err);
}

enum err_kind command_down(const struct command_line *line, struct err *err)
{
    struct deploy d CLEANUP_DEPLOY = { 0 };
    struct down how = { .purge = line->purge,
                        .force = line->force,
                        .wait_ms = line->wait_s * 1000 };
    if (deploy_open(line->settings, &d, err))
        return err->kind;
    return deploy_down(&d, line->args[0], &how, err);
}

enum err_kind command_ls(const struct command_line *line, struct err *err)
{
    struct deploy d CLEANUP_DEPLOY = { 0 };
    if (deploy_open(line->settings, &d, err))
        return err->kind;
    return look_ls(&d, line->json, err);
}

enum err_kind command_status(const struct command_line *line, struct err *err)
{
    struct deploy d CLEANUP_DEPLOY = { 0 };
    if (deploy_open(line->settings, &d, err))
        return err->kind;
    return look_status(&d, line->args[0], line->json, err);
}

enum err_kind command_logs(const struct command_line *line, struct err *err)
{
    struct deploy d CLEANUP_DEPLOY = { 0 };
    const char *role = line->n_args > 1 ? line->args[1] : "handler";
    if (strcmp(role, "handler") != 0 && strcmp(role, "gate") != 0 && strcmp(role, "data") != 0)
        return err_set(err, ERR_INVALID, "logs: handler, gate or data, not %s", role);
    if (deploy_open(line->settings, &d, err))
        return err->kind;
    return look_logs(&d, line->args[0], role, err);
}

enum err_kind command_check(const struct command_line *line, struct err *err)
{
    struct endpoint *endpoint CLEANUP(endpoint_freep) = NULL;
    struct settings *settings CLEANUP(settings_freep) = NULL;
    if (settings_load(line->settings, &settings, err) ||
        endpoint_load(line->args[0], &endpoint, err))
        return err->kind;
    printf("%s: %s, sold at %s://%s\n", line->args[0], endpoint->slug.s,
           endpoint->tls_resolver || endpoint->tls_cert ? "https" : "http", endpoint->host);
    return ERR_OK;
}

enum err_kind command_image(const struct command_line *line, struct err *err)
{
    struct deploy d CLEANUP_DEPLOY = { 0 };
    struct image *image CLEANUP(image_freep) = NULL;
    if (deploy_open(line->settings, &d, err))
        return err->kind;
    const char *snapshotter = d.settings->snapshotter;
    if (containerd_lease(d.cd, "utter-image", 3600, err))
        return err->kind;
    enum err_kind kind;
    if (strcmp(line->args[0], "import") == 0 && line->n_args == 3) {
        kind = image_import(d.cd, line->args[1], line->args[2], snapshotter, &image, err);
    } else if (strcmp(line->args[0], "gate") == 0) {
        json_t *args CLEANUP_JSON =
            json_pack("[s, s, s]", "/usr/bin/utter-gate", "serve", "/etc/utter/gate.json");
        const char *name = line->n_args == 3 ? line->args[2] : d.settings->gate_image;
        kind = image_of_program(d.cd, line->args[1], name, args, snapshotter, &image, err);
    } else if (strcmp(line->args[0], "data") == 0) {
        json_t *args CLEANUP_JSON =
            json_pack("[s, s, s]", "/usr/bin/utter-dataproxy", "serve", "/etc/utter/data.json");
        const char *name = line->n_args == 3 ? line->args[2] : d.settings->data_image;
        kind = image_of_program(d.cd, line->args[1], name, args, snapshotter, &image, err);
    } else {
        kind = err_set(err, ERR_INVALID,
                       "image: gate PROGRAM [NAME], data PROGRAM [NAME] or import ARCHIVE NAME");
    }
    if (!kind)
        kind = image_unpack(d.cd, image, err);
    (void)!containerd_lease_drop(d.cd, "utter-image", false, ERR_IGNORED);
    if (!kind)
        printf("%s %s\n", image->name, image->digest);
    return kind;
}

#define WITH_DEPLOY(d)                                                                             \
    struct deploy d CLEANUP_DEPLOY = { 0 };                                                        \
    if (deploy_open(line->settings, &d, err))                                                      \
    return err->kind

enum err_kind command_doctor(const struct command_line *line, struct err *err)
{
    WITH_DEPLOY(d);
    return doctor_run(&d, false, err);
}

enum err_kind command_audit(const struct command_line *line, struct err *err)
{
    WITH_DEPLOY(d);
    return audit_run(&d, line->n_args ? line->args[0] : NULL, line->live, err);
}

enum err_kind command_watch(const struct command_line *line, struct err *err)
{
    /* Before gRPC makes its threads, which inherit it: the loop alone takes these. */
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    WITH_DEPLOY(d);
    return watch_run(&d, line->once, err);
}

enum err_kind command_token(const struct command_line *line, struct err *err)
{
    WITH_DEPLOY(d);
    return operate_token(&d, line->args[0], line->args[1], err);
}

enum err_kind command_rotate(const struct command_line *line, struct err *err)
{
    WITH_DEPLOY(d);
    return operate_rotate(&d, line->args[0], err);
}

enum err_kind command_backup(const struct command_line *line, struct err *err)
{
    WITH_DEPLOY(d);
    return operate_backup(&d, line->args[0], line->args[1], err);
}

enum err_kind command_restore(const struct command_line *line, struct err *err)
{
    WITH_DEPLOY(d);
    return operate_restore(&d, line->args[0], line->args[1], err);
}

enum err_kind command_upgrade(const struct command_line *line, struct err *err)
{
    WITH_DEPLOY(d);
    if (!line->gate || (line->n_args == 0) != line->all)
        return err_set(err, ERR_INVALID, "upgrade: --gate IMAGE, and slugs or --all");
    return operate_upgrade(&d, line->gate, line->all ? NULL : line->args, line->n_args, err);
}

enum err_kind command_render(const struct command_line *line, struct err *err)
{
    WITH_DEPLOY(d);
    return render_run(&d, line->args[0], line->args[1], err);
}

enum err_kind command_exec(const struct command_line *line, struct err *err)
{
    (void)line;
    return err_set(err, ERR_UNSUPPORTED,
                   "exec: refused by design: nothing runs beside a handler; see logs and status");
}
