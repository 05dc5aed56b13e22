#!/bin/sh
# Runs a command beside busy processes: busy.sh <how many> <command>...
#
# What waits for time to pass instead of for what it needs is found so. The busy processes end with the command.
set -eu
count=$1
shift
busy=""
for _ in $(seq "$count"); do
    sh -c 'while :; do :; done' &
    busy="$busy $!"
done
# Not before: what has just been started would take over the trap, and not end.
trap 'kill $busy 2>/dev/null || true' EXIT INT TERM
"$@"
