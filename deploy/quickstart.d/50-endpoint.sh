# Two endpoints: folders with a Python handler, sold. Containers, networks, rules and routes are utter-deploy's; a local
# facilitator plays the chain, and says so; a local upstream demands a key that the handler never sees.
shop=$home/shop
upstream_key=quickstart-key-of-the-upstream

deploy() { "$bin/utter-deploy" "$@"; }

endpoint_settings() {
    local route=''
    mkdir -p -m 0755 /etc/utter /var/lib/utter
    touch "$home/ours"
    # A shim starts a logger only from where none but root can write, and only one that its policy names.
    [ -z "$traefik" ] || route=', "traefik": {"dynamicDir": "'$home'/routes", "entryPoint": "websecure", "port": '$tls_port'}'
    cat >/etc/utter/deploy.json <<X
{"containerd": {"address": "$run/containerd.sock"}, "logger": "$bin/utter-log"$route}
X
    cat >/etc/utter/policy.json <<X
{"loggers": {"binary": [{"path": "$bin/utter-log"}]}}
X
    deploy image gate "$bin/utter-gate"
    deploy image data "$bin/utter-dataproxy"
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
    [ -z "$traefik" ] || {
        cp "$home/tls/tls.crt" "$home/tls/tls.key" "$shop/$1/"
        echo 'tls: {certFile: tls.crt, keyFile: tls.key}' >>"$shop/$1/endpoint.yaml"
    }
}

upstream_file() {
    (umask 077 && echo "$upstream_key" >"$shop/shop/weather.key")
    cat >>"$shop/shop/endpoint.yaml" <<X
upstreams:
  - name: weather
    url: "http://198.19.128.1:9000/v1"
    internal: true
    allow: [{methods: [GET], path: /today}]
    inject: {header: {name: X-Api-Key, file: weather.key}}
X
}

endpoint_up() {
    endpoint_file shop 1 && upstream_file && deploy up "$shop/shop/endpoint.yaml" && endpoint_file other 2 &&
        deploy up "$shop/other/endpoint.yaml"
}

others_start() {
    daemon facilitator "$bin/utter-facilitator" --listen 198.19.0.1:8403 --book "$shop/book" --credit 5000000
    daemon upstream /usr/bin/python3 deploy/quickstart.d/upstream.py 198.19.128.1 9000 "$shop/shop/weather.key"
    daemon watch "$bin/utter-deploy" watch
    "$bin/utter-pay" key new "$shop/key"
    for _ in $(seq 100); do
        ! grep -q listening "$home/facilitator.log" || ! grep -q listening "$home/upstream.log" || return 0
        sleep 0.1
    done
    return 1
}

# Idempotent, before containerd is stopped; a daemon that was killed comes back for it.
endpoint_stop() {
    local slug
    [ -e "$home/ours" ] || return 0
    daemon_end watch
    containerd_again || :
    for slug in shop other; do
        deploy down --purge --force --wait 3 $slug || deploy down --force --wait 0 $slug || :
    done
    daemon_end facilitator
    daemon_end upstream
    places_clear
}
