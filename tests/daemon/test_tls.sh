#!/usr/bin/env bash
# The daemon over TLS as its users run it: bad files at start, answers, clients that are not let in,
# drain with connections open.
set -u
. tests/daemon/daemon.sh
daemon_certificates
ports=(--model-repository models --grpc-port 0 --http-port 0 --metrics-port 0)

# ---- Starts that fail, each for its reason ----

# fails_with TEXT OPTION...: exit status 1 and a line that says why, before any model is loaded.
fails_with() {
    local text=$1
    shift
    timeout 20 "$OUT/cellbatchd" "${ports[@]}" "$@" >"$daemon_dir/out" 2>"$daemon_dir/log"
    [ $? -eq 1 ] && grep -q -- "$text" "$daemon_dir/log" && ! daemon_says 'pool: started'
}
# pair CERTIFICATE KEY: the options; without a slash it is one of ours.
pair() {
    local file files=()
    for file in "$1" "$2"; do
        case $file in
        */*) files+=("$file") ;;
        *) files+=("$pem/$file") ;;
        esac
    done
    options=(--tls-cert-file "${files[0]}" --tls-key-file "${files[1]}")
}
pair_fails_with() {
    pair "$2" "$3"
    fails_with "$1" "${options[@]}"
}

: >"$pem/empty.pem"
echo 'no PEM' >"$pem/text.pem"
head -c 300 "$pem/server.pem" >"$pem/torn.pem"
check 'a certificate alone' fails_with 'tls-cert-file is given without tls-key-file' \
    --tls-cert-file "$pem/server.pem"
check 'a key alone' fails_with 'tls-key-file is given without tls-cert-file' \
    --tls-key-file "$pem/server.key"
check 'CAs alone' fails_with 'tls-client-ca-file is given without tls-cert-file' \
    --tls-client-ca-file "$pem/client_ca.pem"
check 'no certificate there' pair_fails_with "$pem/no.pem: no such file" no.pem server.key
check 'no key there' pair_fails_with "$pem/no.key: no such file" server.pem no.key
check 'a folder' pair_fails_with "$pem/: illegal operation on a directory" "$pem/" server.key
check 'an empty certificate' pair_fails_with "$pem/empty.pem: is empty" empty.pem server.key
check 'an empty key' pair_fails_with "$pem/empty.pem: is empty" server.pem empty.pem
check 'a text' pair_fails_with "$pem/text.pem: no certificates in PEM" text.pem server.key
check 'a torn certificate' pair_fails_with "$pem/torn.pem: no certificates in PEM" torn.pem server.key
check 'a certificate for a key' pair_fails_with "$pem/ca.pem: no private key in PEM" server.pem ca.pem
check 'a key with a password' pair_fails_with "$pem/locked.key: the key has a password" \
    server.pem locked.key
check 'the key of another' \
    pair_fails_with "$pem/client.key: not the key of the certificate in $pem/server.pem" \
    server.pem client.key
check 'a chain in the wrong order' pair_fails_with "$pem/unsorted.pem: not in order" \
    unsorted.pem server.key
pair server.pem server.key
check 'no CAs there' fails_with "$pem/no.pem: no such file" "${options[@]}" \
    --tls-client-ca-file "$pem/no.pem"
check 'CAs that are none' fails_with "$pem/text.pem: no certificates in PEM" "${options[@]}" \
    --tls-client-ca-file "$pem/text.pem"
check 'check-config refuses them too' pair_fails_with "$pem/client.key: not the key" \
    server.pem client.key --check-config
pair server.pem server.key
config_has() { "$OUT/cellbatchd" "${ports[@]}" "${options[@]}" --check-config | grep -q "$1"; }
check 'check-config takes what is right' config_has "^tls-cert-file: .*$pem/server.pem"

# ---- What a client gets ----

body='{"inputs":[{"name":"tokens","datatype":"INT64","shape":[1,5],"data":[72,101,108,108,111]}]}'
# url PATH; ask CURL-OPTION...: the demo model's answer to a short text is printed.
url() { echo "https://localhost:${http##*:}$1"; }
ask() { curl -s -m 20 "$@" -d "$body" "$(url /v2/models/langid/infer)" | grep -q '"data":\[0.744'; }
lives() { ask --cacert "$pem/ca.pem" "$@"; }
# refused STATUS CURL-OPTION...: curl's exit status.
refused() {
    local status=$1
    shift
    curl -s -o /dev/null -m 20 "$@"
    [ $? -eq "$status" ]
}
large() {
    local json='{"inputs":[{"name":"tokens","datatype":"INT64","shape":[400,1000],"parameters":{"binary_data_size":3200000}}],"outputs":[{"name":"probabilities","parameters":{"binary_data":true}}]}'
    (printf '%s' "$json" && head -c 3200000 /dev/zero) >"$daemon_dir/body"
    curl -s -m 60 --cacert "$pem/ca.pem" -o "$daemon_dir/answer" --data-binary "@$daemon_dir/body" \
        -H "Inference-Header-Content-Length: ${#json}" "$(url /v2/models/langid/infer)" &&
        [ "$(tail -c 3200 "$daemon_dir/answer" | od -A n -t f4 -w8 -v | sort -u | wc -l)" -eq 1 ] &&
        grep -qa '"shape":\[400,2\]' "$daemon_dir/answer"
}
keeps_a_connection() {
    [ "$(curl -s -m 20 --cacert "$pem/ca.pem" -w '%{num_connects} ' -o /dev/null "$(url /v2)" \
        -o /dev/null "$(url /v2/health/ready)" -o /dev/null "$(url /v2)")" = '1 0 0 ' ]
}
# grpc_lives CURL-OPTION...: ServerLive over gRPC, whose request is an empty message.
grpc_lives() {
    printf '\0\0\0\0\0' | curl -s -m 20 -o "$daemon_dir/answer" -D "$daemon_dir/head" --http2 "$@" \
        -H 'content-type: application/grpc' -H 'te: trailers' --data-binary @- \
        "https://localhost:${grpc##*:}/inference.GRPCInferenceService/ServerLive" &&
        grep -qi '^grpc-status: 0' "$daemon_dir/head" &&
        [ "$(od -A n -t x1 "$daemon_dir/answer" | tr -d ' ')" = 00000000020801 ]
}
# speaks ADDRESS VERSION: whether a handshake of this version comes to its end.
speaks() {
    timeout 20 openssl s_client -connect "localhost:${1##*:}" -CAfile "$pem/ca.pem" "-$2" \
        -cipher 'ALL:@SECLEVEL=0' </dev/null 2>&1 | grep -q 'Cipher is [^(]'
}
not() { ! "$@"; }
# load OPTION...: cellbatch-load is answered; load_says TEXT OPTION...: it is not, and says why. $load_requests: how
# many it sends.
load() {
    local requests=${load_requests:-200}
    "$OUT/cellbatch-load" --target "${load_host:-localhost}:${grpc##*:}" --concurrency 8 --requests "$requests" \
        --warmup 0 "$@" >"$daemon_dir/load" 2>&1 && grep -q " $requests ok  0 failed" "$daemon_dir/load"
}
load_says() {
    local text=$1
    shift
    ! load "$@" && grep -q "$text" "$daemon_dir/load"
}

check 'starts' daemon_start --model-repository models "${options[@]}"
check 'the start block names the certificate' daemon_says "^  tls  *$pem/server.pem until 20"
check 'the start block says https' daemon_says '^  http  *https://'
check 'JSON' lives
check 'some MB in binary' large
check 'a connection is kept' keeps_a_connection
check 'gRPC' grpc_lives --cacert "$pem/ca.pem"
check 'cellbatch-load' load --tls-ca-file "$pem/ca.pem"
load_requests=2 check 'cellbatch-load, requests of some MB' load --tls-ca-file "$pem/ca.pem" --batch 100 --lengths fixed:4000
check 'cellbatch-load in plain text' load_says 'UNAVAILABLE'
check 'cellbatch-load does not know the CA' load_says 'The certificate is NOT trusted' --tls-ca-file "$pem/client_ca.pem"
check 'nor does this system' load_says 'The certificate is NOT trusted' --tls
load_host=127.1 check 'cellbatch-load expects another name' load_says 'does not match' \
    --tls-ca-file "$pem/ca.pem"
check 'cellbatch-load without the file' load_says "$pem/no.pem: " --tls-ca-file "$pem/no.pem"
check 'cellbatch-load with a file of no CAs' load_says "$pem/text.pem: " --tls-ca-file "$pem/text.pem"
check 'a client that does not know the CA' refused 60 "$(url /v2)"
check 'a client that expects another name' refused 60 --cacert "$pem/ca.pem" \
    --resolve "other:${http##*:}:127.0.0.1" "https://other:${http##*:}/v2"
check 'plain HTTP' refused 52 "http://localhost:${http##*:}/v2"
check 'plain gRPC' not curl -s -m 20 --http2-prior-knowledge "http://localhost:${grpc##*:}/"
for address in "$http" "$grpc"; do
    for version in tls1 tls1_1; do
        check "$version is refused" not speaks "$address" "$version"
    done
    for version in tls1_2 tls1_3; do
        check "$version is spoken" speaks "$address" "$version"
    done
done
check '/metrics stays plain' metric_is cellbatch_requests_running 0
check 'serves on' lives
check 'gRPC serves on' grpc_lives --cacert "$pem/ca.pem"

# Drain: idle connections, and handshakes that nobody finishes, hold up nothing.
mkfifo "$daemon_dir/held"
openssl s_client -connect "localhost:${http##*:}" -CAfile "$pem/ca.pem" -quiet <"$daemon_dir/held" \
    >"$daemon_dir/idle" 2>/dev/null &
idle=$!
exec 3>"$daemon_dir/held"
printf 'GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n' >&3
check 'an idle connection' wait_for 10 grep -q '200 OK' "$daemon_dir/idle"
exec 4<>"/dev/tcp/127.0.0.1/${http##*:}" 5<>"/dev/tcp/127.0.0.1/${grpc##*:}"
exec 6<>"/dev/tcp/127.0.0.1/${http##*:}" 7<>"/dev/tcp/127.0.0.1/${grpc##*:}"
printf '\x16\x03\x01\x02\x00\x01' >&6
printf '\x16\x03\x01\x02\x00\x01' >&7
check 'handshakes are there' lives
kill -TERM "$daemon_pid"
daemon_wait
check 'SIGTERM exits cleanly' [ "$daemon_exit" -eq 0 ]
check 'nothing had to be closed by force' not daemon_says 'connections that are still open'
exec 3>&- 4>&- 5>&- 6>&- 7>&-
wait "$idle" 2>/dev/null

# ---- Mutual TLS, /metrics over TLS ----

known=(--cert "$pem/client.pem" --key "$pem/client.key")
# not_let_in NAME: with this certificate neither protocol answers; without a name, with none.
not_let_in() {
    local with=()
    [ $# -eq 0 ] || with=(--cert "$pem/$1.pem" --key "$pem/$1.key")
    ! lives "${with[@]}" && ! grpc_lives --cacert "$pem/ca.pem" "${with[@]}"
}
check 'starts with client CAs' daemon_start --model-repository models "${options[@]}" \
    --tls-client-ca-file "$pem/client_ca.pem" --metrics-tls=true
for version in 1.2 1.3; do
    exactly=(--tlsv"$version" --tls-max "$version")
    check "a known client, TLS $version" lives "${known[@]}" "${exactly[@]}"
    check "a known client of gRPC, TLS $version" \
        grpc_lives --cacert "$pem/ca.pem" "${known[@]}" "${exactly[@]}"
    check "a client without a certificate, TLS $version" not lives "${exactly[@]}"
    check "a client of another CA, TLS $version" \
        not lives --cert "$pem/wrong.pem" --key "$pem/wrong.key" "${exactly[@]}"
done
check 'cellbatch-load with a certificate' load --tls-ca-file "$pem/ca.pem" --tls-cert-file "$pem/client.pem" \
    --tls-key-file "$pem/client.key"
check 'cellbatch-load with that of another CA' load_says 'UNAVAILABLE' --tls-ca-file "$pem/ca.pem" \
    --tls-cert-file "$pem/wrong.pem" --tls-key-file "$pem/wrong.key"
check 'cellbatch-load without one' load_says 'UNAVAILABLE' --tls-ca-file "$pem/ca.pem"
check 'no certificate' not_let_in
for name in wrong purpose late rsa; do
    check "the certificate $name" not_let_in "$name"
done
metrics_over() { curl -s -m 20 "$@" | grep -q '^cellbatch_'; }
check 'metrics over TLS' metrics_over --cacert "$pem/ca.pem" "${known[@]}" \
    "https://localhost:${metrics##*:}/metrics"
check 'metrics to nobody else' not metrics_over --cacert "$pem/ca.pem" \
    "https://localhost:${metrics##*:}/metrics"
check 'metrics not in plain text' not metrics_over "http://localhost:${metrics##*:}/metrics"

# Python's clients, where they are installed (make deps-py).
if build/venv/bin/python -c 'import tritonclient.grpc, tritonclient.http' 2>/dev/null; then
    check 'tritonclient' build/venv/bin/python tests/clients/tls.py "localhost:${grpc##*:}" \
        "localhost:${http##*:}" "$pem"
else
    echo 'tritonclient: not there, not asked'
fi
check 'known clients are served on' lives "${known[@]}"
kill -INT "$daemon_pid"
daemon_wait
check 'SIGINT exits cleanly' [ "$daemon_exit" -eq 0 ]

# A restart with another certificate, one whose time is over: said, and served.
pair late_server.pem late_server.key
check 'starts with a late certificate' daemon_start --model-repository models "${options[@]}"
check 'a late certificate is warned of' daemon_says "WARN .*is over file=$pem/late_server.pem"
check 'clients see it' refused 60 --cacert "$pem/ca.pem" "$(url /v2)"
check 'one that does not look is served' ask --insecure
kill -TERM "$daemon_pid"
daemon_wait
check 'and exits cleanly' [ "$daemon_exit" -eq 0 ]

# An RSA key.
pair rsa.pem rsa.key
check 'starts with an RSA key' daemon_start --model-repository models "${options[@]}"
check 'RSA' lives
check 'gRPC with RSA' grpc_lives --cacert "$pem/ca.pem"
kill -TERM "$daemon_pid"
daemon_wait
check 'the last exits cleanly' [ "$daemon_exit" -eq 0 ]

report
