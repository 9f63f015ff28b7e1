#!/bin/bash
# Makes the keys and certificates that tests of TLS use, for a few hours, in the folder DIR. Exit status
# 77 where there is no openssl. Usage: certificates.sh DIR
#
#   ca.pem         whom clients of the server trust
#   server.pem     for localhost and 127.0.0.1, and behind it the CA between it and ca.pem; server.key
#   rsa.pem        the same, signed by ca.pem itself, with an RSA key; rsa.key
#   client_ca.pem  whom the server trusts
#   client.pem     a client's, and from here on each with its .key; one that no CA between signed
#   wrong.pem      a client's that another CA signed, of the same name
#   purpose.pem    signed by client_ca.pem, but for servers
#   late.pem       a client's whose time is over; late_server.pem a server's
#   locked.key     server.key with a password
#   unsorted.pem   server.pem the wrong way round
set -eu

command -v openssl >/dev/null || {
    echo "there is no openssl"
    exit 77
}
cd "$1"

key() { openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1.key"; }

# root NAME SUBJECT
root() {
    key "$1"
    openssl req -x509 -new -key "$1.key" -subj "/CN=$2" -days 1 -out "$1.pem" \
        -addext 'keyUsage=critical,keyCertSign'
}

# sign NAME ISSUER SUBJECT EXTENSIONS [DAYS]
sign() {
    [ -e "$1.key" ] || key "$1"
    openssl req -new -key "$1.key" -subj "/CN=$3" -out "$1.request"
    printf '%b' "$4" >"$1.extensions"
    openssl x509 -req -in "$1.request" -CA "$2.pem" -CAkey "$2.key" -CAcreateserial -sha256 \
        -days "${5:-1}" -extfile "$1.extensions" -out "$1.pem" 2>/dev/null
}

for_servers='subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth\n'
for_clients='extendedKeyUsage=clientAuth\n'

root ca 'root of the tests'
sign between ca 'between' 'basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\n'
sign leaf between localhost "$for_servers"
cat leaf.pem between.pem >server.pem
cat between.pem leaf.pem >unsorted.pem
mv leaf.key server.key
openssl pkey -in server.key -aes128 -passout pass:secret -out locked.key
openssl genpkey -quiet -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out rsa.key
sign rsa ca localhost "$for_servers"
sign late_server ca localhost "$for_servers" -1

root client_ca 'clients of the tests'
root other_ca 'clients of the tests'
sign client client_ca client "$for_clients"
sign wrong other_ca client "$for_clients"
sign purpose client_ca client 'extendedKeyUsage=serverAuth\n'
sign late client_ca client "$for_clients" -1
