#!/usr/bin/env bash
# SIGHUP: certificate, client CAs and tokens are read anew while the daemon serves. Nobody who is
# inside notices; files that are wrong change nothing.
set -u
. tests/daemon/daemon.sh
daemon_certificates

# What the daemon is told to read; `put FROM TO` replaces a file at once, as whoever renews one should.
now=$daemon_dir/now
mkdir "$now"
put() {
    (umask 077 && cp "$1" "$now/fresh") && mv "$now/fresh" "$now/$2"
}
put "$pem/server.pem" server.pem
put "$pem/server.key" server.key
put "$pem/client_ca.pem" client_ca.pem
tokens() {
    (umask 077 && echo "$2" >"$now/fresh") && mv "$now/fresh" "$now/$1"
}
tokens use first-token-of-those-who-ask
tokens control first-token-of-those-who-load
options=(--tls-cert-file "$now/server.pem" --tls-key-file "$now/server.key" --tls-client-ca-file "$now/client_ca.pem"
    --metrics-tls=true --auth-token-file "$now/use" --control-token-file "$now/control")

with() { echo --cert "$pem/$1.pem" --key "$pem/$1.key"; }
# code CLIENT TOKEN PATH CURL-OPTION...: of the answer over HTTP; 000: there is no connection.
code() {
    local client=$1 token=$2 path=$3
    shift 3
    # shellcheck disable=SC2046 # several words
    curl -s -m 20 --cacert "$pem/ca.pem" $(with "$client") -o "$daemon_dir/answer" -w '%{http_code}' \
        -H "Authorization: Bearer $token" "$@" "https://localhost:${http##*:}$path"
}
is() { [ "$(code "${@:2}")" = "$1" ]; }
# grpc_is STATUS CLIENT TOKEN: of ServerMetadata over gRPC; none: there is no connection.
grpc_is() {
    local status=$1 client=$2 token=$3
    : >"$daemon_dir/head"
    # shellcheck disable=SC2046
    printf '\0\0\0\0\0' | curl -s -m 20 -o "$daemon_dir/answer" -D "$daemon_dir/head" --http2 \
        --cacert "$pem/ca.pem" $(with "$client") -H 'content-type: application/grpc' -H 'te: trailers' \
        -H "Authorization: Bearer $token" --data-binary @- \
        "https://localhost:${grpc##*:}/inference.GRPCInferenceService/ServerMetadata"
    [ "$(sed -n 's/^grpc-status: \([0-9]*\).*/\1/ip' "$daemon_dir/head")" = "${status/none/}" ]
}
# shows ADDRESS CERTIFICATE: whether new connections to it see this certificate.
shows() {
    local seen
    seen=$(openssl s_client -connect "localhost:${1##*:}" -cert "$pem/client.pem" -key "$pem/client.key" \
        </dev/null 2>/dev/null | openssl x509 -noout -serial)
    [ -n "$seen" ] && [ "$seen" = "$(openssl x509 -noout -serial -in "$pem/$2")" ]
}
secure_metric_is() {
    # shellcheck disable=SC2046
    [ "$(curl -s -m 20 --cacert "$pem/ca.pem" $(with wrong) "https://localhost:${metrics##*:}/metrics" |
        sed -n "s/^$1 //p")" = "$2" ]
}
# hang_up TEXT: SIGHUP, and until one more line of the log has the text.
lines() { grep -c "$1" "$daemon_dir/log"; }
more_lines() { [ "$(lines "$1")" -gt "$2" ]; }
hang_up() {
    local before
    before=$(lines "$1")
    kill -HUP "$daemon_pid"
    wait_for 10 more_lines "$1" "$before"
}

check 'starts' daemon_start --model-repository models --model-control-mode explicit --load-model langid "${options[@]}"
for address in "$http" "$grpc" "$metrics"; do
    check 'the first certificate' shows "$address" server.pem
done
check 'the first token' is 200 client first-token-of-those-who-ask /v2/models/langid
check 'over gRPC too' grpc_is 0 client first-token-of-those-who-ask
check 'another token' is 401 client second-token-of-those-who-ask /v2/models/langid
check 'a client of another CA' is 000 wrong first-token-of-those-who-ask /v2/models/langid

# A connection that stays open over all that follows, and a request that is under way.
mkfifo "$daemon_dir/held"
: >"$daemon_dir/idle" # it is looked into before openssl has opened it
# shellcheck disable=SC2046
openssl s_client -connect "localhost:${http##*:}" -CAfile "$pem/ca.pem" $(with client) -quiet <"$daemon_dir/held" \
    >"$daemon_dir/idle" 2>/dev/null &
idle=$!
exec 3>"$daemon_dir/held"
held() {
    local before
    before=$(grep -c '200 OK' "$daemon_dir/idle")
    printf 'GET /v2/models/langid HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n' "$1" >&3
    wait_for 10 eval "[ \$(grep -c '200 OK' '$daemon_dir/idle') -gt $before ]"
}
check 'a connection' held first-token-of-those-who-ask
token_file=$daemon_dir/load_token
echo first-token-of-those-who-ask >"$token_file"
"$OUT/cellbatch-load" --target "localhost:${grpc##*:}" --concurrency 4 --duration 4 --warmup 0 --token-file "$token_file" \
    --tls-ca-file "$pem/ca.pem" --tls-cert-file "$pem/client.pem" --tls-key-file "$pem/client.key" \
    >"$daemon_dir/load" 2>&1 &
load=$!

# ---- All of them anew; the new tokens hold the old one of those who load, too ----

put "$pem/rsa.pem" server.pem
put "$pem/rsa.key" server.key
cat "$pem/client_ca.pem" "$pem/other_ca.pem" >"$daemon_dir/both"
put "$daemon_dir/both" client_ca.pem
tokens use "$(printf 'first-token-of-those-who-ask\nsecond-token-of-those-who-ask')"
check 'says that it has read them' hang_up 'daemon: reloaded certificate until=20.*, tokens'
for address in "$http" "$grpc" "$metrics"; do
    check 'the second certificate' shows "$address" rsa.pem
done
check 'the second token' is 200 client second-token-of-those-who-ask /v2/models/langid
check 'over gRPC too' grpc_is 0 client second-token-of-those-who-ask
check 'the CA that was added' is 200 wrong second-token-of-those-who-ask /v2/models/langid
check 'over gRPC too' grpc_is 0 wrong second-token-of-those-who-ask
check 'the connection goes on, with a new token' held second-token-of-those-who-ask

# ---- What is taken away ----

put "$pem/other_ca.pem" client_ca.pem
tokens control second-token-of-those-who-load
check 'once more' hang_up 'daemon: reloaded'
check 'the first CA is gone' is 000 client second-token-of-those-who-ask /v2/models/langid
check 'over gRPC too' grpc_is none client second-token-of-those-who-ask
check 'the first token of those who load is gone' is 401 wrong first-token-of-those-who-load \
    /v2/repository/models/dates/load -d '{}'
check 'the second is there' is 200 wrong second-token-of-those-who-load /v2/repository/models/dates/load -d '{}'
check 'the connection of before goes on' held first-token-of-those-who-ask
wait "$load"
check 'nobody who was inside has noticed' [ $? -eq 0 ]
check 'all were answered' grep -Eq '[1-9][0-9]* ok  0 failed' "$daemon_dir/load"

# ---- What is wrong changes nothing ----

refused='reload refused, what was read before stays in force'
put "$pem/server.pem" server.pem # whose key is not the one that is there
tokens use third-token-of-those-who-ask
check 'a certificate without its key' hang_up "$refused: $now/server.key: not the key of the certificate"
for address in "$http" "$grpc"; do
    check 'the second certificate stays' eval "openssl s_client -connect localhost:${address##*:} </dev/null 2>/dev/null |
        openssl x509 -noout -serial | grep -qx '$(openssl x509 -noout -serial -in "$pem/rsa.pem")'"
done
check 'and so do the tokens, which were right' is 200 wrong first-token-of-those-who-ask /v2/models/langid
put "$pem/server.key" server.key
tokens use short
check 'a token that is none' hang_up "$refused: $now/use: line 1"
rm "$now/use"
check 'no file' hang_up "$refused: $now/use: no such file"
check 'the tokens stay' is 200 wrong first-token-of-those-who-ask /v2/models/langid
tokens use third-token-of-those-who-ask
check 'all is right again' hang_up 'daemon: reloaded'
check 'how often' secure_metric_is 'cellbatch_reloads_total{outcome="taken"}' 3
check 'how often not' secure_metric_is 'cellbatch_reloads_total{outcome="refused"}' 3
check 'when it ends' secure_metric_is cellbatch_certificate_end_seconds \
    "$(date -d "$(openssl x509 -noout -enddate -in "$pem/server.pem" | cut -d = -f 2)" +%s)"
check 'the third token' is 200 wrong third-token-of-those-who-ask /v2/models/langid
check 'the second is gone' is 401 wrong second-token-of-those-who-ask /v2/models/langid

# ---- Many at once, and while it stops ----

for _ in {1..50}; do kill -HUP "$daemon_pid"; done
check 'many' is 200 wrong third-token-of-those-who-ask /v2/models/langid
kill -TERM "$daemon_pid"
for _ in {1..5}; do kill -HUP "$daemon_pid" 2>/dev/null; done
daemon_wait
check 'SIGTERM exits cleanly' [ "$daemon_exit" -eq 0 ]
exec 3>&-
wait "$idle" 2>/dev/null

# ---- A server that asks nobody for a certificate ----

put "$pem/server.pem" server.pem
put "$pem/server.key" server.key
check 'starts without CAs' daemon_start --model-repository models "${options[@]:0:4}"
check 'serves' is 200 client '' /v2/models/langid
put "$pem/rsa.pem" server.pem
put "$pem/rsa.key" server.key
check 'reads the certificate alone' hang_up 'daemon: reloaded certificate until=20[^,]*$'
for address in "$http" "$grpc"; do
    check 'shows it' shows "$address" rsa.pem
done
check 'serves on' is 200 client '' /v2/models/langid
check 'over gRPC too' grpc_is 0 client ''
kill -TERM "$daemon_pid"
daemon_wait
check 'ends' [ "$daemon_exit" -eq 0 ]

# ---- A server that reads no such file ----

check 'starts without' daemon_start --model-repository models
check 'has nothing to read' hang_up 'daemon: reloaded$'
check 'serves on' curl -s -f -o /dev/null "http://$http/v2/health/ready"
kill -TERM "$daemon_pid"
daemon_wait
check 'ends' [ "$daemon_exit" -eq 0 ]

report
