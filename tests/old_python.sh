#!/usr/bin/env bash
# Run what runs in user containers on the oldest Python (3.7 at least) that this machine has.
set -euo pipefail
find_oldest() {
    for minor in 7 8 9 10 11; do
        for version in $(pyenv versions --bare 2>/dev/null | grep "^3\.$minor\." || true); do
            echo "$(pyenv prefix "$version")/bin/python3" && return
        done
        [ -x "/usr/bin/python3.$minor" ] && echo "/usr/bin/python3.$minor" && return
    done
    command -v python3
}
PYTHON=$(find_oldest)
export PYTHON
version=$("$PYTHON" -c 'import platform; print(platform.python_version())')
echo "the oldest Python of this machine is $version"
started=$(date +%s)
"$PY" -m pytest -q -p no:cacheprovider -n 2 tests/unit/launcher/agent tests/unit/launcher/test_boot.py \
    tests/unit/launcher/shim tests/unit/launcher/ssh tests/unit/launcher/ranks tests/unit/hostdiscovery \
    tests/unit/et_contract/test_frames.py tests/unit/et_contract/test_hosts.py \
    tests/unit/et_contract/test_scripts.py tests/unit/et_contract/test_starters.py tests/unit/et_contract/test_texts.py
[ -z "${POINTS_FILE:-}" ] || printf '{"points": ["old-python"], "test": "agent, boot, shim, hostdiscovery on Python %s", "outcome": "passed", "seconds": %d}\n' \
    "$version" $(($(date +%s) - started)) >>"$POINTS_FILE"
