#!/usr/bin/env bash
# Runs the tests on every OpenCL driver that is installed, one driver at a time, and on Oclgrind.
#
#     tests/long/other_devices.sh [BUILD_DIR [CTEST_ARGUMENT...]]
#
# BUILD_DIR (default build/other) is configured and built, optimised and without sanitizers. Drivers are
# the .icd files of /etc/OpenCL/vendors and those that CLPRUNE_TEST_ICDS names, separated by spaces:
# Intel's CPU runtime from pip, for one, has its file in a folder of its own. Mesa's rusticl is run on
# llvmpipe, which takes seconds for a training step; its lists of shapes are short (CLPRUNE_TEST_SMALL). A
# driver without a device, such as Mesa's Clover on a machine with a CPU only, is named and passed over.
# Further arguments go to ctest: -R prune. Environment:
#
#     CLPRUNE_TEST_SKIP_ICD=pocl   drivers that are left out: a part of the file's name
#
# Prints a line for each driver: version, tests passed, failed and skipped. Exits with 1 if a test
# failed, 77 if no driver has a device.
set -euo pipefail
export LC_ALL=C # a decimal point in every locale
unset CDPATH # with it, cd prints, and may go elsewhere
cd "$(dirname "$0")/../.."
build=${1:-build/other}
[ $# -eq 0 ] || shift
case $build in /*) ;; *) build=$PWD/$build ;; esac
unset OCL_ICD_VENDORS OCL_ICD_FILENAMES CLPRUNE_DEVICE

cmake --preset release -B "$build" -DCLPRUNE_TESTS=ON -DCLPRUNE_TEST_PATIENCE=8 >/dev/null
cmake --build "$build" --parallel "$(nproc)" >"$build/build.log" || { tail -20 "$build/build.log"; exit 1; }

failed=0 ran=0
shopt -s nullglob
for icd in /etc/OpenCL/vendors/*.icd ${CLPRUNE_TEST_ICDS:-}; do
    name=$(basename "$icd" .icd)
    [ -f "$icd" ] || { echo "$name: no file $icd"; failed=1; continue; }
    if [ -n "${CLPRUNE_TEST_SKIP_ICD:-}" ] && [[ $name == *"$CLPRUNE_TEST_SKIP_ICD"* ]]; then
        echo "$name: left out"
        continue
    fi
    export OCL_ICD_VENDORS=$icd RUSTICL_ENABLE=llvmpipe
    small=${CLPRUNE_TEST_SMALL:-}
    case $name in *rusticl*) small=1 ;; esac
    timeout 60 "$build/bin/clprune-info" >/dev/null 2>&1 || { echo "$name: no device"; continue; }
    device=$(timeout 60 "$build/bin/resmlp-train" --list-devices | head -1)
    ran=$((ran + 1))
    # Kernels that another driver compiled are of no use, and its cached files may be refused.
    export XDG_CACHE_HOME=$build/cache-$name
    mkdir -p "$XDG_CACHE_HOME"
    CLPRUNE_TEST_SMALL=$small ctest --test-dir "$build" -LE 'slow|long|fuzz' --parallel "$(nproc)" --timeout 9600 "$@" \
        >"$build/$name.log" 2>&1 || failed=1
    awk -v name="$name" -v device="$device" '
        /^ *[0-9]+\/[0-9]+ Test/ { all++ }
        / Passed +[0-9]/ { passed++ }
        /\*\*\*Skipped/ { skipped++ }
        /^The following tests FAILED/ { list = 1; next }
        list && /^[ \t]*[0-9]+ - / { print "    " $0 }
        END { printf "%s: %d tests, %d passed, %d skipped: %s\n", name, all, passed, skipped, device }
    ' "$build/$name.log"
done
unset OCL_ICD_VENDORS RUSTICL_ENABLE

if [ $# -eq 0 ]; then
    code=0
    tests/long/oclgrind.sh "$build" >"$build/oclgrind.log" 2>&1 || code=$?
    case $code in
    0) echo "oclgrind: $(grep -c '^clean' "$build/oclgrind.log") runs, nothing found" ;;
    77) echo "oclgrind: not installed" ;;
    *) failed=1 && echo "oclgrind:" && grep -v '^clean' "$build/oclgrind.log" | head -100 ;;
    esac
fi
[ $ran -gt 0 ] || exit 77
exit $failed
