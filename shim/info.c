/* -info: what containerd 2.x asks each runtime once. */
#include <runtime.pb-c.h>
#include <stdio.h>

#include "proto/unpack.h"
#include "shim/commands.h"

/* Of the OCI features document, what is true whatever runsc is installed. */
static const char FEATURES[] =
    "{\"ociVersionMin\":\"1.0.0\",\"ociVersionMax\":\"1.3.0\","
    "\"mountOptions\":[\"noexec\",\"nosuid\",\"ro\",\"rw\",\"bind\",\"rbind\",\"nodev\"],"
    "\"linux\":{\"namespaces\":[\"ipc\",\"mount\",\"network\",\"pid\",\"uts\"],"
    "\"capabilities\":[],\"mountExtensions\":{\"idmap\":{\"enabled\":false}}}}";

enum err_kind command_info(const struct program *program, struct err *err)
{
    Google__Protobuf__Any features = GOOGLE__PROTOBUF__ANY__INIT;
    features.type_url =
        proto_str("types.containerd.io/opencontainers/runtime-spec/1/features/Features");
    features.value = proto_bytes(FEATURES, sizeof(FEATURES) - 1);
    Runtime__RuntimeVersion version = RUNTIME__RUNTIME_VERSION__INIT;
    version.version = proto_str(UTTER_VERSION);
    Runtime__RuntimeInfo info = RUNTIME__RUNTIME_INFO__INIT;
    info.name = proto_str(program->runtime);
    info.version = &version;
    info.features = &features;
    uint8_t packed[1024];
    size_t n = protobuf_c_message_get_packed_size(&info.base);
    if (n > sizeof(packed))
        return err_set(err, ERR_INTERNAL, "runtime information too long");
    (void)protobuf_c_message_pack(&info.base, packed);
    return fwrite(packed, 1, n, stdout) == n && fflush(stdout) == 0 ? ERR_OK
                                                                    : err_sys(err, 5, "stdout");
}
