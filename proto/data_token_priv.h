/* What data_key.c and data_token.c share and nobody else sees. */
#pragma once

#include <openssl/types.h>

#include "proto/data_token.h"

struct data_key {
    EVP_PKEY *pkey;
    bool private;
    char id[DATA_KEY_ID_LEN + 1];
};
