#!/bin/bash
# Runs the examples of docs/operations.md about TLS.
# shellcheck source=tests/docs/common.sh
. tests/docs/common.sh
command -v openssl >/dev/null || skip "there is no openssl"

for name in certificate.sh serve-tls.sh ask-tls.sh ask-tls.py clients.sh serve-mutual.sh ask-mutual.sh \
    ask-mutual.py; do
    write_block docs/operations.md $name
done
ln -s "$root/models" "$work/models"
PATH=$root/$OUT:$PATH
cd "$work" || exit 1
bash certificate.sh >certificate.log 2>&1 || fail "no certificate was made"
bash clients.sh >clients.log 2>&1 || fail "no client's certificate was made"

# serve BLOCK
serve() {
    sed 's/^cellbatchd/exec cellbatchd/' "$1" >serve-exec.sh
    : >server.log # or the server before this one would be found ready
    CELLBATCH_HTTP_PORT=$http_port CELLBATCH_GRPC_PORT=$grpc_port CELLBATCH_METRICS_PORT=$metrics_port \
        bash serve-exec.sh >server.log 2>&1 </dev/null &
    server=$!
    for ((i = 0; i < 300; i++)); do
        kill -0 "$server" 2>/dev/null || fail "the server ended"
        ! grep -q 'daemon: ready' server.log || return 0
        sleep 0.1
    done
    fail "the server was not ready after 30 s"
}

# ask_python BLOCK
triton=$(python_with tritonclient.grpc tritonclient.http gevent.ssl)
ask_python() {
    if [ -z "$triton" ]; then
        echo "without the tritonclient block (make deps-py)"
        return
    fi
    "$triton" "$1" >python.log 2>&1 || fail "$1 failed"
    grep -qx 'True True' python.log || fail "$1 printed something else"
}

serve serve-tls.sh
bash ask-tls.sh >ask.log 2>&1 || fail "the question failed"
grep -q '"data":\[0\.744' ask.log || fail "the question was answered otherwise"
ask_python ask-tls.py
stop_server

serve serve-mutual.sh
bash ask-mutual.sh >ask.log 2>&1 || fail "the question with a certificate failed"
grep -q '"ready":true' ask.log || fail "the question with a certificate was answered otherwise"
ask_python ask-mutual.py
bash ask-tls.sh >ask.log 2>&1 && fail "a question without a certificate was answered"
stop_server
