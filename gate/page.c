/* Pages for people: the paywall a browser meets, the operator's page. Inline style, no script. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "gate/page.h"
#include "gate/request.h"
#include "gate/tokens.h"

static const char STYLE[] =
    "<style>"
    ":root{color-scheme:light dark;--b:#f6f6f3;--c:#fff;--t:#1b1b1a;--m:#5d5d58;--l:#dcdcd5;"
    "--a:#0b6b57}"
    "@media(prefers-color-scheme:dark){:root{--b:#151615;--c:#1e201f;--t:#ececea;--m:#a3a39d;"
    "--l:#363835;--a:#5fd0b4}}"
    "*{box-sizing:border-box}"
    "body{margin:0;background:var(--b);color:var(--t);font:16px/1.5 system-ui,sans-serif}"
    "main{max-width:42rem;margin:0 auto;padding:2rem 1rem 3rem}"
    "h1{font-size:1.35rem;margin:0 0 .25rem;overflow-wrap:anywhere}"
    "h2{font-size:1rem;margin:0 0 .4rem}"
    "p{margin:.4rem 0;color:var(--m);overflow-wrap:anywhere}"
    "section{background:var(--c);border:1px solid var(--l);border-radius:.6rem;padding:1rem;"
    "margin:1rem 0;overflow-x:auto}"
    ".price{font-size:2rem;font-weight:650;color:var(--t);margin:0}"
    "code,pre{font:.9rem/1.45 ui-monospace,monospace}"
    "pre{margin:.4rem 0 0;white-space:pre-wrap;overflow-wrap:anywhere;user-select:all;"
    "background:var(--b);border:1px solid var(--l);border-radius:.4rem;padding:.6rem}"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:.25rem 1rem;margin:.5rem 0 0}"
    "dt{color:var(--m)}dd{margin:0;overflow-wrap:anywhere}"
    "table{border-collapse:collapse;width:100%}"
    "td,th{text-align:left;padding:.3rem .6rem .3rem 0;border-bottom:1px solid var(--l);"
    "font-variant-numeric:tabular-nums;font-weight:400}"
    "td+td,th+th{text-align:right;padding-right:0}tr:last-child td{border-bottom:0}"
    "a{color:var(--a)}"
    "</style>";

void page_escape(struct buf *out, const char *s)
{
    for (; *s; s++) {
        switch (*s) {
        case '&':
            buf_append_str(out, "&amp;");
            break;
        case '<':
            buf_append_str(out, "&lt;");
            break;
        case '>':
            buf_append_str(out, "&gt;");
            break;
        case '"':
            buf_append_str(out, "&quot;");
            break;
        case '\'':
            buf_append_str(out, "&#39;");
            break;
        default:
            buf_append(out, s, 1);
            break;
        }
    }
}

void page_open(struct buf *out, const char *title)
{
    buf_append_str(out, "<!doctype html><html lang=en><meta charset=utf-8>"
                        "<meta name=viewport content=\"width=device-width,initial-scale=1\">"
                        "<meta name=robots content=noindex><title>");
    page_escape(out, title);
    buf_append_str(out, "</title>");
    buf_append_str(out, STYLE);
    buf_append_str(out, "<main>");
}

void page_close(struct buf *out)
{
    buf_append_str(out, "</main></html>\n");
}

bool wants_page(const struct http_head *head)
{
    const struct http_field *accept = http_find(head, "Accept");
    const struct http_field *agent = http_find(head, "User-Agent");
    return accept && agent && http_list_has(accept->value, "text/html") &&
           memmem(agent->value.p, agent->value.len, "Mozilla", 7);
}

static void row(struct buf *out, const char *name, const char *value)
{
    buf_printf(out, "<dt>%s</dt><dd>", name);
    page_escape(out, value);
    buf_append_str(out, "</dd>");
}

static void offer_section(struct buf *out, const struct offer *offer)
{
    const struct network *network = network_by_caip2(offer->network);
    buf_append_str(out, "<section><p class=price>");
    page_escape(out, offer->price_text);
    buf_append_str(out, " ");
    page_escape(out, offer->symbol);
    buf_append_str(out, "</p><p>");
    buf_append_str(out, offer->kind == PAY_UPTO ? "at most, per call" : "per call");
    if (network && network->testnet)
        buf_append_str(out, "; test money, worth nothing");
    buf_append_str(out, "</p><dl>");
    row(out, "Network", network ? network->label : offer->network);
    row(out, "Paid to", offer->pay_to);
    row(out, "Token", offer->asset);
    buf_append_str(out, "</dl></section>");
}

/* A word for a shell: single-quoted, quotes inside taken apart. */
static void shell_word(struct buf *out, const char *s)
{
    buf_append_str(out, "'");
    for (; *s; s++) {
        char one[2] = { *s, '\0' };
        page_escape(out, *s == '\'' ? "'\\''" : one);
    }
    buf_append_str(out, "'");
}

void paywall_page(const struct request *r, struct buf *out)
{
    const struct route *route = r->route;
    char *url CLEANUP_FREE =
        xasprintf("%s%s%s%.*s", r->config->origin, r->path, r->head->query.p ? "?" : "",
                  (int)r->head->query.len, r->head->query.p ? r->head->query.p : "");
    page_open(out, "Payment required");
    buf_append_str(out, "<h1>");
    page_escape(out, route->description[0] ? route->description : "This call costs money");
    buf_append_str(out, "</h1><p><code>");
    page_escape(out, r->method);
    buf_append_str(out, " ");
    page_escape(out, url);
    buf_append_str(out, "</code></p>");
    for (size_t i = 0; i < route->offer_n; i++)
        offer_section(out, &route->offers[i]);
    buf_append_str(out,
                   "<section><strong>How to pay</strong><p>This is an x402 endpoint: a program "
                   "pays and calls in one step. From a terminal:</p><pre>utter-pay ");
    if (strcmp(r->method, "GET") != 0 && strcmp(r->method, "HEAD") != 0)
        buf_printf(out, "-X %s ", r->method);
    shell_word(out, url);
    buf_append_str(out,
                   "</pre><p>Any x402 client works, protocol version 1 or 2. You are charged only "
                   "for a complete answer; a lost answer is sent again for the same payment."
                   "</p></section>");
    page_close(out);
}
