#!/bin/sh
# Installs what checks and builds the page's code, where npm is there: modules.sh <folder with package.json>
set -eu
cd "$1"
if command -v npm >/dev/null 2>&1; then
    if [ ! -f node_modules/.package-lock.json ] || [ package-lock.json -nt node_modules/.package-lock.json ]; then
        npm ci --no-audit --no-fund --loglevel=error
        touch node_modules/.package-lock.json
    fi
fi
