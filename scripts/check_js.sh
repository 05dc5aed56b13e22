#!/bin/sh
# Checks the sources of the page's code, where Node.js is there to do it: check_js.sh <folder with package.json>
#
# Types, lint and format; and that the committed bundle in ../static is what these sources make.
set -eu
if ! command -v npm >/dev/null 2>&1; then
    echo "Node.js is not installed: the JavaScript sources were not checked (nothing else needs it)."
    exit 0
fi
cd "$1"
if [ ! -f node_modules/.package-lock.json ] || [ package-lock.json -nt node_modules/.package-lock.json ]; then
    npm ci --no-audit --no-fund --loglevel=error
    touch node_modules/.package-lock.json
fi
npm run --silent check

committed=$(mktemp -d)
trap 'rm -rf "$committed"' EXIT
cp -R ../static/. "$committed"
npm run --silent build -- --log-level=warning
if ! diff -rq "$committed" ../static >&2; then
    echo "The bundle in meshlab/widgets/static was not what its sources make. It has been rebuilt: commit it." >&2
    exit 1
fi
