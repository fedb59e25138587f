# kernel-report.sh for AMD: clang (the newest one that is found; Debian: clang-19) and rocm-device-libs. $CLANG and $ROCM_DEVICE_LIBS (the folder of
# ocml.bc) select other ones than those found. DEVICE: gfx803, gfx90a, gfx1030, ...
# shellcheck shell=bash disable=SC2034,SC2154 # variables of kernel-report.sh
export LC_ALL=C # a decimal point in every locale

# to_gcn SOURCE ASSEMBLY DEFINE...: with the options of src/runtime/launch/program_cache.c.
to_gcn() {
    local source=$1 assembly=$2
    shift 2
    "$clang" -x cl -cl-std=CL1.2 -w --target=amdgcn-amd-amdhsa -mcpu="$device" \
        --rocm-device-lib-path="$library" -Xclang -finclude-default-header -O3 -S "$@" -o "$assembly" "$source"
}

set_up() {
    local candidate
    library=${ROCM_DEVICE_LIBS:-}
    for candidate in /usr/lib/*/amdgcn/bitcode /usr/lib/amdgcn/bitcode /opt/rocm/amdgcn/bitcode; do
        [ -z "$library" ] && [ -f "$candidate/ocml.bc" ] && library=$candidate
    done
    [ -n "$library" ] ||
        die "no rocm-device-libs, which have OpenCL's functions; Debian: apt-get install rocm-device-libs (set ROCM_DEVICE_LIBS)"
    [ -f "$library/ocml.bc" ] || die "ROCM_DEVICE_LIBS is $library, which has no ocml.bc"
    # Of a SIMD: waves, vector registers of a lane and their unit, for waves of 64 and 32.
    case $device in
    gfx90a | gfx94*) simd_waves=8 pool=(512 512) unit=(8 8) ;;
    gfx[6-9]*) simd_waves=10 pool=(256 256) unit=(4 4) ;;
    gfx101*) simd_waves=20 pool=(512 1024) unit=(4 8) ;;
    gfx103*) simd_waves=16 pool=(512 1024) unit=(8 16) ;;
    *) simd_waves=0 pool=(0 0) unit=(1 1) ;; # the occupancy stays unknown
    esac
    find_compiler "$(echo clang-{22..15} clang)" to_gcn "$work/probe.cl" "$work/probe.s" ||
        die "no clang compiles OpenCL C for $device with $library (Debian: clang-19; set CLANG)"
    version="$("$clang" --version | head -1)"
    most='the waves of a SIMD'
}

compile() {
    local stem=$work/$1 file=$root/cl/$2
    shift 2
    to_gcn "$file" "$stem.s" "-I$root/cl" "$@" 2>"$stem.log"
}

# The compiler writes its own estimate of the waves into the assembly, behind each kernel.
measure() {
    local waves by_registers i
    read -r registers scratch local_bytes waves < <(awk -v kernel="$1:" '
        $1 == kernel { inside = 1 }
        !inside || $1 != ";" { next }
        $2 == "NumVgprs:" { registers = $3 }
        $2 == "TotalNumVgprs:" { registers = $3 }
        $2 == "ScratchSize:" { scratch = $3 }
        $2 == "LDSByteSize:" { lds = $3 }
        $2 == "Occupancy:" { print registers, scratch, lds, $3; exit }' "$work/$2.s")
    read -r width group < <(awk -v kernel="$1" '
        /^    \.name:/ { inside = $2 == kernel }
        !inside { next }
        first { group = $2; first = 0 }
        /^    \.reqd_workgroup_size:/ { first = 1 }
        /^    \.wavefront_size:/ { print $2, group; exit }' <(sed -n '/amdgpu_metadata/,$p' "$work/$2.s"))
    [ -n "$registers" ] && [ -n "$waves" ] && [ -n "$width" ] || return 1
    percent=- limit=-
    [ "$simd_waves" -gt 0 ] || return 0
    i=$((width == 32))
    by_registers=$((pool[i] / ((registers + unit[i] - 1) / unit[i] * unit[i] + (registers == 0))))
    limit=local
    [ "$waves" -lt $by_registers ] || limit=registers
    [ "$waves" -lt "$simd_waves" ] || limit=none
    percent=$((waves * 100 / simd_waves))
}
