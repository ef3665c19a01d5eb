#!/bin/sh
# Makes the certificates of these tests anew, for a hundred years: two authorities, and the certificate of an API server by the
# first of them. The keys of the authorities are thrown away.
set -eu
cd "$(dirname "$0")"
for name in ca other-ca; do
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 36500 -subj "/CN=$name of tests" \
        -addext "keyUsage=critical,keyCertSign" -keyout "$name.key" -out "$name.pem"
done
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=API server of tests" -keyout server.key -out server.csr
printf 'subjectAltName=IP:127.0.0.1,DNS:kubernetes.default.svc\nextendedKeyUsage=serverAuth\n' > server.ext
openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 36500 -extfile server.ext -out server.pem
rm -f ca.key other-ca.key server.csr server.ext ca.srl
