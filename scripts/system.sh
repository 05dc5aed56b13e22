#!/bin/sh
# Installs Debian packages where that is allowed, or says what to type: system.sh <what for> <package>...
#
# Allowed means: apt-get is there, and this is root or sudo asks for no password. Nothing is ever installed by
# another way, and no password is ever asked for.
set -eu
what=$1
shift

refuse() {
    echo "Missing: $what. $1" >&2
    exit 1
}

command -v apt-get >/dev/null 2>&1 || refuse "There is no apt-get here; install it with the system's own package manager."
if [ "$(id -u)" = 0 ]; then
    as_root=""
elif sudo -n true 2>/dev/null; then
    as_root="sudo -n"
else
    refuse "Installing it needs root. Type:  sudo apt-get install --no-install-recommends $*"
fi
echo "Installing $* with apt-get ($what)."
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -qq
$as_root apt-get install -y -qq --no-install-recommends "$@"
