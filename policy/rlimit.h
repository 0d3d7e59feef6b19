/*
 * Inside policy/: the resource limits that Utter sets itself. runsc keeps one set per sandbox and
 * the last container started wins, so in a pod all containers must bring the same.
 */
#pragma once

#include "policy/policy.h"

/* RLIMIT_NPROC, RLIMIT_NOFILE, RLIMIT_CORE: replaced whatever the spec says. */
bool rlimit_is_ours(const char *type);
/* 18446744073709551615, the kernel's RLIM_INFINITY, as base/json.h keeps it. */
bool rlimit_is_unlimited(const json_t *value);
/* "soft" or "hard": INT64_MAX when unlimited, -1 when there is none. */
int64_t rlimit_value(const json_t *rlimit, const char *key);
/* The array for a container, a new reference: ours, then (only for a container with a sandbox of
 * its own) the further ones that the spec asks for. */
json_t *rlimits_for(const json_t *asked, enum policy_role role, const struct policy_limits *limits);
