#!/usr/bin/env bash
# Makes what compose.yaml asks for: passwords in .env, a key and a token in secrets/. Run it once;
# what is there already is kept.
set -euo pipefail
cd "${1:-"$(dirname "${BASH_SOURCE[0]}")"}"
umask 077

random() { head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n'; }

touch .env
for name in POSTGRES_PASSWORD DEPLOY_PASSWORD SERVICE_PASSWORD READER_PASSWORD GRAFANA_PASSWORD; do
  grep -q "^$name=" .env || echo "$name=$(random)" >>.env
done

# Containers read the files as other users, so they are readable; the folder is closed instead.
mkdir -p secrets
for name in id_key reader_token; do
  [ -s "secrets/$name" ] || random >"secrets/$name"
  chmod 0644 "secrets/$name"
done
echo "passwords are in $PWD/.env, the key and the token in $PWD/secrets"
