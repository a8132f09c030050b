#!/bin/sh
# A scaling's script: it gets the scaling's pods as `name:slots,...`, and the environment of its spec.
echo "$GREETING: $1"
exit "${FAIL_WITH:-0}"
