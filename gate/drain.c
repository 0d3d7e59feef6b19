/*
 * How a gate ends: new payments are refused, what runs comes to its end, the ledger is let go for a
 * standby at once, and what was answered goes out.
 */
#include "base/log.h"
#include "gate/request.h"

#define FLUSH_MS 3000 /* for clients that take their answers slowly; they can ask the next gate */
#define FLUSH_LOOK_MS 10

void gate_let_go(struct gate *gate)
{
    ledger_standby_free(STEAL(gate->standby));
    settler_free(STEAL(gate->settler));
    claims_free(STEAL(gate->claims));
    ledger_free(STEAL(gate->ledger));
}

/* It has the handler, the ledger or somebody's money in hand. Others are answered 503 anyway. */
static bool is_under_way(const struct request *r)
{
    return r->counted || r->paid_by || r->handler_call || r->ledger_call.op || r->claims_call.op;
}

static bool all_done(const struct gate *gate)
{
    const struct request_ring *at = gate->requests.next;
    for (; at != &gate->requests; at = at->next) {
        if (is_under_way((const struct request *)at))
            return false;
    }
    return true;
}

static void on_flush(struct loop_timer *timer)
{
    struct gate *gate = timer->arg;
    struct http_server_stats stats;
    http_server_stats(gate->server, &stats);
    if (stats.connections == 0 || loop_now_ms(gate->loop) >= gate->flush_until_ms)
        loop_stop(gate->loop);
    else
        loop_after(gate->loop, timer, FLUSH_LOOK_MS, on_flush, gate);
}

static void on_drained(struct loop_timer *timer)
{
    struct gate *gate = timer->arg;
    bool done = all_done(gate);
    uint64_t now = loop_now_ms(gate->loop);
    if (!done && now < gate->drain_until_ms) { /* a retry came meanwhile */
        loop_after(gate->loop, timer, gate->drain_until_ms - now, on_drained, gate);
        return;
    }
    log_info("drained", log_int("left", (int64_t)gate->n_requests));
    if (!done) { /* the time is over: what runs stays so in the ledger */
        loop_stop(gate->loop);
        return;
    }
    gate_let_go(gate);
    http_server_stop_listening(gate->server);
    gate->flush_until_ms = now + FLUSH_MS;
    loop_after(gate->loop, timer, 0, on_flush, gate);
}

void gate_request_ended(struct gate *gate)
{
    if (gate->draining && !gate->flush_until_ms && all_done(gate))
        loop_after(gate->loop, &gate->drain_timer, 0, on_drained, gate);
}

void gate_drain(struct gate *gate)
{
    if (gate->draining)
        return;
    gate->draining = true;
    gate->drain_until_ms = loop_now_ms(gate->loop) + gate->config->deadlines.drain;
    http_server_drain(gate->server);
    loop_after(gate->loop, &gate->drain_timer, all_done(gate) ? 0 : gate->config->deadlines.drain,
               on_drained, gate);
}
