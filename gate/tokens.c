#include "gate/tokens.h"

#include <string.h>
#include <strings.h>

#include "base/own.h"
#include "base/text.h"

static const struct network networks[] = {
    { "eip155:8453", "base", 8453, "Base", false },
    { "eip155:84532", "base-sepolia", 84532, "Base Sepolia (testnet)", true },
    { "eip155:43114", "avalanche", 43114, "Avalanche", false },
    { "eip155:43113", "avalanche-fuji", 43113, "Avalanche Fuji (testnet)", true },
    { "eip155:137", "polygon", 137, "Polygon", false },
    { "eip155:80002", "polygon-amoy", 80002, "Polygon Amoy (testnet)", true },
    { "eip155:2741", "abstract", 2741, "Abstract", false },
    { "eip155:11124", "abstract-testnet", 11124, "Abstract (testnet)", true },
    { "eip155:4689", "iotex", 4689, "IoTeX", false },
    { "eip155:1329", "sei", 1329, "Sei", false },
    { "eip155:1328", "sei-testnet", 1328, "Sei (testnet)", true },
    { "eip155:3338", "peaq", 3338, "peaq", false },
    { "eip155:1514", "story", 1514, "Story", false },
    { "eip155:41923", "educhain", 41923, "EDU Chain", false },
    { "eip155:324705682", "skale-base-sepolia", 324705682, "SKALE Base Sepolia (testnet)", true },
    { "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", "solana", 0, "Solana", false },
    { "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1", "solana-devnet", 0, "Solana Devnet (testnet)",
      true },
    { "eip155:1", NULL, 1, "Ethereum", false },
    { "eip155:42161", NULL, 42161, "Arbitrum One", false },
    { "eip155:421614", NULL, 421614, "Arbitrum Sepolia (testnet)", true },
    { "eip155:42220", NULL, 42220, "Celo", false },
    { "eip155:143", NULL, 143, "Monad", false },
};

static const struct token tokens[] = {
    { "eip155:8453", "USDC", "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", "USD Coin", "2", 6 },
    { "eip155:84532", "USDC", "0x036CbD53842c5426634e7929541eC2318f3dCF7e", "USDC", "2", 6 },
    { "eip155:1", "USDC", "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", "USD Coin", "2", 6 },
    { "eip155:43114", "USDC", "0xB97EF9Ef8734C71904D8002F8b6Bc66Dd9c48a6E", "USD Coin", "2", 6 },
    { "eip155:43113", "USDC", "0x5425890298aed601595a70AB815c96711a31Bc65", "USD Coin", "2", 6 },
    { "eip155:137", "USDC", "0x3c499c542cEF5E3811e1192ce70d8cC03d5c3359", "USD Coin", "2", 6 },
    { "eip155:80002", "USDC", "0x41E94Eb019C0762f9Bfcf9Fb1E58725BfB0e7582", "USDC", "2", 6 },
    { "eip155:42161", "USDC", "0xaf88d065e77c8cC2239327C5EDb3A432268e5831", "USD Coin", "2", 6 },
    { "eip155:421614", "USDC", "0x75faf114eafb1BDbe2F0316DF893fd58CE46AA4d", "USD Coin", "2", 6 },
    { "eip155:42220", "USDC", "0xcebA9300f2b948710d2653dD7B07f33A8B32118C", "USDC", "2", 6 },
    { "eip155:143", "USDC", "0x754704Bc059F8C67012fEd69BC8A327a5aafb603", "USDC", "2", 6 },
    { "eip155:1329", "USDC", "0xe15fC38F6D8c56aF07bbCBe3BAf5708A2Bf42392", "USDC", "2", 6 },
    { "eip155:1328", "USDC", "0x4fCF1784B31630811181f670Aea7A7bEF803eaED", "USDC", "2", 6 },
};

const struct network *network_by_caip2(const char *caip2)
{
    for (size_t i = 0; i < ARRAY_LEN(networks); i++) {
        if (strcmp(networks[i].caip2, caip2) == 0)
            return &networks[i];
    }
    return NULL;
}

const struct network *network_by_v1(const char *slug)
{
    for (size_t i = 0; i < ARRAY_LEN(networks); i++) {
        if (networks[i].v1 && strcmp(networks[i].v1, slug) == 0)
            return &networks[i];
    }
    return NULL;
}

const struct network *network_by_name(const char *name)
{
    return strchr(name, ':') ? network_by_caip2(name) : network_by_v1(name);
}

static bool span_ok(const char *s, size_t n, const char *more, bool upper)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        bool ok = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                  (upper && c >= 'A' && c <= 'Z') || strchr(more, c);
        if (!ok)
            return false;
    }
    return true;
}

bool caip2_valid(const char *s)
{
    const char *colon = strchr(s, ':');
    if (!colon)
        return false;
    size_t name = (size_t)(colon - s);
    size_t reference = strnlen(colon + 1, CAIP2_MAX);
    return name >= 3 && name <= 8 && reference >= 1 && reference <= 32 &&
           span_ok(s, name, "-", false) && span_ok(colon + 1, reference, "-_", true);
}

uint64_t caip2_chain_id(const char *s)
{
    uint64_t id = 0;
    if (!text_starts(s, "eip155:") || !text_u64(s + 7, &id) || id > UINT64_C(1) << 53)
        return 0;
    return id;
}

const struct token *token_by_address(const char *caip2, const char *address)
{
    for (size_t i = 0; i < ARRAY_LEN(tokens); i++) {
        if (strcmp(tokens[i].network, caip2) == 0 && strcasecmp(tokens[i].address, address) == 0)
            return &tokens[i];
    }
    return NULL;
}

const struct token *token_by_symbol(const char *caip2, const char *symbol)
{
    for (size_t i = 0; i < ARRAY_LEN(tokens); i++) {
        if (strcmp(tokens[i].network, caip2) == 0 && strcmp(tokens[i].symbol, symbol) == 0)
            return &tokens[i];
    }
    return NULL;
}
