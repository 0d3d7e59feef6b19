/*
 * OCI image documents: indexes, manifests, configurations, chain ids. Pure.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "deploy/containerd.h"
#include "deploy/digest.h"

#define OCI_INDEX "application/vnd.oci.image.index.v1+json"
#define OCI_MANIFEST "application/vnd.oci.image.manifest.v1+json"
#define OCI_CONFIG "application/vnd.oci.image.config.v1+json"
#define OCI_LAYER "application/vnd.oci.image.layer.v1.tar"

#define OCI_DOCUMENT_MAX (4 * 1024 * 1024) /* bytes of one JSON blob */
#define OCI_LAYERS_MAX 128
#define OCI_LAYER_BYTES_MAX (4LL << 30)

bool oci_is_index(const char *media_type);
bool oci_is_manifest(const char *media_type);
bool oci_is_layer(const char *media_type);

/* A member of a manifest or index as a descriptor; strings are borrowed from it. */
CHECKED enum err_kind oci_descriptor(const json_t *value, struct cd_descriptor *out,
                                     struct err *err);
/* The one manifest of an index for linux on this machine's architecture. */
CHECKED enum err_kind oci_choose(const json_t *index, struct cd_descriptor *out, struct err *err);
/* Config and layers present, sizes within limits, as many layers as the configuration has diff ids
 * (`config` may be NULL: not compared). */
CHECKED enum err_kind oci_check_manifest(const json_t *manifest, const json_t *config,
                                         struct err *err);
/* Chain id of the first n layers; n ≥ 1. */
CHECKED enum err_kind oci_chain_id(const json_t *config, size_t n, char out[DIGEST_SIZE],
                                   struct err *err);
/* Labels that keep a manifest's parts, and its snapshots, from being collected. The caller's. */
json_t *oci_manifest_labels(const json_t *manifest);
json_t *oci_config_labels(const char *snapshotter, const char *chain_id);
/* "amd64", "arm64": OCI's name of this machine. */
const char *oci_architecture(void);
