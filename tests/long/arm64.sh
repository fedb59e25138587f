#!/usr/bin/env bash
# Builds everything for 64-bit ARM with Debian's cross compiler, and runs some of it under qemu on ARM's PoCL.
#
#     tests/long/arm64.sh
#
# Unpacks Debian's ARM packages into a temporary folder, 0.5 GB, from the mirror that apt has on this machine, or
# deb.debian.org; nothing is installed here. Warnings are errors. clprune-info takes the device, which the self-check precedes,
# and some tests pass. The linker that PoCL starts runs under qemu, too, through a program in its place: the kernel of this
# machine need not know ARM's programs.
# Exits with 77 without compiler, qemu, network, root or mounts.
set -euo pipefail
export LC_ALL=C # a decimal point in every locale
unset CDPATH # with it, cd prints, and may go elsewhere
cd "$(dirname "$0")/../.."
root=$PWD

skip() {
    echo "arm64: $*" >&2
    exit 77
}

fail() {
    echo "arm64: $*" >&2
    exit 1
}

command -v aarch64-linux-gnu-gcc >/dev/null || skip "no cross compiler (Debian: gcc-aarch64-linux-gnu)"
emulator=$(command -v qemu-aarch64-static) || skip "no static qemu (Debian: qemu-user-static)"
[ "$(id -u)" = 0 ] || skip "only root can run programs in a folder; run it as root"
inside=(unshare --mount --pid --fork --kill-child)
"${inside[@]}" true 2>/dev/null || skip "this machine lets root mount nothing; a container needs the right to (CAP_SYS_ADMIN)"
folder=$(mktemp -d "${TMPDIR:-/var/tmp}/clprune-arm64.XXXXXX")
trap 'rm -rf --one-file-system "$folder"' EXIT
system=$folder/system

# Packages by lists of our own, for a machine on which nothing is installed.
mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial" "$system"/{tmp,proc,dev,sys,clprune}
: >"$folder/status"
mirror=$(apt-get indextargets --no-release-info --format '$(REPO_URI)' 2>/dev/null | grep -E '/debian/*$' | sort -u | head -n 1 || true)
release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
echo "deb ${mirror:-http://deb.debian.org/debian} $release main" >"$folder/sources.list"
apt=(apt-get -q -y -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root
    -o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$folder/lists"
    -o Dir::State::status="$folder/status" -o Dir::Cache="$folder/cache")
{ "${apt[@]}" update && "${apt[@]}" install --no-install-recommends --download-only \
    pocl-opencl-icd ocl-icd-opencl-dev libcmocka-dev libc6-dev libgcc-s1; } >"$folder/log" 2>&1 || {
    tail -n 3 "$folder/log" >&2
    skip "no packages of ARM for $release; check the network"
}
for package in "$folder"/cache/archives/*.deb; do
    dpkg-deb -x "$package" "$system"
done

cmake -S "$root" -B "$folder/build" -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
    -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc -DCMAKE_SYSROOT="$system" -DCMAKE_FIND_ROOT_PATH_MODE_PROGRAM=NEVER \
    -DCLPRUNE_WERROR=ON -DCLPRUNE_CLBLAST=OFF -DCLPRUNE_MPI=OFF -DCLPRUNE_TESTS=ON >"$folder/log" 2>&1 &&
    cmake --build "$folder/build" --parallel "$(nproc)" >"$folder/log" 2>&1 || {
    grep -E 'error|undefined|No rule' "$folder/log" | head -n 20 >&2
    fail "building failed"
}
echo "arm64: built with $(aarch64-linux-gnu-gcc --version | head -n 1)"

cp "$emulator" "$system/qemu"
cp -r "$folder/build/bin" "$folder/build/lib" "$system/clprune"
cat >"$folder/ld.c" <<'END'
#include <unistd.h>
int main(int argc, char **argv)
{
    char *all[4096] = {"/qemu", "/usr/bin/aarch64-linux-gnu-ld.bfd"};
    for (int i = 1; i < argc && i < 4094; i++)
        all[i + 1] = argv[i];
    return execv(all[0], all);
}
END
rm -f "$system"/usr/bin/ld "$system"/usr/bin/aarch64-linux-gnu-ld
gcc -static -o "$system/usr/bin/ld" "$folder/ld.c"
cp "$system/usr/bin/ld" "$system/usr/bin/aarch64-linux-gnu-ld"
cat >"$folder/enter.sh" <<'END'
cd "$1" && shift
mount -t proc proc proc && mount --rbind /dev dev && mount --make-rslave dev && mount --rbind /sys sys && mount --make-rslave sys
exec env -i PATH=/usr/bin HOME=/tmp POCL_CACHE_DIR=/tmp CLPRUNE_CACHE_DIR=off CLPRUNE_TEST_SMALL=1 CLPRUNE_DEBUG=forget=poison \
    LD_LIBRARY_PATH=/clprune/lib chroot . /qemu "$@"
END
run() {
    timeout 900 "${inside[@]}" sh "$folder/enter.sh" "$system" "$@"
}
run /clprune/bin/clprune-info >"$folder/info" || fail "clprune-info: $(cat "$folder/info")"
echo "arm64: $(sed -n 's/^ *version *//p' "$folder/info"), $(sed -n 's/^kernels *//p' "$folder/info")"
for name in sha256 system status; do
    run /clprune/bin/test_$name >"$folder/log" 2>&1 || {
        grep -E 'ERROR|FAILED' "$folder/log" | head -n 20 >&2
        fail "test_$name failed"
    }
    echo "arm64: test_$name: $(grep -c '       OK ' "$folder/log") passed"
done
