#!/bin/sh
# The public headers beside OpenCL's, in any order and for any target version.
#   test_headers.sh SOURCE_DIR C_COMPILER [CXX_COMPILER]
# Each case is a small program made of includes, compiled as C11, C++11 and C++17 with all warnings as
# errors. OpenCL's own headers are system headers, so what they say of themselves is no failure.
# CL/opencl.hpp (Debian: opencl-clhpp-headers) is left out where it is not installed.
export LC_ALL=C # a decimal point in every locale
root=$1
cc=${2:-cc}
cxx=${3:-}
cd "$root" || exit 2
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
warnings="-Wall -Wextra -Wpedantic -Werror"
failures=0
cases=0

# compiles NAME: $folder/case.c as C11 and, where there is a C++ compiler, as C++.
compiles() {
    cases=$((cases + 1))
    if ! $cc -std=c11 $warnings -Iinclude -fsyntax-only "$folder/case.c" >"$folder/told" 2>&1; then
        echo "FAILED as C11: $1"
        cat "$folder/case.c" "$folder/told"
        failures=$((failures + 1))
    fi
    [ -n "$cxx" ] || return
    if ! $cxx -std=c++11 $warnings -Iinclude -x c++ -fsyntax-only "$folder/case.c" \
        >"$folder/told" 2>&1; then
        echo "FAILED as C++11: $1"
        cat "$folder/case.c" "$folder/told"
        failures=$((failures + 1))
    fi
}

# compiles_hpp NAME: $folder/case.c as C++17, for cases with CL/opencl.hpp.
compiles_hpp() {
    cases=$((cases + 1))
    if ! $cxx -std=c++17 $warnings -Iinclude -x c++ -fsyntax-only "$folder/case.c" \
        >"$folder/told" 2>&1; then
        echo "FAILED as C++17: $1"
        cat "$folder/case.c" "$folder/told"
        failures=$((failures + 1))
    fi
}

# What a program does with both: handles of one header go to functions of the other, and whatever
# version the program asked for is still the one that it asked for.
use() {
    cat <<'CODE'
static cl_mem both(clprune_context *context, cl_event event)
{
    cl_int code = 0;
    cl_mem buffer = clCreateBuffer(clprune_context_cl(context), CL_MEM_READ_WRITE, 4, 0, &code);
    clReleaseEvent(event);
    return code == CL_SUCCESS ? clprune_mat_of(buffer, 1, 1).buffer : 0;
}
static cl_mem allocate(void *user, cl_context context, size_t bytes, cl_int *error)
{
    (void)user;
    return clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, 0, error);
}
cl_mem use_both(clprune_context *context, cl_event event, clprune_allocator *allocator,
    clprune_device_info *info);
cl_mem use_both(clprune_context *context, cl_event event, clprune_allocator *allocator,
    clprune_device_info *info)
{
    cl_device_type type = CL_DEVICE_TYPE_CPU;
    info->type = type;
    allocator->allocate = allocate;
    return both(context, event);
}
CODE
}

# Numbers of enumerators are part of the ABI, so each is written out.
unnumbered=$(awk '/^typedef enum/ { inside = 1 } /^ *}/ { inside = 0 }
    inside && /^ *CLPRUNE_[A-Z0-9_]+ *[,\/]|^ *CLPRUNE_[A-Z0-9_]+ *$/ { print FILENAME ": " $1 }
    inside && /\{ *CLPRUNE_[A-Z0-9_]+ *,/ { print FILENAME ": " $0 }' include/clprune/*.h)
if [ -n "$unnumbered" ]; then
    echo "FAILED: enumerators without a number: $unnumbered"
    failures=$((failures + 1))
fi

versions="100 110 120 200 210 220 300"

# No macro of OpenCL is set by clprune's headers, in the preprocessor's own words.
echo '#include "clprune/clprune.h"' >"$folder/case.c"
if $cc -std=c11 -Iinclude -dM -E "$folder/case.c" | grep -E '#define CL_'; then
    echo "FAILED: clprune.h defines macros of OpenCL"
    failures=$((failures + 1))
fi

for version in unset $versions; do
    set_version="#define CL_TARGET_OPENCL_VERSION $version"
    [ $version != unset ] || set_version=
    # The library's headers first, then the program's choice of a version and OpenCL's header.
    {
        printf '#include "clprune/clprune.h"\n%s\n#include <CL/cl.h>\n' "$set_version"
        use
    } >"$folder/case.c"
    compiles "clprune, version $version, cl.h"
    { # The other way about.
        printf '%s\n#include <CL/cl.h>\n#include "clprune/clprune.h"\n' "$set_version"
        use
    } >"$folder/case.c"
    compiles "version $version, cl.h, clprune"
done

# All headers in seven shuffled orders with OpenCL's somewhere among them. That each stands alone is
# for test_layers.sh.
seed=1
while [ $seed -le 7 ]; do
    version=$(echo "$versions" | cut -d' ' -f$((seed % 7 + 1)))
    {
        for header in include/clprune/*.h; do
            printf '#include "clprune/%s"\n' "${header##*/}"
        done
        printf '#include <CL/cl.h>\n'
    } | awk -v seed=$seed 'BEGIN { srand(seed) } { printf "%.9f %s\n", rand(), $0 }' | sort |
        cut -d' ' -f2- |
        sed "s|#include <CL/cl.h>|#define CL_TARGET_OPENCL_VERSION $version\n&|" >"$folder/case.c"
    use >>"$folder/case.c"
    compiles "order $seed, version $version"
    seed=$((seed + 1))
done

if [ -z "$cxx" ]; then
    echo "no C++ compiler: C++ is not checked"
elif ! echo '#include <CL/opencl.hpp>' | $cxx -std=c++17 -x c++ -E - >/dev/null 2>&1; then
    echo "CL/opencl.hpp is not installed (opencl-clhpp-headers): not checked"
else
    for version in 120 200 300; do
        hpp="#define CL_HPP_TARGET_OPENCL_VERSION $version
#define CL_HPP_MINIMUM_OPENCL_VERSION $version
#include <CL/opencl.hpp>"
        queue='clprune_status open(const cl::CommandQueue &queue, clprune_context **context);
clprune_status open(const cl::CommandQueue &queue, clprune_context **context)
{
    return clprune_context_create(queue(), nullptr, context);
}'
        { printf '#include "clprune/clprune.h"\n%s\n%s\n' "$hpp" "$queue"; use; } >"$folder/case.c"
        compiles_hpp "clprune, opencl.hpp $version"
        { printf '%s\n#include "clprune/clprune.h"\n%s\n' "$hpp" "$queue"; use; } >"$folder/case.c"
        compiles_hpp "opencl.hpp $version, clprune"
    done
fi

echo "$cases cases, $failures failures"
[ $failures -eq 0 ]
