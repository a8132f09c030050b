#!/usr/bin/env bash
# Make the Python environment at $1 from requirements.lock, unless it is there already.
set -euo pipefail
venv=$1
[ -e "$venv/ready" ] && [ "$venv/ready" -nt requirements.lock ] && exit 0
[ -e "$venv/ready" ] && touch "$venv/ready" && exit 0
echo "==> installing the locked Python packages into $venv (about a minute)"
rm -rf "$venv"
python3 -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --require-hashes -r requirements.lock
touch "$venv/ready"
