/* One life of a gate: it opens its ledger, takes the one payment of the one buyer through all
 * steps, and ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "gate/fault.h"
#include "gate/ledger.h"
#include "gate/reconcile.h"
#include "http/client.h"
#include "tests/gate/crash/crash.h"

struct child {
    struct loop *loop;
    struct ledger *ledger;
    struct http_client *client;
    struct facilitator *facilitator;
    struct settler *settler;
    struct ledger_payment *payment;
    struct ledger_call call;
    struct facilitator_call verify;
    struct ledger_waiter waiter;
    struct ledger_claim claim;
    struct loop_timer timer;
    bool held;
    int run;
    char url[64];
};

/* One write per line: whole or not at all. */
static void say(enum line_kind kind, int arg, int detail)
{
    char line[48];
    int n = snprintf(line, sizeof(line), "%d %d %d\n", (int)kind, arg, detail);
    if (write(STDOUT_FILENO, line, (size_t)n) != n)
        _exit(9);
}

static void finish(struct child *c)
{
    struct ledger_stats stats;
    ledger_stats(c->ledger, &stats);
    say(LINE_UNRESOLVED, (int)stats.unresolved, 0);
    loop_stop(c->loop);
}

static void on_end(void *arg, const struct ledger_result *result);

static void wait_for_end(struct child *c)
{
    settler_start(c->settler, c->payment);
    if (!ledger_wait(c->payment, &c->waiter, 700, on_end, c))
        _exit(8);
}

static void on_end(void *arg, const struct ledger_result *result)
{
    struct child *c = arg;
    if (result->verdict == LEDGER_ANSWER) {
        fault_point("answer.before");
        say(LINE_ANSWER, atoi((const char *)result->answer->body), 0);
        fault_point("answer.after");
    } else if (result->verdict == LEDGER_FAILED) {
        say(LINE_402, 0, 0);
    } else if (result->verdict == LEDGER_WAIT || result->verdict == LEDGER_NEW) {
        say(LINE_503, (int)result->verdict, 0);
    } else {
        say(LINE_409, (int)result->verdict, 0);
    }
    finish(c);
}

static void on_sealed(void *arg, const struct ledger_result *result)
{
    struct child *c = arg;
    if (result->verdict != LEDGER_SEALED)
        _exit(7);
    say(LINE_SEALED, 0, 0);
    fault_point("sealed");
    wait_for_end(c);
}

static void on_run(void *arg, const struct ledger_result *result)
{
    struct child *c = arg;
    if (result->verdict != LEDGER_CLAIMED)
        _exit(6);
    c->run = (int)ledger_payment_attempt(c->payment);
    say(LINE_RUN, c->run, 0);
    fault_point("handler.before");
    char body[16];
    snprintf(body, sizeof(body), "%d", c->run);
    fault_point("handler.after");
    const struct ledger_seal seal = {
        .answer = { 200, "h: v\r\n", 6, (const uint8_t *)body, strlen(body) + 1 },
        .facilitator = facilitator_url(c->facilitator),
        .settle_body = "{\"x402Version\":2}",
        .settle_len = 17,
        .charge = "10000",
    };
    ledger_seal(c->payment, &seal, &c->call, on_sealed, c);
}

static void on_verified(void *arg, const struct verify_outcome *outcome)
{
    struct child *c = arg;
    if (outcome->verdict != VERIFY_VALID)
        _exit(5);
    fault_point("verified");
    const struct ledger_terms terms = {
        .x402_version = 2,
        .scheme = "exact",
        .network = "eip155:84532",
        .network_raw = "eip155:84532",
        .asset = "0x036cbd53842c5426634e7929541ec2318f3dcf7e",
        .pay_to = "0x209693bc6afc0c5328ba36faf03c514ef312287c",
        .amount = "10000",
        .payer = c->claim.payer,
        .nonce = "0x01",
        .method = "eip3009",
        .valid_before = 4000000000,
        .route = "GET /x",
        .resource = "https://x.example/x",
    };
    ledger_run(c->payment, &terms, &c->call, on_run, c);
}

static void on_claimed(void *arg, const struct ledger_result *result)
{
    struct child *c = arg;
    c->payment = result->payment;
    if (result->verdict == LEDGER_CLAIMED) {
        fault_point("claimed");
        facilitator_verify(c->facilitator, "{}", 2, c->claim.payer, &c->verify, on_verified, c);
    } else if (result->verdict == LEDGER_WAIT) {
        wait_for_end(c);
    } else {
        on_end(c, result);
    }
}

static void on_found(void *arg, const struct ledger_found *found)
{
    struct child *c = arg;
    if (found->failed)
        _exit(4);
    say(LINE_STATE, (int)found->state, 0);
    c->claim.held = found->held;
    ledger_claim(c->ledger, &c->claim, &c->call, on_claimed, c);
}

static enum err_kind start(struct child *c, const char *path, const char *port, struct err *err)
{
    struct ledger_setup setup;
    ledger_setup_defaults(&setup);
    setup.path = path;
    setup.force_fs = true;
    setup.payment_runs_max = 9; /* each life may run it once */
    setup.vfs = getenv("CRASH_VFS");
    setup.synchronous = getenv("CRASH_SYNCHRONOUS");
    struct facilitator_setup facilitator;
    facilitator_setup_defaults(&facilitator);
    snprintf(c->url, sizeof(c->url), "http://127.0.0.1:%s", port);
    facilitator.url = c->url;
    facilitator.settle_ms = 100;
    struct http_client_config client = { 0 };
    if (loop_new(&c->loop, err) || ledger_open(&setup, c->loop, &c->ledger, err) ||
        http_client_new(c->loop, &client, &c->client, err) ||
        facilitator_new(&facilitator, c->loop, c->client, &c->facilitator, err))
        return err->kind;
    struct settler_setup settler;
    settler_setup_defaults(&settler);
    settler.ledger = c->ledger;
    settler.facilitators = &c->facilitator;
    settler.facilitators_n = 1;
    settler.first_repeat_ms = 20;
    settler.last_repeat_ms = 100;
    return settler_new(&settler, c->loop, &c->settler, err);
}

/* child PATH PORT LOSS SEED */
int crash_child(int argc, char **argv)
{
    static struct child c;
    struct err err;
    if (argc != 6)
        return 3;
    log_open(STDERR_FILENO, LOG_TEXT, LOG_ERROR + 1);
    if (getenv("CRASH_VFS")) {
        power_vfs_register((enum power_loss)atoi(argv[4]), (unsigned)strtoul(argv[5], NULL, 10));
        fault_on_death(power_vfs_die);
    }
    if (start(&c, argv[2], argv[3], &err)) {
        fprintf(stderr, "child: %s\n", err.msg);
        return 2;
    }
    c.claim = (struct ledger_claim){
        .payer = "0x857b06519e91e3a54538791bdbb0e22373e36b66",
        .payer_proven = true,
        .reserve_bytes = 1024,
        .replays_max = 5,
        .replay_window_s = 600,
    };
    memset(c.claim.key, 1, sizeof(c.claim.key));
    ledger_lookup(c.ledger, c.claim.key, &c.call, on_found, &c);
    if (loop_run(c.loop, &err))
        return 2;
    say(LINE_END, 0, 0);
    settler_free(c.settler);
    ledger_payment_unref(c.payment);
    ledger_free(c.ledger);
    return 0;
}
