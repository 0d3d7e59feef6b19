# The runtime: a hardened container seen from inside, and four that are refused.
hard=(--runtime io.containerd.utter.v1 --read-only --memory-limit $((256 << 20)) --cpus 0.5)
for cap in CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP SETPCAP NET_BIND_SERVICE SYS_CHROOT KILL AUDIT_WRITE; do
    hard+=(--cap-drop "CAP_$cap")
done

# guest COMMAND…: runs it in a hardened container; output on stdout.
guest() { ctl run --rm "${hard[@]}" "$image" "show-$$-$RANDOM" "$@" 2>&1 || :; }

show_inside() {
    bold 'A hardened container, seen from inside'
    local out
    out=$(guest /bin/dmesg)
    printf '%s\n' "$out" | head -n 3 | sed 's/^/    /'
    claim 'its kernel is gVisor, not this machine'"'"'s' has "$out" gVisor
    out=$(guest /bin/probe status)
    claim 'no capability in any set' has "$out" '"CapPrm":"0+","CapEff":"0+","CapBnd":"0+"'
    claim 'a seccomp filter is on it' has "$out" '"Seccomp":"2"'
    out=$(guest /bin/probe ifaces)
    claim 'no network but its own loopback' has "$out" '"addresses":\["lo [0-9.:]*"(,"lo [0-9.:]*")?\]'
    out=$(guest /bin/probe write / /etc /bin -- execplaces)
    claim 'its root cannot be written' has "$out" '"write:/","ok":false,"errno":"EROFS"'
    claim 'nothing it can write can be executed' lacks "$out" '"exec:[^"]*","ok":true'
    out=$(guest /bin/probe escape)
    claim 'mount, unshare, setns, chroot, ptrace, memfd: all denied' lacks "$out" \
        '"(mount|umount|remount|unshare|setns|chroot|pivot|clone|ptrace|memfd)[^"]*","ok":true'
    out=$(guest /bin/probe forkbomb 1000)
    claim "a fork bomb stops at the limit ($(printf '%s' "$out" | sed 's/.*"made":\([0-9]*\).*/\1/') of 1000)" \
        has "$out" '"made":[0-9]{1,3},"errno":"EAGAIN"'
    local rc=0
    ctl run --rm "${hard[@]}" "$image" "show-$$-$RANDOM" /bin/probe membomb 512 >/dev/null 2>&1 || rc=$?
    claim "a memory bomb ends at its limit (exit status $rc)" [ "$rc" -eq 137 ]
}

# refused TEXT FLAG…: the run must fail with our line, which is shown.
refused() {
    local text=$1 id="refused-$$-$RANDOM" out rc=0
    shift
    out=$(ctl run --rm "$@" "$image" "$id" /bin/true 2>&1) || rc=$?
    ctl containers rm "$id" >/dev/null 2>&1 || :
    claim "$text" has "$rc $out" '^[1-9][0-9]* .*utter: refused: '
    printf '%s\n' "$out" | grep -o 'utter: refused: .*' | cut -c16- | sed 's/); /)\n/g' | head -n 4 | sed 's/^ */      /'
}

show_refusals() {
    bold 'Four that are refused (nothing of them ran)'
    refused 'plain `ctr run`: capabilities, no limits, writable root' --runtime io.containerd.utter.v1
    refused '--privileged' "${hard[@]}" --privileged
    refused 'the host'"'"'s network' "${hard[@]}" --net-host
    refused 'a secret in the environment' "${hard[@]}" --env AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLE
}

show_runtime() {
    show_inside
    show_refusals
}
