#!/bin/sh
# Makes the certificates of the tests anew, for a hundred years: an authority, and two certificates by it, each with it behind.
# The key of the authority is thrown away.
set -eu
cd "$(dirname "$0")"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 36500 -subj "/CN=Sarabande test authority" \
    -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign,cRLSign" -keyout ca.key -out authority.pem
for name in first second; do
    names="DNS:$name.example"
    [ "$name" != first ] || names="$names,IP:127.0.0.1"
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$name" -keyout "$name.key" -out "$name.csr"
    printf 'subjectAltName=%s\nbasicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth,clientAuth\n' "$names" > "$name.ext"
    openssl x509 -req -in "$name.csr" -CA authority.pem -CAkey ca.key -CAcreateserial -days 36500 -extfile "$name.ext" -out "$name.pem"
    cat authority.pem >> "$name.pem"
    rm -f "$name.csr" "$name.ext"
done
rm -f ca.key authority.srl
