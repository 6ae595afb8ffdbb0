#!/bin/sh
# Makes a certificate of the brokers, signed by an authority that the first run makes, and writes both into the Secret
# shop-secure-tls with cert-manager's keys: `sh certificate.sh FOLDER`. Run it again to renew the certificate.
set -eu
cd "$1"
if [ ! -e ca.key ]; then
    openssl req -x509 -newkey rsa:2048 -nodes -days 365 -subj /CN=shop-ca \
        -addext keyUsage=critical,keyCertSign,cRLSign -keyout ca.key -out ca.crt
fi
openssl req -x509 -CA ca.crt -CAkey ca.key -newkey rsa:2048 -nodes -days 90 -subj /CN=shop \
    -addext basicConstraints=critical,CA:FALSE \
    -addext 'subjectAltName=DNS:shop-secure.secure.svc,DNS:shop-tokens.secure.svc,DNS:*.shop-brokers.secure.svc' \
    -keyout tls.key -out tls.crt
kubectl create secret generic shop-secure-tls --type=kubernetes.io/tls --from-file=tls.crt --from-file=tls.key \
    --from-file=ca.crt --dry-run=client -o yaml | kubectl apply --server-side -f -
