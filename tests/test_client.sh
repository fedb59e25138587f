#!/bin/sh
# Compiles client.cpp with the public headers and the shared library alone, and runs it.
#   test_client.sh SOURCE_DIR LIBRARY [CXX_COMPILER]
export LC_ALL=C # a decimal point in every locale
root=$1
library=$2
cxx=${3:-}
if [ -z "$cxx" ] || ! echo '#include <CL/opencl.hpp>' | $cxx -std=c++17 -x c++ -E - >/dev/null 2>&1; then
    echo "no C++ compiler, or CL/opencl.hpp (opencl-clhpp-headers) is not installed: not checked"
    exit 77
fi
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
$cxx -std=c++17 -Wall -Wextra -Wpedantic -Werror -I"$root/include" "$root/tests/client.cpp" \
    -o "$folder/client" "$library" -lOpenCL -pthread -Wl,-rpath,"$(dirname "$library")" || exit 1
"$folder/client"
