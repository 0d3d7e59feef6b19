#include "gate/eip712.h"

#include <assert.h>
#include <string.h>

#include "gate/keccak.h"

#define DOMAIN_TYPE                                                                                \
    "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
#define DOMAIN_TYPE_NO_VERSION "EIP712Domain(string name,uint256 chainId,address verifyingContract)"
#define TRANSFER_TYPE                                                                              \
    "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,"          \
    "uint256 validBefore,bytes32 nonce)"
#define TOKEN_TYPE "TokenPermissions(address token,uint256 amount)"
#define WITNESS_TYPE "Witness(address to,uint256 validAfter)"
#define UPTO_WITNESS_TYPE "Witness(address to,address facilitator,uint256 validAfter)"
#define PERMIT_TYPE                                                                                \
    "PermitWitnessTransferFrom(TokenPermissions permitted,address spender,uint256 nonce,"          \
    "uint256 deadline,Witness witness)"

#define WORDS_MAX 8

/* The words of one encoded struct, 32 bytes each. */
struct words {
    uint8_t b[WORDS_MAX][32];
    size_t n;
};

static void add_bytes(struct words *w, const uint8_t bytes[32])
{
    memcpy(w->b[w->n++], bytes, 32);
}

static void add_text_hash(struct words *w, const char *text)
{
    keccak256(text, strlen(text), w->b[w->n++]);
}

static void add_uint(struct words *w, const struct u256 *v)
{
    u256_to_be(v, w->b[w->n++]);
}

static void add_address(struct words *w, const struct evm_address *a)
{
    memset(w->b[w->n], 0, 12);
    memcpy(w->b[w->n++] + 12, a->b, sizeof(a->b));
}

static void hash_words(const struct words *w, uint8_t out[32])
{
    keccak256(w->b, w->n * 32, out);
}

void eip712_domain_separator(const struct eip712_domain *domain, uint8_t out[32])
{
    struct words w = { .n = 0 };
    struct u256 chain = u256_from_u64(domain->chain_id);
    add_text_hash(&w, domain->version ? DOMAIN_TYPE : DOMAIN_TYPE_NO_VERSION);
    add_text_hash(&w, domain->name);
    if (domain->version)
        add_text_hash(&w, domain->version);
    add_uint(&w, &chain);
    add_address(&w, &domain->contract);
    hash_words(&w, out);
}

void eip712_digest(const uint8_t separator[32], const uint8_t struct_hash[32], uint8_t digest[32])
{
    uint8_t all[66] = { 0x19, 0x01 };
    memcpy(all + 2, separator, 32);
    memcpy(all + 34, struct_hash, 32);
    keccak256(all, sizeof(all), digest);
}

void eip712_transfer_digest(const struct eip712_domain *domain, const struct eip712_transfer *t,
                            uint8_t digest[32])
{
    struct words w = { .n = 0 };
    uint8_t separator[32], hash[32];
    add_text_hash(&w, TRANSFER_TYPE);
    add_address(&w, &t->from);
    add_address(&w, &t->to);
    add_uint(&w, &t->value);
    add_uint(&w, &t->valid_after);
    add_uint(&w, &t->valid_before);
    add_bytes(&w, t->nonce);
    hash_words(&w, hash);
    eip712_domain_separator(domain, separator);
    eip712_digest(separator, hash, digest);
}

static void permitted_hash(const struct eip712_permit *p, uint8_t out[32])
{
    struct words w = { .n = 0 };
    add_text_hash(&w, TOKEN_TYPE);
    add_address(&w, &p->token);
    add_uint(&w, &p->amount);
    hash_words(&w, out);
}

static void witness_hash(const struct eip712_permit *p, uint8_t out[32])
{
    struct words w = { .n = 0 };
    add_text_hash(&w, p->upto ? UPTO_WITNESS_TYPE : WITNESS_TYPE);
    add_address(&w, &p->to);
    if (p->upto)
        add_address(&w, &p->facilitator);
    add_uint(&w, &p->valid_after);
    hash_words(&w, out);
}

void eip712_permit_digest(uint64_t chain_id, const struct eip712_permit *p, uint8_t digest[32])
{
    struct eip712_domain domain = { .name = "Permit2", .chain_id = chain_id };
    bool parsed = evm_address_parse(PERMIT2_ADDRESS, &domain.contract);
    assert(parsed);
    struct words w = { .n = 0 };
    uint8_t separator[32], hash[32];
    add_text_hash(&w, p->upto ? PERMIT_TYPE TOKEN_TYPE UPTO_WITNESS_TYPE
                              : PERMIT_TYPE TOKEN_TYPE WITNESS_TYPE);
    permitted_hash(p, hash);
    add_bytes(&w, hash);
    add_address(&w, &p->spender);
    add_uint(&w, &p->nonce);
    add_uint(&w, &p->deadline);
    witness_hash(p, hash);
    add_bytes(&w, hash);
    hash_words(&w, hash);
    eip712_domain_separator(&domain, separator);
    eip712_digest(separator, hash, digest);
}
