#!/bin/sh
# Finds a Python: pythons.sh first|newest|3.11
#
# Prints the path of one: `first`, the first on PATH that is new enough; `newest`, the newest there is; or one of a
# certain version. $PYTHON, if set, is taken as it is. Looked through are PATH and what pyenv has installed. Each is run
# before it is trusted: a shim of pyenv's stands on PATH for versions that are not active, too, and fails.
set -eu
wanted=$1

# The version of a Python that is new enough and runs, as one number: 311 for 3.11.
number_of() {
    "$1" -c 'import sys; v = sys.version_info; print(v[0] * 100 + v[1]) if v >= (3, 11) else sys.exit(1)' 2>/dev/null
}

candidates() {
    if [ -n "${PYTHON:-}" ]; then echo "$PYTHON"; return; fi
    for name in python3 python3.15 python3.14 python3.13 python3.12 python3.11 python; do
        command -v "$name" || true
    done
    root=${PYENV_ROOT:-$( (pyenv root) 2>/dev/null || echo "$HOME/.pyenv")}
    for found in "$root"/versions/*/bin/python3; do
        if [ -x "$found" ]; then echo "$found"; fi
    done
}

best="" best_number=0
IFS='
'
for python in $(candidates); do
    number=$(number_of "$python") || continue
    case $wanted in
        first) echo "$python"; exit 0 ;;
        newest) if [ "$number" -gt "$best_number" ]; then best=$python best_number=$number; fi ;;
        *) if [ "$number" = "$(echo "$wanted" | tr -d .)" ]; then echo "$python"; exit 0; fi ;;
    esac
done
if [ -n "$best" ]; then echo "$best"; exit 0; fi

case $wanted in first|newest) asked="3.11 or newer" example=3.12 ;; *) asked=$wanted example=$wanted ;; esac
found=$(python3 --version 2>/dev/null || echo "no python3")
echo "meshlab needs Python $asked; found: ${PYTHON:-$found}." >&2
echo "Install one (Debian: apt-get install python3 python3-venv; macOS: brew install python), or name it:" >&2
echo "    make $(basename "${MAKECMDGOALS:-lab}") PYTHON=/path/to/python$example" >&2
exit 1
