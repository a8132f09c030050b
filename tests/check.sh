#!/usr/bin/env bash
# Style, types, layers, unit tests but the long ones (`-m "not cluster"`: these too). Every step prints its name; the first that fails ends it.
set -euo pipefail
step() { echo "==> $1"; shift; "$@"; }
UNIT=("$PY" -m pytest -q -m "not cluster and not long")
# compiled once, outside the tree: more than half of what it takes to find the tests
unset PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX="${XDG_CACHE_HOME:-$HOME/.cache}/et-operator/bytecode"
# half of the tests, beside all that follows and shown after it: of two processes each finds its own tests, of two workers each finds all
HALF=(tests/unit/planning tests/unit/scheduler tests/unit/et tests/unit/launcher/ranks)
said=$(mktemp)
"${UNIT[@]}" "${HALF[@]}" "$@" >"$said" 2>&1 &
beside=$!
trap 'kill "$beside" 2>/dev/null || true; rm -f "$said"' EXIT
step "ruff" "$PY" -m ruff check .
step "ruff format" "$PY" -m ruff format --check .
step "mypy" "$PY" -m mypy
step "import-linter" "${PY%python}lint-imports" --no-logo
step "vermin (3.7 for what runs in user containers)" "${PY%python}vermin" --quiet --target=3.7- --violations \
    --no-tips et_contract/{frames,hosts,names,options,paths,scripts,starters,texts,wrappers}.py launcher/boot.py launcher/protocol launcher/agent launcher/shim launcher/ssh launcher/ranks hostdiscovery
step "changelog" "$PY" -m towncrier build --draft >/dev/null
step "unit tests, without those of planning, scheduler, et and ranks" "${UNIT[@]}" tests/unit tests/devcluster tests/contract "${HALF[@]/#/--ignore=}" "$@"
echo "==> unit tests of planning, scheduler, et and ranks"
wait "$beside" && passed=true || passed=false
cat "$said"
$passed
