#!/bin/sh
# A scaling's script: it is run in the launcher as `sh announce.sh <pod>:<slots>,...`.
echo "${GREETING:-scaling}: $1"
exit "${FAIL_WITH:-0}"
