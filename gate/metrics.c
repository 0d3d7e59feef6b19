#include "gate/metrics.h"

#include <inttypes.h>

static const char *const NAMES[OUTCOME_N] = {
    [OUTCOME_CHALLENGED] = "challenged",
    [OUTCOME_SOLD] = "sold",
    [OUTCOME_REPLAYED] = "replayed",
    [OUTCOME_FREE] = "free",
    [OUTCOME_UNCHARGED] = "uncharged",
    [OUTCOME_BAD_PAYMENT] = "bad_payment",
    [OUTCOME_INVALID] = "invalid",
    [OUTCOME_REFUSED] = "refused",
    [OUTCOME_UNRESOLVED] = "unresolved",
    [OUTCOME_UNPROVEN] = "unproven",
    [OUTCOME_CONFLICT] = "conflict",
    [OUTCOME_LIMITED] = "limited",
    [OUTCOME_UNAVAILABLE] = "unavailable",
    [OUTCOME_NOT_FOUND] = "not_found",
    [OUTCOME_BAD_REQUEST] = "bad_request",
    [OUTCOME_OWN] = "own",
    [OUTCOME_GONE] = "gone",
};

const char *outcome_name(enum outcome outcome)
{
    return NAMES[outcome];
}

static const uint64_t BOUNDS[METRICS_BUCKETS] = { 1,   2,   5,    10,   25,   50,    100,
                                                  250, 500, 1000, 2500, 5000, 15000, 60000 };

void histogram_add(struct histogram *h, uint64_t ms)
{
    size_t i = 0;
    while (i < METRICS_BUCKETS && ms > BOUNDS[i])
        i++;
    h->bucket[i]++;
    h->count++;
    h->sum_ms += ms;
}

uint64_t histogram_quantile(const struct histogram *h, double q)
{
    uint64_t seen = 0, want = (uint64_t)((double)h->count * q);
    for (size_t i = 0; i < METRICS_BUCKETS && h->count; i++) {
        seen += h->bucket[i];
        if (seen > want)
            return BOUNDS[i];
    }
    return h->count ? BOUNDS[METRICS_BUCKETS - 1] : 0;
}

void metrics_count(struct metrics *m, enum outcome outcome, int status, uint64_t ms)
{
    m->outcomes[outcome]++;
    if (status >= 100 && status < 600)
        m->status[status / 100]++;
    if (outcome == OUTCOME_CHALLENGED)
        histogram_add(&m->unpaid, ms);
    else if (outcome == OUTCOME_SOLD)
        histogram_add(&m->paid, ms);
}

static void write_histogram(const struct histogram *h, const char *name, const char *help,
                            struct buf *out)
{
    uint64_t total = 0;
    buf_printf(out, "# HELP utter_gate_%s_seconds %s\n# TYPE utter_gate_%s_seconds histogram\n",
               name, help, name);
    for (size_t i = 0; i < METRICS_BUCKETS; i++) {
        total += h->bucket[i];
        buf_printf(out, "utter_gate_%s_seconds_bucket{le=\"%g\"} %" PRIu64 "\n", name,
                   (double)BOUNDS[i] / 1000, total);
    }
    buf_printf(out,
               "utter_gate_%s_seconds_bucket{le=\"+Inf\"} %" PRIu64
               "\nutter_gate_%s_seconds_sum %g\nutter_gate_%s_seconds_count %" PRIu64 "\n",
               name, h->count, name, (double)h->sum_ms / 1000, name, h->count);
}

void metrics_write(const struct metrics *m, struct buf *out)
{
    buf_append_str(out, "# HELP utter_gate_requests_total Requests by how they ended.\n"
                        "# TYPE utter_gate_requests_total counter\n");
    for (size_t i = 0; i < OUTCOME_N; i++)
        buf_printf(out, "utter_gate_requests_total{outcome=\"%s\"} %" PRIu64 "\n", NAMES[i],
                   m->outcomes[i]);
    buf_append_str(out, "# HELP utter_gate_answers_total Answers by status class.\n"
                        "# TYPE utter_gate_answers_total counter\n");
    for (size_t i = 1; i < 6; i++)
        buf_printf(out, "utter_gate_answers_total{class=\"%zuxx\"} %" PRIu64 "\n", i, m->status[i]);
    buf_printf(out,
               "# HELP utter_gate_refused_heads_total Heads that were not acceptable HTTP.\n"
               "# TYPE utter_gate_refused_heads_total counter\n"
               "utter_gate_refused_heads_total %" PRIu64 "\n"
               "# HELP utter_gate_handler_calls_total Handler runs, charged or not.\n"
               "# TYPE utter_gate_handler_calls_total counter\n"
               "utter_gate_handler_calls_total %" PRIu64 "\n",
               m->refused_heads, m->handler_calls);
    write_histogram(&m->unpaid, "unpaid", "Time to a 402.", out);
    write_histogram(&m->paid, "paid", "Time of a sold call, settlement included.", out);
    write_histogram(&m->handler, "handler", "Time of a handler call.", out);
    write_histogram(&m->verify, "verify", "Time of a verify call.", out);
    write_histogram(&m->settle, "settle", "Time from seal to the end of settlement.", out);
}
