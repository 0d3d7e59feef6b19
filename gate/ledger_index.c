#include "gate/ledger_index.h"

#include <assert.h>
#include <string.h>

#include "base/own.h"

#define FIRST_CAP 64

static uint64_t hash_key(const uint8_t *key)
{
    uint64_t h;
    memcpy(&h, key, sizeof(h)); /* a key is a SHA-256 already */
    return h;
}

/* FNV-1a from a random start: names come from outside. */
static uint64_t hash_name(uint64_t seed, const char *name)
{
    uint64_t h = seed ^ 14695981039346656037ull;
    for (const char *p = name; *p; p++)
        h = (h ^ (uint8_t)*p) * 1099511628211ull;
    return h ^ h >> 29;
}

void ledger_index_init(struct ledger_index *index, uint64_t seed)
{
    *index =
        (struct ledger_index){ .seed = seed, .cap_payments = FIRST_CAP, .cap_payers = FIRST_CAP };
    index->payments = xcalloc(FIRST_CAP, sizeof(struct ledger_payment *));
    index->payers = xcalloc(FIRST_CAP, sizeof(struct payer *));
}

void ledger_index_fini(struct ledger_index *index)
{
    for (size_t i = 0; i < index->cap_payers; i++) {
        while (index->payers[i]) {
            struct payer *payer = index->payers[i];
            index->payers[i] = payer->next;
            free(payer->name);
            free(payer);
        }
    }
    free(index->payments);
    free(index->payers);
    *index = (struct ledger_index){ 0 };
}

struct ledger_payment *ledger_index_find(const struct ledger_index *index, const uint8_t *key)
{
    struct ledger_payment *p = index->payments[hash_key(key) % index->cap_payments];
    while (p && memcmp(p->claim.key, key, LEDGER_KEY_LEN) != 0)
        p = p->hash_next;
    return p;
}

static void grow_payments(struct ledger_index *index)
{
    size_t cap = index->cap_payments * 2;
    struct ledger_payment **table = xcalloc(cap, sizeof(struct ledger_payment *));
    for (size_t i = 0; i < index->cap_payments; i++) {
        while (index->payments[i]) {
            struct ledger_payment *p = index->payments[i];
            index->payments[i] = p->hash_next;
            size_t at = hash_key(p->claim.key) % cap;
            p->hash_next = table[at];
            table[at] = p;
        }
    }
    free(index->payments);
    index->payments = table;
    index->cap_payments = cap;
}

void ledger_index_add(struct ledger_index *index, struct ledger_payment *payment)
{
    assert(!payment->indexed && !ledger_index_find(index, payment->claim.key));
    if (index->n_payments >= index->cap_payments)
        grow_payments(index);
    size_t at = hash_key(payment->claim.key) % index->cap_payments;
    payment->hash_next = index->payments[at];
    index->payments[at] = payment;
    payment->indexed = true;
    index->n_payments++;
}

void ledger_index_remove(struct ledger_index *index, struct ledger_payment *payment)
{
    if (!payment->indexed)
        return;
    struct ledger_payment **p =
        &index->payments[hash_key(payment->claim.key) % index->cap_payments];
    while (*p != payment)
        p = &(*p)->hash_next;
    *p = payment->hash_next;
    payment->indexed = false;
    index->n_payments--;
}

static void grow_payers(struct ledger_index *index)
{
    size_t cap = index->cap_payers * 2;
    struct payer **table = xcalloc(cap, sizeof(struct payer *));
    for (size_t i = 0; i < index->cap_payers; i++) {
        while (index->payers[i]) {
            struct payer *p = index->payers[i];
            index->payers[i] = p->next;
            size_t at = hash_name(index->seed, p->name) % cap;
            p->next = table[at];
            table[at] = p;
        }
    }
    free(index->payers);
    index->payers = table;
    index->cap_payers = cap;
}

struct payer *ledger_index_payer(struct ledger_index *index, const char *name, bool make)
{
    if (!name[0])
        return NULL;
    uint64_t hash = hash_name(index->seed, name);
    for (struct payer *p = index->payers[hash % index->cap_payers]; p; p = p->next) {
        if (!strcmp(p->name, name))
            return p;
    }
    if (!make)
        return NULL;
    if (index->n_payers >= index->cap_payers)
        grow_payers(index);
    struct payer *payer = xcalloc(1, sizeof(*payer));
    payer->name = xstrdup(name);
    payer->next = index->payers[hash % index->cap_payers];
    index->payers[hash % index->cap_payers] = payer;
    index->n_payers++;
    return payer;
}

static void drop_old_events(struct payer *payer, int64_t now_ms, int64_t window_ms)
{
    uint32_t old = 0;
    while (old < payer->n_events && payer->events_ms[old] <= now_ms - window_ms)
        old++;
    payer->n_events -= old;
    memmove(payer->events_ms, payer->events_ms + old,
            payer->n_events * sizeof(payer->events_ms[0]));
}

/* Frees a payer that nothing refers to any more. */
static bool forget_payer(struct ledger_index *index, struct payer **at, int64_t now_ms,
                         int64_t window_ms)
{
    struct payer *payer = *at;
    drop_old_events(payer, now_ms, window_ms);
    if (payer->payments || payer->n_events > 0)
        return false;
    *at = payer->next;
    index->n_payers--;
    free(payer->name);
    free(payer);
    return true;
}

void payer_link(struct payer *payer, struct ledger_payment *payment)
{
    assert(!payment->payer);
    payment->payer = payer;
    payment->payer_next = payer->payments;
    payer->payments = payment;
}

void payer_unlink(struct ledger_index *index, struct ledger_payment *payment, int64_t now_ms,
                  int64_t window_ms)
{
    struct payer *payer = payment->payer;
    if (!payer)
        return;
    struct ledger_payment **p = &payer->payments;
    while (*p != payment)
        p = &(*p)->payer_next;
    *p = payment->payer_next;
    payment->payer = NULL;
    struct payer **at = &index->payers[hash_name(index->seed, payer->name) % index->cap_payers];
    while (*at != payer)
        at = &(*at)->next;
    (void)forget_payer(index, at, now_ms, window_ms);
}

void ledger_index_tidy(struct ledger_index *index, int64_t now_ms, int64_t window_ms)
{
    for (size_t i = 0; i < index->cap_payers; i++) {
        struct payer **at = &index->payers[i];
        while (*at) {
            if (!forget_payer(index, at, now_ms, window_ms))
                at = &(*at)->next;
        }
    }
}

void payer_charge_budget(struct payer *payer, int64_t now_ms, uint32_t weight)
{
    for (uint32_t i = 0; i < weight && payer->n_events < PAYER_EVENTS_MAX; i++)
        payer->events_ms[payer->n_events++] = now_ms;
}

int64_t payer_budget_wait(struct payer *payer, int64_t now_ms, int64_t window_ms, uint32_t max)
{
    drop_old_events(payer, now_ms, window_ms);
    if (max > PAYER_EVENTS_MAX)
        max = PAYER_EVENTS_MAX;
    if (payer->n_events < max)
        return 0;
    return payer->events_ms[payer->n_events - max] + window_ms - now_ms;
}
