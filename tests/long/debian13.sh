#!/usr/bin/env bash
# Runs the tests on the OpenCL drivers of Debian 13, on any machine: PoCL 6 with CLBlast 1.6.3, and Mesa's rusticl on
# llvmpipe.
#
#     tests/long/debian13.sh [CTEST_ARGUMENT...]
#
# Makes a bare Debian 13 in a temporary folder, copies the sources there (what is committed; without git, the files),
# installs what tools/install-packages.sh does and mesa-opencl-icd, and runs tests/long/other_devices.sh in it: on two cores 10
# minutes for PoCL and an hour for rusticl, which takes seconds for a training step, and 2 GB. Arguments go to
# ctest: -R prune. Processes and mounts inside have namespaces of their own, which end with this script; the folder is
# removed, also after a signal. Environment:
#
#     CLPRUNE_TEST_ROOT=FOLDER     makes the system there and keeps it, with kernels that were compiled, for the next run
#     TMPDIR                       place of the temporary folder, with devices and programs allowed: /var/tmp by default
#
# Packages are of the mirror that apt has on this machine, or of deb.debian.org.
# Prints a line for each driver: version, tests passed, failed and skipped. Exits with 1 if a test failed or a driver
# is missing, 77 without root, debootstrap, mounts or network.
set -euo pipefail
export LC_ALL=C # a decimal point in every locale
unset CDPATH # with it, cd prints, and may go elsewhere
cd "$(dirname "$0")/../.."

skip() {
    echo "debian13: $*" >&2
    exit 77
}

[ "$(id -u)" = 0 ] || skip "only root can make a system in a folder; run it as root"
command -v debootstrap >/dev/null || skip "debootstrap is not installed"
own=(setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child --mount-proc)
"${own[@]}" true 2>/dev/null || skip "this machine lets root mount nothing; a container needs the right to (CAP_SYS_ADMIN)"

# Both forms of apt's sources; only http, which needs no certificates of this machine.
mirrors=$(apt-get indextargets --no-release-info --format '$(REPO_URI)' 2>/dev/null | grep -E '^http://.*/debian/*$' | sort -u || true)
mirror=
for address in $mirrors http://deb.debian.org/debian; do
    wget -q --timeout=20 --tries=2 -O /dev/null "${address%/}/dists/trixie/Release" && mirror=$address && break
done
[ -n "$mirror" ] || skip "no mirror has Debian 13:" $mirrors "http://deb.debian.org/debian; check the network"

root=${CLPRUNE_TEST_ROOT:-}
if [ -n "$root" ]; then
    mkdir -p "$root"
    root=$(realpath "$root")
    version=$(cat "$root/etc/debian_version" 2>/dev/null || true)
    if [ -n "$(ls -A "$root")" ] && [[ $version != 13* ]]; then
        echo "debian13: $root has files, but not those of Debian 13; name an empty folder" >&2
        exit 1
    fi
    made=$root.new # a system that is kept is whole
    rm -rf --one-file-system "$made"
else
    made=$(mktemp -d "${TMPDIR:-/var/tmp}/clprune-debian13.XXXXXX")
    root=$made/root version=
fi

job=
# What runs inside ends with the first process of its namespace, which dies with its parent.
finish() {
    [ -z "$job" ] || kill -KILL "$job" 2>/dev/null || true
    for _ in 1 2 3 4 5; do
        rm -rf --one-file-system "$made" 2>/dev/null && break
        sleep 1
    done
}
trap finish EXIT
trap 'exit 1' INT TERM HUP

# inside COMMAND...: in namespaces of its own, and in the background, because a trap waits for a command in front.
set -m
inside() {
    local code=0
    "${own[@]}" "$@" </dev/null &
    job=$!
    wait "$job" || code=$?
    job=
    return $code
}

if [ -z "$version" ]; then
    mkdir -p "$made"
    inside debootstrap --variant=minbase --include=ca-certificates trixie "$made/system" "$mirror" >"$made/log" 2>&1 || {
        tail -n 5 "$made/log" >&2
        echo "debian13: debootstrap failed with $mirror" >&2
        exit 1
    }
    rm -rf "$root"
    mv "$made/system" "$root"
fi
cp -L /etc/resolv.conf "$root/etc/resolv.conf"

# The build of an earlier run stays, for its kernels.
sources=$root/root/clprune
rm -rf "$root/root/new"
git clone -q --no-hardlinks . "$root/root/new" 2>/dev/null || {
    rm -rf "$root/root/new"
    mkdir "$root/root/new"
    tar --exclude=./build --exclude=./demo -cf - . | tar -C "$root/root/new" --no-same-owner -xf -
}
[ ! -d "$sources/build" ] || mv "$sources/build" "$root/root/new/build"
rm -rf "$sources"
mv "$root/root/new" "$sources"

# PoCL asks /sys for the cores and the memory; /dev/shm is for semaphores of libraries.
inside env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root ${http_proxy:+http_proxy="$http_proxy"} \
    chroot "$root" bash -c '
        set -uo pipefail
        mount -t proc proc /proc && mount -t sysfs -o ro sysfs /sys && mount -t devpts devpts /dev/pts &&
            mount -t tmpfs -o mode=1777 tmpfs /dev/shm && cd /root/clprune &&
            tools/install-packages.sh mesa-opencl-icd >&2 || exit 1
        mkdir -p build
        code=0
        tests/long/other_devices.sh build/other "$@" | tee build/lines || code=1
        for driver in pocl rusticl; do
            grep -q "^$driver: [1-9][0-9]* tests, [1-9]" build/lines || {
                echo "debian13: nothing passed on $driver" >&2
                code=1
            }
        done
        exit $code
    ' bash "$@"
