#!/bin/sh
# Installs the TPU and GPU compilers into a folder of their own: compilers.sh <python> <folder>
#
# Beside JAX they would be tried by JAX at its first use in every process, and log that there is no such device. Here
# only the process that compiles finds them (MESHLAB_COMPILERS, see meshlab/cost/compilers/targets.py). There are none but for
# Linux on x86-64; elsewhere the tests that need them are skipped, and say so.
set -eu
if [ "$(uname -s)-$(uname -m)" != Linux-x86_64 ]; then
    echo "No TPU and GPU compilers for $(uname -s) on $(uname -m): the tests that need them are skipped."
    exit 0
fi
echo "Installing the TPU and GPU compilers into $2 (400 MB, once)."
rm -rf "$2"
"$1" -m pip --disable-pip-version-check install -qq --no-deps --no-compile --target "$2" \
    --requirement "$(dirname "$0")/compilers.txt"
