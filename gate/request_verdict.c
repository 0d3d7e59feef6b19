/* What a request is answered with for a verdict of the ledger or of the facilitator. */
#include "base/log.h"
#include "gate/request_parts.h"

static uint32_t retry_after(const struct ledger_result *result, uint32_t otherwise)
{
    return result->retry_after_s ? result->retry_after_s : otherwise;
}

enum step answer_verdict(struct request *r, const struct ledger_result *result)
{
    switch (result->verdict) {
    case LEDGER_ANSWER:
        return answer_release(r, r->owner ? OUTCOME_SOLD : OUTCOME_REPLAYED, result->answer,
                              result->receipt);
    case LEDGER_FAILED:
        return answer_refused(r, 402, result->receipt);
    case LEDGER_UNPROVEN:
        return answer_error(r, OUTCOME_UNPROVEN, 409, "settlement_unproven", 0);
    case LEDGER_SPENT:
        return answer_refused(r, 409, result->receipt);
    case LEDGER_MISMATCH:
        return answer_error(r, OUTCOME_CONFLICT, 409, "payment_used_for_another_request", 0);
    case LEDGER_ID_CONFLICT:
        return answer_error(r, OUTCOME_CONFLICT, 409, "payment_identifier_conflict", 0);
    case LEDGER_SECRET:
        return answer_error(r, OUTCOME_CONFLICT, 403, "resume_secret_required", 0);
    case LEDGER_BUDGET:
        return answer_error(r, OUTCOME_LIMITED, 429, "too_many_uncharged_runs",
                            retry_after(result, 60));
    case LEDGER_IN_FLIGHT:
        return answer_error(r, OUTCOME_LIMITED, 429, "too_many_payments_in_flight",
                            retry_after(result, 2));
    case LEDGER_FULL:
        return answer_error(r, OUTCOME_UNAVAILABLE, 503, "no_room_for_answers",
                            retry_after(result, 30));
    case LEDGER_WAIT:
    case LEDGER_BLOCKED:
        return answer_error(r, OUTCOME_UNRESOLVED, 503, "settlement_unresolved",
                            retry_after(result, 2));
    case LEDGER_NEW:
        return answer_error(r, OUTCOME_UNAVAILABLE, 503, "try_again", 1);
    case LEDGER_UNAVAILABLE:
    case LEDGER_CLAIMED:
    case LEDGER_SEALED:
    case LEDGER_DONE:
    default:
        return answer_error(r, OUTCOME_UNAVAILABLE, 503, "ledger_unavailable", 2);
    }
}

enum step answer_unverified(struct request *r, const struct verify_outcome *outcome, bool forgotten)
{
    switch (outcome->verdict) {
    case VERIFY_INVALID:
        if (forgotten)
            return answer_error(r, OUTCOME_UNPROVEN, 409, "settlement_unproven", 0);
        return answer_challenge(r, OUTCOME_INVALID, 402, PAYMENT_BAD_SIGNATURE, outcome->reason);
    case VERIFY_ALLOWANCE:
        return answer_challenge(r, OUTCOME_INVALID, 412, PAYMENT_BAD_SIGNATURE, outcome->reason);
    case VERIFY_OPERATORS:
        r->gate->operators_fault = true;
        log_error("facilitator_refuses_us", log_str("id", r->id), log_str("why", outcome->why),
                  log_str("do", "check the facilitator's token and what it supports"));
        return answer_error(r, OUTCOME_UNAVAILABLE, 503, "facilitator_unavailable", 30);
    case VERIFY_UNAVAILABLE:
    case VERIFY_VALID:
    default:
        return answer_error(r, OUTCOME_UNAVAILABLE, 503, "facilitator_unavailable", 2);
    }
}
