# What is shown of an endpoint. Every claim looks at the running system; "not charged" looks into the book.
edge() { deploy status --json "$1" | sed -n 's/.*"edge": "\([0-9.]*\)\/.*/\1/p' | grep . | head -n 1; }

# url PATH [SLUG]: its public address, through Traefik where there is one.
url() {
    if [ -n "$traefik" ]; then printf 'https://%s.example:%s%s' "${2:-shop}" "$tls_port" "$1"; else printf 'http://%s:8402%s' "$(edge "${2:-shop}")" "$1"; fi
}

pay_words() {
    printf '%s --yes --max 1 --retry-for 1 --key %s ' "$bin/utter-pay" "$shop/key"
    if [ -n "$traefik" ]; then
        printf -- '--cacert %s --resolve shop.example:%s:127.0.0.1' "$home/tls/ca.crt" "$tls_port"
    else
        printf -- '-H Host:shop.example'
    fi
}

# pay PATH [OPTION…]: a paid call; $answer what came, $said what utter-pay tells of it, $rc its status.
pay() {
    local path=$1 words
    shift
    rc=0
    read -ra words <<<"$(pay_words)"
    answer=$("${words[@]}" "$@" "$(url "$path")" 2>"$shop/said") || rc=$?
    said=$(sed 's/^utter-pay: //' "$shop/said" | grep . | tail -n 1)
}

unpaid() { # the status of a call without a payment
    local where=(-H 'Host: shop.example')
    [ -z "$traefik" ] || where=(--cacert "$home/tls/ca.crt" --resolve "shop.example:$tls_port:127.0.0.1")
    curl -s --noproxy '*' -o "$shop/unpaid" -D "$shop/unpaid.head" -w '%{http_code}' "${where[@]}" "$(url /)"
}

price_of() { # the amount of the first offer in a 402's header, in USDC
    /usr/bin/python3 -c '
import base64, json, sys
for line in open(sys.argv[1]):
    name, _, value = line.partition(":")
    if name.lower() == "payment-required":
        print("%.2f" % (int(json.loads(base64.b64decode(value))["accepts"][0]["amount"]) / 1e6))' "$shop/unpaid.head"
}

# What buyer and seller hold; the book is the only one who knows.
balances() {
    /usr/bin/python3 -c '
import sqlite3, sys
rows = dict((a.lower(), int(b)) for a, b in sqlite3.connect("file:%s?mode=ro" % sys.argv[1], uri=True).execute("SELECT address, balance FROM account"))
seller = rows.pop("0x" + "0" * 39 + "1", 5000000)
print("buyer %.2f, seller %.2f USDC" % (sum(rows.values()) / 1e6 if rows else 5, seller / 1e6))' "$shop/book"
}

# paid PATH…: a call that must be charged once. free PATH…: one that must fail, and move nothing.
paid() {
    before=$(balances)
    pay "$@"
    after=$(balances)
    [ "$rc" -eq 0 ]
}
sold() { [ "$rc" -eq 0 ] && has "$said" 'paid 0\.01 USDC' && [ "$before" != "$after" ]; }
not_charged() { [ "$rc" -ne 0 ] && [ "$before" = "$after" ]; }
free() { paid "$@" || :; }

back() {
    for _ in $(seq 100); do
        pay /
        [ "$rc" -ne 0 ] || return 0
        sleep 0.2
    done
    return 1
}

show_sale() {
    bold "A Python handler, sold for 0.01 USDC a call (a local book plays the chain)"
    local status runs
    [ -z "$traefik" ] || say "at $(url /), through Traefik; certificate by an authority of one day"
    status=$(unpaid)
    claim "unpaid: HTTP $status, price $(price_of) USDC" [ "$status $(price_of)" = '402 0.01' ]
    paid / || :
    claim "paid: $answer" sold
    say "  $said"
    say "  before: $before; after: $after"
    free /fail
    claim "a handler that fails is not charged ($said)" not_charged
    free /big
    claim "an answer over 1 MiB is not charged ($said)" not_charged
    paid /runs || :
    runs=$answer
    head -c $((1024 * 1024 + 1)) /dev/zero | tr '\0' x >"$shop/body"
    free / -X POST -d "@$shop/body"
    claim "a request over 1 MiB is not charged ($said)" not_charged_413
    paid /runs || :
    claim "and the handler never ran for it ($runs runs, then $answer)" [ "$answer" = $((runs + 1)) ]
}

not_charged_413() { has "$said" 413 && not_charged; }

show_bombs() {
    bold 'Bombs, sent as paid requests'
    free /fork
    claim "a fork bomb is contained and not charged ($said)" not_charged
    claim 'and the endpoint sells again' back
    free /memory
    claim "a memory bomb is contained and not charged ($said)" not_charged
    claim 'and the endpoint sells again' back
}

closed() { has "$answer" '^failed: '; }
address() { deploy status --json "$1" | sed -n '/"handler"/,/}/s/.*"address": "\([0-9.]*\)\/.*/\1/p' | head -n 1; }

show_isolation() {
    bold 'Who reaches whom'
    local handler other
    handler=$(address shop) other=$(address other)
    pay /reach/1.1.1.1:443
    claim "the handler does not reach the internet ($answer)" closed
    pay /reach/198.19.0.1:8403
    claim "nor this host ($answer)" closed
    pay "/reach/$other:8080"
    claim "nor the handler of another slug ($answer)" closed
    claim 'this host does not reach the handler' lacks "$(curl -s -m 1 --noproxy '*' "http://$handler:8080/")" hello
}

# shows NAME: the handler's line about it, from its one answer.
shows() { printf '%s\n' "$tricks" | sed -n "s/^$1: //p"; }

show_upstream() {
    bold 'An upstream that demands a key: the handler gets answers, never the key'
    local tricks
    claim 'without the key it answers 401' [ "$(curl -s --noproxy '*' -o /dev/null -w '%{http_code}' http://198.19.128.1:9000/v1/today)" = 401 ]
    pay /weather
    claim "works during a paid call ($answer)" has "$answer" '^200 fine'
    pay /weather-tricks
    tricks=$answer
    claim "refused after the call ($(shows after))" has "$(shows after)" '^403 '
    claim "refused for another upstream ($(shows other))" has "$(shows other)" '^40[34] '
    claim "refused for another path ($(shows path))" has "$(shows path)" '^403 '
    claim "refused without a token ($(shows none))" has "$(shows none)" '^401 '
    claim "not reachable around the proxy ($(shows around))" has "$(shows around)" '^failed'
    claim 'the key is in no spec, environment, plan or answer' key_hidden
}

key_hidden() {
    local id
    for id in $(ctr -a "$run/containerd.sock" -n utter containers ls -q); do
        lacks "$(ctr -a "$run/containerd.sock" -n utter containers info "$id")" "$upstream_key" || return 1
    done
    ! grep -rq --exclude-dir=secrets "$upstream_key" /var/lib/utter && # secrets: root's own copy
        lacks "$tricks $answer" "$upstream_key"
}

show_status() {
    bold 'Status and audit'
    deploy status shop | sed 's/^/    /'
    local out
    out=$(deploy audit --live shop) || :
    claim "what runs is what was planned (${out##*: })" has "$out" ', 0 drifts$'
    [ -z "$traefik" ] || claim "Traefik's access log names no payment" lacks "$(cat "$home/access.log")" '[Pp][Aa][Yy][Mm][Ee][Nn][Tt]-'
}

show_endpoint() {
    bold 'An endpoint'
    [ -z "$traefik" ] || step 'Traefik and certificates' traefik_start
    step 'images of gate and data proxy' endpoint_settings
    step 'two endpoints from their folders' endpoint_up
    step 'facilitator, upstream and watch' others_start
    show_sale
    show_upstream
    show_isolation
    show_bombs
    show_status
}
