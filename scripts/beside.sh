#!/bin/sh
# Runs one command beside another: beside.sh "<the first, as one text>" <the second>...
#
# What the second writes is seen at once, what the first writes when both have ended. Both must end well.
set -u
first=$1
shift
log=$(mktemp)
sh -c "$first" >"$log" 2>&1 &
beside=$!
trap 'kill $beside 2>/dev/null; rm -f "$log"' EXIT INT TERM
"$@"
second=$?
wait $beside
checked=$?
cat "$log"
[ "$checked" -eq 0 ] || echo "\`$first\` failed: see above." >&2
exit $((second ? second : checked))
