#!/bin/sh
# Makes the virtual environment: venv.sh <folder>
#
# Finds a Python of version 3.11 or newer ($PYTHON, if set, is taken as it is). Debian ships Python without the venv
# module: where apt-get may be used it is installed, and otherwise the message says what to type.
set -eu
folder=$1
here=$(dirname "$0")

new_enough() { command -v "$1" >/dev/null 2>&1 && "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    for name in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11 python}; do
        if new_enough "$name"; then echo "$name"; return; fi
    done
    found=$(python3 --version 2>/dev/null || echo "no python3")
    echo "meshlab needs Python 3.11 or newer; found: ${PYTHON:-$found}." >&2
    echo "Install one (Debian: apt-get install python3 python3-venv; macOS: brew install python), or name it:" >&2
    echo "    make $(basename "${MAKECMDGOALS:-lab}") PYTHON=/path/to/python3.12" >&2
    exit 1
}

python=$(find_python)
if ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    sh "$here/system.sh" "the venv module of $python" "python$version-venv"
fi
"$python" -m venv "$folder"
"$folder/bin/python" -m pip --version >/dev/null
