#!/usr/bin/env bash
# Installs the Debian packages that building, testing and the demo need; asks for nothing when all
# are there. Uses sudo where it is not run as root.
export LC_ALL=C # a decimal point in every locale
set -euo pipefail

packages=(
    gcc libc6-dev make cmake pkg-config
    ocl-icd-opencl-dev opencl-c-headers opencl-clhpp-headers libclblast-dev pocl-opencl-icd
    libcmocka-dev
    gnuplot-nox
    ca-certificates
)

missing=()
for package in "${packages[@]}"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' ||
        missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null; then
    echo "install-packages: no apt-get here; install these yourself: ${missing[*]}" >&2
    exit 1
fi
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
echo "install-packages: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -q >/dev/null
"${as_root[@]}" apt-get install -y -q --no-install-recommends "${missing[@]}" >/dev/null
