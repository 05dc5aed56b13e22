#!/bin/sh
# Sees to it that there is a Chromium or Chrome for the browser tests: browser.sh <python of the environment>
#
# The tests themselves say which programs they look for (tests/browser/chrome.py). MESHLAB_NO_BROWSER=1 goes without.
set -eu
here=$(dirname "$0")
if [ -n "${MESHLAB_NO_BROWSER:-}" ]; then
    echo "MESHLAB_NO_BROWSER is set: the browser tests will be skipped."
    exit 0
fi
"$1" "$here/../tests/browser/chrome.py" >/dev/null 2>&1 && exit 0
if [ "$(uname)" = Darwin ]; then
    echo "The browser tests need Chrome or Chromium. Install one (brew install --cask google-chrome), point" >&2
    echo "MESHLAB_CHROMIUM at its executable, or go without: MESHLAB_NO_BROWSER=1 make test" >&2
    exit 1
fi
sh "$here/system.sh" "Chromium for the browser tests (or go without: MESHLAB_NO_BROWSER=1 make test)" \
    chromium fonts-dejavu-core
