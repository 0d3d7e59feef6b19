# An endpoint: a folder with a Python handler, sold. Containers, networks and rules are utter-deploy's; a local
# facilitator plays the chain, and says so.
shop=$top/build/quickstart/shop
port=18402

# What utter-deploy and the shim read and write lies in these. Where one is there already, it is somebody's: the
# endpoint is not shown then.
endpoint_ours() {
    local path
    for path in /etc/utter /run/utter /var/lib/utter; do
        [ ! -e "$path" ] || return 1
    done
}

deploy() { "$bin/utter-deploy" "$@"; }

endpoint_settings() {
    mkdir -p -m 0755 /etc/utter /var/lib/utter
    cp "$bin/utter-log" "$run/" # the shim starts a logger only from where none but root can write
    cat >/etc/utter/deploy.json <<X
{"containerd": {"address": "$run/containerd.sock"}, "logger": "$run/utter-log"}
X
    cat >/etc/utter/policy.json <<X
{"loggers": {"binary": [{"path": "$run/utter-log"}]}}
X
    deploy image gate "$bin/utter-gate"
}

# endpoint_file SLUG PAYEE: SLUG's folder with handler and endpoint.yaml.
endpoint_file() {
    mkdir -p "$shop/$1/handler"
    cp deploy/quickstart.d/handler.py "$shop/$1/handler/main.py"
    cat >"$shop/$1/endpoint.yaml" <<X
slug: $1
handler: ./handler
routes:
  - {path: /*, methods: [GET, POST], price: "0.01", description: the quickstart's handler}
pay: {to: "0x000000000000000000000000000000000000000$2"}
facilitator: {url: "http://198.19.0.1:8403"}
host: $1.example
timeouts: {handler: 5s}
X
}

endpoint_up() {
    endpoint_file shop 1 && deploy up "$shop/shop/endpoint.yaml" && endpoint_file other 2 &&
        deploy up "$shop/other/endpoint.yaml"
}

facilitator_start() {
    "$bin/utter-facilitator" --listen 198.19.0.1:8403 >"$shop/facilitator.log" 2>&1 </dev/null &
    echo $! >"$run/facilitator.pid"
    "$bin/utter-pay" key new "$shop/key"
    "$bin/utter-deploy" watch >"$shop/watch.log" 2>&1 </dev/null &
    echo $! >"$run/watch.pid"
    for _ in $(seq 50); do grep -q listening "$shop/facilitator.log" && break || sleep 0.1; done
}

edge() { deploy status --json "$1" | sed -n 's/.*"edge": "\([0-9.]*\)\/.*/\1/p' | grep . | head -n 1; }

# pay PATH [OPTION…]: a paid call; stdout is the answer, stderr what was paid. $rc its status.
pay() {
    local path=$1
    shift
    rc=0
    answer=$("$bin/utter-pay" --yes --max 1 --retry-for 1 --key "$shop/key" -H 'Host: shop.example' "$@" \
        "http://$(edge shop):8402$path" 2>"$shop/said") || rc=$?
    said=$(cat "$shop/said")
}

settled() { deploy status --json shop | grep -c '"state": "settled"' || :; }
charged() { has "$said" 'paid 0\.01 USDC'; }
not_charged() { [ "$rc" -ne 0 ] && ! charged; }
back() { for _ in $(seq 100); do pay /; [ "$rc" -ne 0 ] || return 0; sleep 0.2; done; return 1; }

show_sale() {
    bold 'A Python handler, sold for 0.01 USDC a call (a local book plays the chain)'
    local out
    out=$(curl -s -o /dev/null -w '%{http_code}' -H 'Host: shop.example' "http://$(edge shop):8402/")
    claim "an unpaid call gets its price (HTTP $out)" [ "$out" = 402 ]
    pay /
    claim "a paid call gets its answer: $answer" charged
    say "$(printf '%s' "$said" | tail -n 1)"
    pay /fail
    claim "a handler that fails is not charged ($(printf '%s' "$said" | tail -n 1))" not_charged
    pay /big
    claim "an answer over 1 MiB is not charged ($(printf '%s' "$said" | tail -n 1))" not_charged
    head -c $((1024 * 1024 + 1)) /dev/zero | tr '\0' x >"$shop/body"
    pay / -X POST -d "@$shop/body"
    claim "a request over 1 MiB never reaches it ($(printf '%s' "$said" | tail -n 1))" has "$said" 413
}

show_bombs() {
    bold 'Bombs, sent as paid requests'
    pay /fork
    claim "a fork bomb: not charged ($(printf '%s' "$said" | tail -n 1))" not_charged
    claim 'and the endpoint sells again' back
    pay /memory
    claim "a memory bomb: not charged ($(printf '%s' "$said" | tail -n 1))" not_charged
    claim 'and the endpoint sells again' back
}

closed() { has "$answer" '^failed: '; }

show_isolation() {
    bold 'Who reaches whom'
    local handler other
    handler=$(deploy status --json shop | sed -n '/"handler"/,/}/s/.*"address": "\([0-9.]*\)\/.*/\1/p')
    other=$(deploy status --json other | sed -n '/"handler"/,/}/s/.*"address": "\([0-9.]*\)\/.*/\1/p')
    pay /reach/1.1.1.1:443
    claim "the handler does not reach the internet ($answer)" closed
    pay /reach/198.19.0.1:8403
    claim 'nor this host' closed
    pay "/reach/$other:8080"
    claim 'nor the handler of another slug' closed
    claim 'this host does not reach the handler' lacks "$(curl -s -m 1 "http://$handler:8080/" && echo reached)" reached
}

show_status() {
    bold 'Status and audit'
    deploy status shop | sed 's/^/    /'
    local out
    out=$(deploy audit --live shop) || :
    claim "what runs is what was planned (${out##*: })" has "$out" ', 0 drifts$'
}

show_endpoint() {
    if [ -z "$ours" ]; then
        bold 'An endpoint: not shown'
        say 'this host has /etc/utter, /run/utter or /var/lib/utter already; they are left alone'
        return 0
    fi
    step 'two endpoints from their folders' endpoint_settings
    step 'handlers, gates, networks' endpoint_up
    step 'facilitator and watch' facilitator_start
    show_sale
    show_bombs
    show_isolation
    show_status
}

# Idempotent, before containerd is stopped.
endpoint_stop() {
    [ -e "$run/ours" ] || return 0
    local name pid
    for name in watch facilitator; do
        pid=$(cat "$run/$name.pid" 2>/dev/null) || continue
        case $(cat "/proc/$pid/comm" 2>/dev/null) in utter-deploy | utter-facilitat*) kill "$pid" ;; esac
    done
    deploy down --purge --force --wait 3 shop || deploy down --force --wait 0 shop || :
    deploy down --purge --force --wait 3 other || deploy down --force --wait 0 other || :
    rm -rf /etc/utter /var/lib/utter /run/utter "$shop"
}
