/* What every history must satisfy, whatever was killed when. */
#include "gate/ledger.h"
#include "tests/gate/crash/crash.h"

/* Walks all lines of all lives in order. */
#define EACH_LINE(history, life, line)                                                             \
    for (const struct life *life = (history)->lives; life < (history)->lives + (history)->n;       \
         life++)                                                                                   \
        for (const struct line *line = life->lines; line < life->lines + life->n; line++)

static int count(const struct history *h, enum line_kind kind)
{
    int n = 0;
    EACH_LINE(h, life, line)
    n += line->kind == kind;
    return n;
}

/* What was acknowledged before a death is there after it. */
static const char *check_durable(const struct history *h)
{
    bool ran = false;
    bool sealed = false;
    bool answered = false;
    bool refused = false;
    int runs = 0;
    EACH_LINE(h, life, line)
    {
        if (line->kind == LINE_RUN) {
            if (line->arg <= runs)
                return "a run was forgotten: the attempt did not grow";
            runs = line->arg;
            ran = true;
        }
        sealed |= line->kind == LINE_SEALED;
        answered |= line->kind == LINE_ANSWER;
        refused |= line->kind == LINE_402;
        if (line->kind != LINE_STATE)
            continue;
        enum payment_state state = (enum payment_state)line->arg;
        if (ran && state == PAYMENT_NEW)
            return "a payment whose handler ran is not in the ledger";
        if (sealed &&
            (state == PAYMENT_NEW || state == PAYMENT_UNCHARGED || state == PAYMENT_RUNNING))
            return "a payment that was to be settled may run again";
        if (answered && state != PAYMENT_SETTLED)
            return "an answer went out and the payment is not settled";
        if (refused && state != PAYMENT_FAILED)
            return "a refusal went out and the payment is not failed";
    }
    return NULL;
}

static const char *check_money(const struct history *h)
{
    if (h->transfers > 1)
        return "charged twice";
    if (h->payments_seen > 1)
        return "two settles of one payment had different bytes";
    if (count(h, LINE_ANSWER) > 0 && h->transfers == 0)
        return "an answer without a transfer";
    if (count(h, LINE_402) > 0 && h->transfers > 0)
        return "a 402 although money moved";
    if (count(h, LINE_ANSWER) > 5)
        return "more than five releases";
    return NULL;
}

/* The answer is the one that was sealed: of the last run, and the same every time. */
static const char *check_answers(const struct history *h)
{
    int last_run = 0;
    int first_answer = 0;
    EACH_LINE(h, life, line)
    {
        if (line->kind == LINE_RUN)
            last_run = line->arg;
        if (line->kind == LINE_RUN && first_answer)
            return "the handler ran again after the answer was sold";
        if (line->kind != LINE_ANSWER)
            continue;
        if (line->arg != last_run || (first_answer && line->arg != first_answer))
            return "another answer than the sealed one";
        first_answer = line->arg;
    }
    return NULL;
}

/* The end, after undisturbed retries: the answer where the truth can be learned, else listed as
 * unresolved. */
static const char *check_end(const struct history *h)
{
    const struct life *last = &h->lives[h->n - 1];
    int unresolved = -1;
    bool answer = false;
    bool refused = false;
    bool spent = false;
    for (int i = 0; i < last->n; i++) {
        answer |= last->lines[i].kind == LINE_ANSWER;
        refused |= last->lines[i].kind == LINE_402;
        spent |= last->lines[i].kind == LINE_409 && last->lines[i].arg == LEDGER_SPENT;
        if (last->lines[i].kind == LINE_UNRESOLVED)
            unresolved = last->lines[i].arg;
    }
    if (last->killed || last->failed)
        return "the last life did not end in order";
    bool learnable = h->scenario.resettle != FAC_OFFICIAL || h->transfers == 0;
    bool hidden = !answer && !refused && !spent;
    if (hidden && learnable)
        return "the truth could be learned and the buyer has no answer";
    if (hidden && !(h->transfers == 1 && unresolved == 1))
        return "no answer, and it is not listed as unresolved";
    if (!hidden && unresolved != 0)
        return "ended, and still listed as unresolved";
    return NULL;
}

const char *crash_check(const struct history *h)
{
    for (int i = 0; i < h->n; i++) {
        if (h->lives[i].failed)
            return "the gate ended in a way that no fault point explains";
    }
    const char *violation = check_money(h);
    violation = violation ? violation : check_durable(h);
    violation = violation ? violation : check_answers(h);
    return violation ? violation : check_end(h);
}
