/*
 * Inside policy/: the parts of policy_harden(). Each changes the tree that it is given, a deep copy
 * of an accepted spec, and records what it changed.
 */
#pragma once

#include "policy/check.h"

struct harden {
    json_t *spec; /* changed in place */
    const struct policy_context *context;
    const struct policy_config *config;
    struct policy_plan *plan;
    struct policy_changes *changes;
    bool tmp_inserted; /* /tmp and its size are ours */
};

void harden_process(struct harden *harden);
void harden_mounts(struct harden *harden);
void harden_linux(struct harden *harden);
void harden_annotations(struct harden *harden);
