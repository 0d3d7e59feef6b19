#include "deploy/plan_data.h"

#include <stdio.h>
#include <string.h>

json_t *plan_data_for_gate(const struct endpoint *e)
{
    return json_pack("{s:s, s:s, s:o}", "socket", "/run/utter-data/gate.sock", "key_file",
                     "/run/utter-data-key/data.key", "upstreams", upstreams_names(&e->upstreams));
}

/* The handler's two addresses, which it takes in turns: x.4 and x.5. */
static json_t *handler_addresses(const struct plan *plan)
{
    unsigned a, b, c, d;
    if (sscanf(plan->data.address, "%u.%u.%u.%u/", &a, &b, &c, &d) != 4)
        return json_null();
    return json_sprintf("%u.%u.%u.%u/31", a, b, c, d + 1);
}

json_t *plan_data_config(const struct endpoint *e, const struct plan *plan)
{
    json_t *config = json_object();
    json_object_set_new(config, "slug", json_string(plan->slug.s));
    json_object_set_new(config, "listen",
                        json_sprintf("%s:%d", plan_ip(plan->data.address).s, PLAN_DATA_PORT));
    json_object_set_new(config, "peer", handler_addresses(plan));
    json_object_set_new(config, "admin", json_string("unix:/run/utter-data/admin/admin.sock"));
    json_object_set_new(config, "session", json_string("/run/utter-data/gate.sock"));
    json_object_set_new(config, "gate_uid", json_integer((json_int_t)plan->uid));
    json_object_set_new(config, "keys", json_string("/run/utter-data-keys"));
    json_object_set_new(config, "ledger", json_string("/var/lib/utter-dataproxy/egress.db"));
    json_object_set(config, "upstreams", e->upstreams.list);
    return config;
}
