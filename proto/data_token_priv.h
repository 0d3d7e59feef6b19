/* What data_key.c and data_token.c share and nobody else sees. */
#pragma once

#include <openssl/types.h>

#include "proto/data_token.h"

#define DATA_HEADER_MAX 96

struct data_key {
    EVP_PKEY *pkey;
    EVP_MD_CTX
        *verifier; /* set up for this key, to be copied for each check; NULL until key_take */
    bool private;
    char id[DATA_KEY_ID_LEN + 1];
    char header[DATA_HEADER_MAX]; /* of every token that this key signs, base64url */
};
