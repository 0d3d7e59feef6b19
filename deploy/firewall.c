/*
 * Three chains of our own, written whole in one transaction each, reached by one jump each. They
 * close what a host's own rules might open; the networks are isolated without them.
 */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "deploy/network.h"
#include "deploy/proc.h"

struct jump {
    const char *table, *from, *to;
};

static const struct jump jumps[] = {
    { "filter", "FORWARD", "UTTER-FORWARD" },
    { "filter", "INPUT", "UTTER-INPUT" },
    { "nat", "POSTROUTING", "UTTER-NAT" },
};

static void pool_text(struct pool pool, char out[20])
{
    char address[16];
    (void)pool_address(pool, 0, address);
    (void)snprintf(out, 20, "%s/%u", address, pool.bits);
}

/* Members leave the host; nothing from outside begins a connection to them. */
static void outer_rules(struct buf *out, const char *bridge)
{
    buf_printf(out,
               "-A UTTER-FORWARD -i %s -j ACCEPT\n"
               "-A UTTER-FORWARD -o %s -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n"
               "-A UTTER-FORWARD -o %s -j DROP\n",
               bridge, bridge, bridge);
}

static void filter_rules(struct buf *out, const json_t *bridges)
{
    buf_append_str(out, "*filter\n:UTTER-FORWARD - [0:0]\n:UTTER-INPUT - [0:0]\n");
    for (size_t i = 0; i < json_array_size(bridges); i++) {
        const char *name = json_string_value(json_array_get(bridges, i));
        buf_printf(out, "-A UTTER-FORWARD -i %s -o %s -j ACCEPT\n", name, name);
    }
    buf_append_str(out, "-A UTTER-FORWARD -i ut-+ -j DROP\n"
                        "-A UTTER-FORWARD -o ut-+ -j DROP\n"
                        "-A UTTER-FORWARD -i utter-+ -o utter-+ -j DROP\n");
    outer_rules(out, "utter-edge");
    outer_rules(out, "utter-egress");
    buf_append_str(out, "-A UTTER-INPUT -i ut-+ -j DROP\nCOMMIT\n");
}

char *firewall_rules(const struct settings *settings, const json_t *bridges, bool nat)
{
    struct buf out CLEANUP(buf_fini);
    char edge[20];
    char egress[20];
    buf_init(&out, 1024 * 1024);
    pool_text(settings->edge, edge);
    pool_text(settings->egress, egress);
    if (nat)
        buf_printf(&out,
                   "*nat\n:UTTER-NAT - [0:0]\n-A UTTER-NAT -s %s ! -o utter-edge -j MASQUERADE\n"
                   "-A UTTER-NAT -s %s ! -o utter-egress -j MASQUERADE\nCOMMIT\n",
                   edge, egress);
    else
        filter_rules(&out, bridges);
    return xstrdup(buf_cstr(&out));
}

static enum err_kind restore(const char *rules, struct err *err)
{
    const char *const argv[] = { "iptables-restore", "-w", "10", "--noflush", NULL };
    struct proc proc = { .argv = argv, .input = rules, .timeout_ms = 20000 };
    enum err_kind kind = proc_run(&proc, NULL, err);
    if (kind == ERR_NOT_FOUND)
        return err_set(err, kind, "iptables is missing: apt install iptables");
    return kind;
}

/* `-C`, `-I`, `-D` of a jump; *ok tells whether it went well. */
static enum err_kind jump_do(const struct jump *jump, const char *what, bool *ok, struct err *err)
{
    const char *const argv[] = { "iptables", "-w",       "10", "-t",     jump->table,
                                 what,       jump->from, "-j", jump->to, NULL };
    int status = 0;
    struct proc proc = { .argv = argv, .timeout_ms = 20000 };
    if (proc_status(&proc, &status, NULL, err))
        return err->kind;
    *ok = status == 0;
    return ERR_OK;
}

enum err_kind firewall_apply(const struct settings *settings, const json_t *bridges,
                             struct err *err)
{
    char *filter CLEANUP_FREE = firewall_rules(settings, bridges, false);
    char *nat CLEANUP_FREE = firewall_rules(settings, bridges, true);
    if (restore(filter, err) || restore(nat, err))
        return err_prefix(err, "firewall");
    for (size_t i = 0; i < ARRAY_LEN(jumps); i++) {
        bool there = false;
        if (jump_do(&jumps[i], "-C", &there, err))
            return err->kind;
        if (there)
            continue;
        if (jump_do(&jumps[i], "-I", &there, err))
            return err->kind;
        if (!there)
            return err_set(err, ERR_INTERNAL, "firewall: cannot insert the jump to %s",
                           jumps[i].to);
    }
    return ERR_OK;
}

enum err_kind firewall_remove(struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(jumps); i++) {
        bool ok = true;
        while (ok) {
            if (jump_do(&jumps[i], "-D", &ok, err))
                return err->kind;
        }
        const char *const flush[] = { "iptables",     "-w", "10",        "-t",
                                      jumps[i].table, "-F", jumps[i].to, NULL };
        const char *const drop[] = { "iptables",     "-w", "10",        "-t",
                                     jumps[i].table, "-X", jumps[i].to, NULL };
        int status;
        if (proc_status(&(struct proc){ .argv = flush, .timeout_ms = 20000 }, &status, NULL, err) ||
            proc_status(&(struct proc){ .argv = drop, .timeout_ms = 20000 }, &status, NULL, err))
            return err->kind;
    }
    return ERR_OK;
}

/* Every "-A" line of what we would write, in the order of what is there. */
static bool lines_in_force(const char *rules, const char *there)
{
    for (const char *line = rules; *line;) {
        size_t n = strcspn(line, "\n");
        if (n > 2 && line[0] == '-' && line[1] == 'A') {
            char *text CLEANUP_FREE = xstrndup(line, n);
            const char *at = strstr(there, text);
            if (!at || (at[n] != '\n' && at[n] != '\0'))
                return false;
            there = at + n;
        }
        line += n + (line[n] == '\n');
    }
    return true;
}

enum err_kind firewall_check(const struct settings *settings, const json_t *bridges, bool *in_force,
                             struct err *err)
{
    *in_force = true;
    for (int nat = 0; nat < 2; nat++) {
        const char *const argv[] = { "iptables-save", "-t", nat ? "nat" : "filter", NULL };
        struct buf out CLEANUP(buf_fini);
        buf_init(&out, 4 * 1024 * 1024);
        struct proc proc = { .argv = argv, .timeout_ms = 20000 };
        if (proc_run(&proc, &out, err))
            return err_prefix(err, "firewall");
        char *rules CLEANUP_FREE = firewall_rules(settings, bridges, nat != 0);
        *in_force = *in_force && lines_in_force(rules, buf_cstr(&out));
    }
    for (size_t i = 0; i < ARRAY_LEN(jumps) && *in_force; i++) {
        if (jump_do(&jumps[i], "-C", in_force, err))
            return err->kind;
    }
    return ERR_OK;
}
