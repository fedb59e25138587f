#!/usr/bin/env bash
# Compiles every GPU kernel without a GPU, and prints what the offline compiler reports: registers, scratch,
# local memory; and the occupancy that these allow.
#
#     tools/kernel-report.sh [--target TARGET] [--csv FILE] [--plain] [KERNEL...]
#
# --target TARGET  nvidia:sm_90 (the default), intel:skl, intel:tgllp, intel:dg2, amd:gfx90a, amd:gfx1030, or
#                  another device of these compilers
# --csv FILE       writes the table to FILE too
# --plain          hides the group size from ptxas, which then chooses registers differently
# KERNEL...        only these entry points
#
# Exit status: 0; 1 if a program does not compile, or needs more scratch memory than in the committed table
# (tools/results/kernels-DEVICE.csv; without a table or a row: than none); 2 if a tool or a define set is
# missing. kernel-report/VENDOR.sh says which tools it needs. Drivers have other compilers, with similar
# numbers, not the same.
# shellcheck disable=SC2034,SC2154 # variables shared with kernel-report/*.sh
export LC_ALL=C # a decimal point in every locale
unset CDPATH # with it, cd prints, and may go elsewhere
set -euo pipefail

# Kernels that only CPUs run.
cpu_only=" amx_probe attention_backward_whole bf16_probe bspmm_index_pairs bspmm_pairs bspmm_index_words bspmm_words bspmm_panels bspmm_nn_lists bspmm_nn_strips bspmm_tn_bf16 bspmm_nt_bf16 conv_dw_bf16_vector conv_dw_bf16_vector_quantised conv_amx conv_dw_amx conv_dw_amx_quantised conv_pairs conv_weights_bf16 gemm_bf16 gemm_bf16_quantised conv_vector conv_strip_vector conv_weights conv_dw_vector conv_dw_pooled_vector conv_lists conv_dw_pruned_vector gemm_vector gemm_vector_quantised bspmm_tn_vector bspmm_nt_vector prune_select_vector "

die() {
    echo "kernel-report: $*" >&2
    exit 2
}

target=nvidia csv='' group_known=yes
wanted=' '
while [ $# -gt 0 ]; do
    case $1 in
    --target) target=${2:?--target needs a target, such as intel:dg2}; shift 2 ;;
    --csv) csv=${2:?--csv needs a file}; shift 2 ;;
    --plain) group_known=no; shift ;;
    --help) sed -n '2,/^# shellcheck/{/^# shellcheck/!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    -*) die "no option $1; --help lists them" ;;
    *) wanted+="$1 "; shift ;;
    esac
done
[ "$target" != nvidia ] || target=nvidia:sm_90
vendor=${target%%:*} device=${target#*:}
case $target in
nvidia:?* | intel:?* | amd:?*) ;;
*) die "--target $target: not nvidia, nvidia:DEVICE, intel:DEVICE or amd:DEVICE" ;;
esac
root=$(cd "$(dirname "$0")/.." && pwd)
committed=$root/tools/results/kernels-$device.csv

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# --- the programs --------------------------------------------------------------------------------

# The declarations in src/: static const clprune__kernel_def x_kernel = {"file", "entry"};
declaration='clprune__kernel_def [a-z0-9_]*_kernel ='
find "$root/src" -name '*.c' -exec cat {} + >"$work/sources"
tr '\n' ' ' <"$work/sources" | grep -o "$declaration *{[^}]*}" |
    sed 's/^[^{]*{ *"\([^"]*\)", *"\([^"]*\)".*/\2 \1/' >"$work/kernels"
[ "$(wc -l <"$work/kernels")" -eq "$(grep -c "$declaration" "$work/sources")" ] ||
    die "not every clprune__kernel_def in src/ could be read"

# The define sets have the tiles of the row "gpu" in tuning.c; those of AMD and Intel have rows of their own, and
# no tensor cores. As plan_tn_tiled and plan_nt_tiled choose them.
grep -v '^#' "$root/tools/kernel-report/define-sets.txt" >"$work/all"
if [ "$vendor" = nvidia ]; then
    cp "$work/all" "$work/sets"
else
    tiles=$(sed -n "/ gpu_${vendor}_row(void)/,/^}/s/^ *row\.\([a-z_]*\)\.\([a-z_]*\) = \([0-9]*\);/\1_\2=\3/p" \
        "$root/src/ops/device/tuning.c")
    [ -n "$tiles" ] || die "no row gpu_${vendor}_row in src/ops/device/tuning.c"
    # shellcheck disable=SC2046,SC2086 # words
    awk $(printf ' -v %s' $tiles) '
        function value(name) { return match($0, " " name "=[0-9]+") ? substr($0, RSTART + length(name) + 2) + 0 : 0 }
        function put(name, new) { if (new != "") sub(" " name "=[0-9]+", " " name "=" new) }
        function least(a, b) { return a < b ? a : b }
        /MMA_PTX=1/ { next }
        / ROWS=8/ { put("ROWS", gemm_tiled_rows) }
        $1 == "bspmm_tn_tiled" {
            put("SEG", tiled_tn_segment_rows)
            if (tiled_tn_tile_columns != "") {
                put("CT", least(value("CT"), tiled_tn_tile_columns))
                put("SLOTS", 2 * value("BC") <= tiled_tn_tile_columns ? 2 : 1)
            }
        }
        $1 == "bspmm_nt_tiled" {
            put("SEG", tiled_nt_segment_rows)
            if (tiled_nt_tile_columns != "")
                put("CT", least(value("CT"), tiled_nt_tile_columns))
        }
        { print }' "$work/all" >"$work/sets"
fi

missing=''
while read -r kernel _ _; do
    case $cpu_only in *" $kernel "*) continue ;; esac
    grep -q "^$kernel " "$work/all" || missing+=" $kernel"
done <"$work/kernels"
[ -z "$missing" ] || die "no define set for:$missing; add one to tools/kernel-report/define-sets.txt"
while read -r kernel _; do
    grep -q "^$kernel " "$work/kernels" ||
        die "the define sets name $kernel, which no file in src/ declares"
done <"$work/all"
for kernel in $cpu_only $wanted; do
    grep -q "^$kernel " "$work/kernels" || die "no file in src/ declares the kernel $kernel"
done

# --- the tools -----------------------------------------------------------------------------------

# find_compiler LIST COMMAND...: $clang, the first clang of a list of versions with which COMMAND compiles
# $work/probe.cl.
find_compiler() {
    local compilers=() candidate
    if [ -n "${CLANG:-}" ]; then
        compilers=("$CLANG")
    else
        for candidate in $1; do
            ! command -v "$candidate" >/dev/null || compilers+=("$candidate")
        done
    fi
    shift
    [ ${#compilers[@]} -gt 0 ] || die "no clang >= 14; Debian: apt-get install clang-15 (set CLANG)"
    echo 'kernel void probe(global float *x) { size_t i = get_global_id(0); x[i] = fma(x[i], 2, 1); }' \
        >"$work/probe.cl"
    for clang in "${compilers[@]}"; do
        ! "$@" 2>"$work/probe.log" || return 0
    done
    head -3 "$work/probe.log" >&2
    return 1
}

# Each vendor's file has
#   set_up                    finds the tools; sets version (a text), most (what 100 % of the occupancy are) and
#                             more (names of columns of its own)
#   compile STEM FILE DEFINE...   makes what measure reads, $work/STEM.*; errors in $work/STEM.log
#   measure KERNEL STEM FILE DEFINE...   sets width, registers, scratch, local_bytes, group, percent, limit, and
#                             own (values of its own columns)
more=() own=()
# shellcheck source=/dev/null
. "$root/tools/kernel-report/$vendor.sh"
set_up

# --- the report ----------------------------------------------------------------------------------

# scratch_before KERNEL DEFINES: its bytes in the committed table, 0 without a row.
scratch_before() {
    [ ! -f "$committed" ] || awk -F, -v kernel="$1" -v defines="$2" '
        NR == 1 { for (i = 1; i <= NF; i++) if ($i == "scratch_bytes") column = i }
        $1 == kernel && $2 == defines { print $column; exit }' "$committed"
}

row='%-27s %-62s %5s %4s %7s %6s %5s %5s %s\n'
# shellcheck disable=SC2059
printf "$row" kernel defines width regs scratch local group occup limit
columns=(kernel defines width registers scratch_bytes local_bytes group_size occupancy_percent
    occupancy_limit "${more[@]}")
(IFS=, && printf '%s\n' "${columns[*]}") >"$work/table.csv"

programs=0 in_scratch=0 worse=0 failed=0
while read -r kernel defines; do
    [ "$wanted" = ' ' ] || [[ $wanted == *" $kernel "* ]] || continue
    read -r _ file < <(grep "^$kernel " "$work/kernels")
    read -r -a options <<<"-D${defines// / -D}"
    stem=$(basename "$file" .cl)-${defines// /-}
    if { [ ! -f "$work/$stem.log" ] && ! compile "$stem" "$file" "${options[@]}"; } ||
        ! measure "$kernel" "$stem" "$file" "${options[@]}"; then
        cat "$work/$stem.log" >&2
        echo "kernel-report: $kernel ($defines) does not compile" >&2
        failed=$((failed + 1))
        continue
    fi
    cells=("$kernel" "$defines" "$width" "$registers" "$scratch" "$local_bytes" "$group" "$percent" "$limit")
    # shellcheck disable=SC2059
    printf "$row" "${cells[@]}"
    cells+=("${own[@]}")
    (IFS=, && printf '%s\n' "${cells[*]}") >>"$work/table.csv"
    programs=$((programs + 1))
    [ "$scratch" -eq 0 ] || in_scratch=$((in_scratch + 1))
    before=$(scratch_before "$kernel" "$defines")
    if [ "$scratch" -gt "${before:-0}" ]; then
        echo "kernel-report: $kernel ($defines) needs $scratch bytes of scratch, before: ${before:-0}" >&2
        worse=$((worse + 1))
    fi
done <"$work/sets"

echo
echo "$target, $version: $in_scratch of $programs programs in scratch"
echo "width: work-items of an instruction; regs, scratch: registers and bytes of a work-item; local: bytes of a"
echo "group; occup: percent of $most; limit: why not more"
if [ -n "$csv" ]; then
    mkdir -p "$(dirname "$csv")"
    cp "$work/table.csv" "$csv"
fi
[ $failed -eq 0 ] || {
    echo "kernel-report: $failed programs do not compile" >&2
    exit 1
}
[ $worse -eq 0 ] || {
    echo "kernel-report: $worse programs need more scratch memory than before" >&2
    exit 1
}
