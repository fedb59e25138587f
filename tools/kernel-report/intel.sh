# kernel-report.sh for Intel: ocloc, Intel's offline compiler (Debian: intel-opencl-icd, which also installs the
# driver); $OCLOC selects another one. DEVICE: skl (gen9), tgllp (gen12), dg2 (Arc), as `ocloc compile --help` lists.
# A hardware thread has 128 or 256 registers for `width` work-items; the column `registers` has the number of a thread.
# shellcheck shell=bash disable=SC2034,SC2154 # variables of kernel-report.sh
export LC_ALL=C # a decimal point in every locale

set_up() {
    ocloc=${OCLOC:-ocloc}
    command -v "$ocloc" >/dev/null ||
        die "no $ocloc, Intel's offline compiler; Debian: apt-get install intel-opencl-icd (set OCLOC)"
    # Of a (dual) sub-slice: hardware threads, local memory, barriers, one a group.
    case $device in
    bdw | skl | kbl | cfl | apl | bxt | glk | whl | aml | cml | gen9) threads=56 slm=65536 barriers=16 ;;
    tgllp | rkl | adl-* | dg1 | gen12lp) threads=112 slm=131072 barriers=112 ;;
    dg2* | acm-* | ats-* | xe-hpg) threads=128 slm=131072 barriers=128 ;;
    *) threads=0 slm=0 barriers=0 ;; # the occupancy stays unknown
    esac
    echo 'kernel void probe(global float *x) { x[get_global_id(0)] = 1; }' >"$work/probe.cl"
    "$ocloc" compile -file "$work/probe.cl" -device "$device" -out_dir "$work" >"$work/probe.log" 2>&1 || {
        tail -3 "$work/probe.log" >&2
        die "$ocloc does not compile for $device; \"ocloc compile --help\" lists the devices"
    }
    version="$(basename "$ocloc")"
    ! command -v dpkg-query >/dev/null ||
        version+=$(dpkg-query -W -f ' ${Version}' intel-opencl-icd 2>/dev/null || true)
    most='the threads of a sub-slice'
}

# The ELF file has a text that describes each kernel.
compile() {
    local stem=$1 file=$root/cl/$2
    shift 2
    "$ocloc" compile -file "$file" -device "$device" -out_dir "$work" -output program -output_no_suffix \
        -internal_options '-cl-intel-allow-zebin -cl-intel-enable-zebin' \
        -options "-cl-std=CL1.2 -w -I $root/cl $*" >"$work/$stem.log" 2>&1 &&
        sed -n '/^kernels:/,/^kernels_misc_info:/p' "$work/program" >"$work/$stem.info" && [ -s "$work/$stem.info" ]
}

measure() {
    local bytes each group_threads groups
    # Scratch is of a thread, or if is_simt_thread, of a work-item.
    read -r width registers bytes each local_bytes group < <(awk -v kernel="$1" '
        $1 == "-" && $2 == "name:" { inside = $3 == kernel; next }
        !inside { next }
        $1 == "grf_count:" { registers = $2 }
        $1 == "simd_size:" { width = $2 }
        $1 == "slm_size:" { slm = $2 }
        $1 == "required_work_group_size:" { group = $3 + 0 }
        $1 == "per_thread_memory_buffers:" { buffers = 1 }
        $1 == "-" { if ($2 != "type:") buffers = 0; item = 0 }
        buffers && $1 == "size:" { size = $2; thread += size }
        buffers && $1 == "is_simt_thread:" { thread -= size; each += size }
        END { print width + 0, registers + 0, thread + 0, each + 0, slm + 0, group + 0 }' "$work/$2.info")
    [ "$width" -gt 0 ] || return 1
    scratch=$((bytes / width + each)) percent=- limit=-
    [ "$threads" -gt 0 ] || return 0
    # A thread of 256 registers takes the place of two.
    group_threads=$(((group + width - 1) / width))
    groups=$((threads * 128 / registers / group_threads)) limit=none
    [ "$registers" -le 128 ] || limit=registers
    [ $((local_bytes * groups)) -le "$slm" ] || { groups=$((slm / local_bytes)) limit=local; }
    [ "$local_bytes" -eq 0 ] || [ $groups -le "$barriers" ] || { groups=$barriers limit=groups; }
    percent=$((groups * group_threads * 100 / threads))
}
