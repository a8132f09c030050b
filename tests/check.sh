#!/usr/bin/env bash
# Style, types, layers, unit tests. Every step prints its name; the first that fails ends it.
set -euo pipefail
step() { echo "==> $1"; shift; "$@"; }
export PYTHONDONTWRITEBYTECODE=1
step "ruff" "$PY" -m ruff check .
step "ruff format" "$PY" -m ruff format --check .
step "mypy" "$PY" -m mypy
step "import-linter" "${PY%python}lint-imports" --no-logo
step "vermin (3.7 for what runs in user containers)" "${PY%python}vermin" --quiet --target=3.7- --violations \
    --no-tips et_contract/{frames,hosts,names,options,paths,scripts,starters,texts}.py launcher/boot.py launcher/protocol launcher/agent launcher/shim launcher/ssh hostdiscovery
step "changelog" "$PY" -m towncrier build --draft >/dev/null
step "unit tests" "$PY" -m pytest -q -n 2 -m "not cluster" tests/unit tests/devcluster tests/simulation tests/contract tests/specs "$@"
