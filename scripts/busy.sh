#!/bin/sh
# Runs a command beside busy processes: busy.sh <how many> <command>...
#
# What waits for time to pass instead of for what it needs is found so. The busy processes end with the command.
set -eu
count=$1
shift
busy=""
trap 'kill $busy 2>/dev/null || true' EXIT INT TERM
for _ in $(seq "$count"); do
    # Programs of their own: what this shell traps would keep its own parts from being ended.
    sh -c 'while :; do :; done' &
    busy="$busy $!"
done
"$@"
