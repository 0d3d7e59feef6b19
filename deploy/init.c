#include "deploy/init.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/own.h"
#include "base/text.h"
#include "deploy/endpoint.h"

#define ANSWER_MAX 300

struct question {
    const char *key, *about, *otherwise; /* NULL: there must be an answer */
    char answer[ANSWER_MAX];
};

static enum err_kind ask(FILE *in, FILE *out, struct question *q, struct err *err)
{
    (void)fprintf(out, "%s%s%s%s: ", q->about, q->otherwise ? " [" : "",
                  q->otherwise ? q->otherwise : "", q->otherwise ? "]" : "");
    (void)fflush(out);
    if (!fgets(q->answer, sizeof(q->answer), in))
        q->answer[0] = '\0';
    else if (!strchr(q->answer, '\n') && !feof(in))
        return err_set(err, ERR_INVALID, "%s: the answer is too long", q->key);
    q->answer[strcspn(q->answer, "\n")] = '\0';
    if (!q->answer[0] && !q->otherwise)
        return err_set(err, ERR_INVALID, "%s: needs an answer", q->key);
    if (!q->answer[0])
        (void)snprintf(q->answer, sizeof(q->answer), "%s", q->otherwise);
    if (strpbrk(q->answer, "\"\\\r"))
        return err_set(err, ERR_INVALID, "%s: no quotes and no backslash, please", q->key);
    return ERR_OK;
}

static char *compose(const struct question q[5])
{
    return xasprintf(
        "# What is sold, by whom, for how much: see endpoint.yaml(5). Deploy it: utter-deploy up "
        "FILE\n"
        "slug: \"%s\"              # its name on this host\n"
        "handler: \"%s\"           # a folder with main.py, or a statically linked program (entry: "
        "…)\n"
        "routes:\n"
        "  - path: /*              # all paths; {id} is one segment, * the rest\n"
        "    methods: [GET, POST]\n"
        "    price: \"%s\"         # whole units of the asset; 0 is free\n"
        "pay:\n"
        "  to: \"%s\"              # the wallet that is paid\n"
        "  network: base-sepolia   # a test network; base is the real one\n"
        "  asset: USDC\n"
        "facilitator:\n"
        "  url: https://x402.org/facilitator # moves the money; tokenFile: where it wants one\n"
        "host: \"%s\"              # the public name, which Traefik routes here\n"
        "# tls: {resolver: letsencrypt}       # or certFile and keyFile; absent: plain HTTP\n"
        "# limits: {memory: 128MiB, pids: 64, cpu: 0.5, tmp: 16MiB, lifetime: 1h}\n"
        "# timeouts: {handler: 30s}\n",
        q[0].answer, q[1].answer, q[2].answer, q[3].answer, q[4].answer);
}

enum err_kind init_run(FILE *in, FILE *out, const char *path, struct err *err)
{
    struct question questions[5] = {
        { .key = "slug", .about = "Name on this host (a-z, 0-9, -)" },
        { .key = "handler", .about = "Folder of the handler", .otherwise = "./handler" },
        { .key = "price", .about = "Price of a call in USDC", .otherwise = "0.01" },
        { .key = "pay.to", .about = "Wallet that is paid (0x…)" },
        { .key = "host", .about = "Public host name" },
    };
    struct endpoint *endpoint CLEANUP(endpoint_freep) = NULL;
    char here[PATH_MAX];
    if (access(path, F_OK) == 0)
        return err_set(err, ERR_EXISTS, "%s is there already; nothing was written", path);
    for (size_t i = 0; i < ARRAY_LEN(questions); i++) {
        if (ask(in, out, &questions[i], err))
            return err->kind;
    }
    char *text CLEANUP_FREE = compose(questions);
    const char *slash = strrchr(path, '/');
    char *folder CLEANUP_FREE = slash ? xstrndup(path, (size_t)(slash - path) + 1) : xstrdup(".");
    if (!realpath(folder, here))
        return err_set(err, ERR_NOT_FOUND, "%s: no such folder", folder);
    if (endpoint_parse(text, strlen(text), path, here, &endpoint, err) ||
        fs_write(path, text, strlen(text), 0644, true, err))
        return err->kind;
    (void)fprintf(out, "%s written; look it over, then: utter-deploy up %s\n", path, path);
    return ERR_OK;
}
