#!/bin/sh
# Makes a virtual environment: venv.sh <folder> [first|newest|3.11]
#
# Of which Python, see pythons.sh. Debian ships Python without the venv module: where apt-get may be used it is
# installed, and otherwise the message says what to type.
set -eu
folder=$1
here=$(dirname "$0")

python=$(sh "$here/pythons.sh" "${2:-first}")
if ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    sh "$here/system.sh" "the venv module of $python" "python$version-venv"
fi
"$python" -m venv "$folder"
"$folder/bin/python" -m pip --version >/dev/null
