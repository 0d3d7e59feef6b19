/*
 * Shared by the containerd_*.c files and by nobody else: the client's insides and the small
 * conversions between JSON and containerd's repeated messages.
 */
#pragma once

#include <time.h>

#include "base/json.h"

#include "deploy/containerd.h"
#include "deploy/rpc.h"
#include "run.pb-c.h"
#include "store.pb-c.h"
#include "types.pb-c.h"

#define CD_CALL_MS 30000  /* one short call */
#define CD_LONG_MS 300000 /* unpacking, synchronous collection, starting a sandbox */

struct containerd {
    struct rpc *rpc;
    char *address;
    char *ns;
    char *snapshotter;
    char *lease; /* NULL: none */
};

static inline void message_freep(ProtobufCMessage **message)
{
    if (*message)
        protobuf_c_message_free_unpacked(*message, NULL);
    *message = NULL;
}
#define CLEANUP_MESSAGE CLEANUP(message_freep)

CHECKED enum err_kind cd_call(struct containerd *cd, int ms, const char *method,
                              const ProtobufCMessage *request,
                              const ProtobufCMessageDescriptor *type, ProtobufCMessage **answer,
                              struct err *err);
struct rpc_context cd_context(const struct containerd *cd, int ms);

/* A JSON object of strings as map entries; strings are borrowed from it. */
struct cd_pairs {
    size_t n;
    Utter__Cd__Pair **list;
};
struct cd_pairs cd_pairs_make(const json_t *object);
void cd_pairs_fini(struct cd_pairs *pairs);
json_t *cd_pairs_json(size_t n, Utter__Cd__Pair *const *pairs);

/* A JSON array of mounts as messages; strings are borrowed from it. */
struct cd_mounts {
    size_t n;
    Utter__Cd__Mount **list;
};
struct cd_mounts cd_mounts_make(const json_t *array);
void cd_mounts_fini(struct cd_mounts *mounts);
json_t *cd_mounts_json(size_t n, Utter__Cd__Mount *const *mounts);

/* protobuf-c's strings are not const; it does not write to what it packs. */
static inline char *cd_str(const char *s)
{
    return s ? (char *)(uintptr_t)s : (char *)(uintptr_t) "";
}
