#!/usr/bin/env bash
# Installs the Debian packages that building, testing and the demo need; does nothing if all are
# installed. Uses sudo unless it runs as root. Arguments are further packages. Where there is no dpkg-query it
# lists them and succeeds: the build then says what is missing.
export LC_ALL=C # a decimal point in every locale
set -euo pipefail

packages=(
    gcc libc6-dev make cmake pkg-config
    ocl-icd-opencl-dev opencl-c-headers opencl-clhpp-headers libclblast-dev pocl-opencl-icd
    libcmocka-dev
    libjansson-dev libpcre2-dev libturbojpeg0-dev libpng-dev
    libopenmpi-dev openmpi-bin
    gnuplot-nox
    ca-certificates
    "$@"
)

die() {
    echo "install-packages: $*" >&2
    exit 1
}

command -v dpkg-query >/dev/null || {
    echo "install-packages: no dpkg-query here, so nothing was checked; install what is missing: ${packages[*]}" >&2
    exit 0
}
missing=()
for package in "${packages[@]}"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' ||
        missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

command -v apt-get >/dev/null || die "no apt-get here; install these yourself: ${missing[*]}"
by_hand="run as root, then try again: apt-get install ${missing[*]}"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "not root, and no sudo; $by_hand"
    sudo true || die "sudo is refused; $by_hand"
    as_root=(sudo)
fi
echo "install-packages: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -q >/dev/null || die "apt-get update failed; check the network and /etc/apt"
"${as_root[@]}" apt-get install -y -q --no-install-recommends "${missing[@]}" >/dev/null ||
    die "apt-get install failed; $by_hand"
