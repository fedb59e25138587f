#!/bin/sh
# Runs the kernel tests on a simulated device that checks every memory access.
#   tests/long/oclgrind.sh BUILD_DIR [TEST...]         CLPRUNE_TEST_CASES=text picks cases of a test
# Oclgrind finds data races, reads of uninitialised memory, accesses out of bounds and wrong uses of
# the API, but exits with 0 whatever it finds: its log is searched. The build must be without
# sanitizers. The lists of shapes are short (CLPRUNE_TEST_SMALL), one kernel family at a time.
#
# Two runs, as Oclgrind 21.10 cannot do all at once: its check for uninitialised values does not know
# the instruction "freeze" that optimised kernels contain. So the second run is without optimisation,
# where it is wrong about float16 vectors (the upper half of one is called uninitialised when it is
# summed up, or its lanes are joined to a mask), and takes the kernels without such sums: fill, selection, GELU,
# token mean. For scores and products test_bspmm shows that results do not depend on what scratch held.
# It is also wrong about scratch that has grown: what lies beyond the first buffer's size is called
# uninitialised, though each case of test_relu, in a process of its own, has no finding; nor have those of test_embedding. It takes no bitmaps
# either: of an index that bsr_index makes in scratch it calls all columns uninitialised, which test_bsr
# finds right one by one; with int32 indices test_bsr has no finding.
#
# Its results are wrong, too, for three things that the optimiser makes, so the tests that meet them run
# without it: llvm.usub.sat is unknown, zext of <16 x i1> gives 255, and an integer of 3 bits, which
# becomes of i % 8 in a loop, is never cut to 3 bits (bsr_index of the vector family).
# Exits 0 if all tests pass and nothing was found, 1 otherwise, 77 where Oclgrind is missing.
export LC_ALL=C # a decimal point in every locale
build=${1:?usage: oclgrind.sh BUILD_DIR [TEST...]}
shift
command -v oclgrind >/dev/null 2>&1 || {
    echo "oclgrind is not installed"
    exit 77
}
operations="test_matrix test_gemm test_bsr test_bsr_index test_bsr_values test_prune test_prune_sampled test_bspmm test_quantise test_rotate test_saved test_linear test_pool
    test_conv2d"
layers="test_add test_affine test_bias test_cross_entropy test_dropout test_gelu test_gelu_code test_image test_layer_norm test_layerscale test_max_pool
    test_element_loss test_relu test_silu test_optimizer
    test_optimizer_codes test_optimizer_many test_optimizer_state
    test_patch_embed test_token_mean test_token_mix test_upsample test_batch_norm test_batch_norm_product
    test_batch_norm_statistics test_attention test_embedding test_positions test_recurrent test_rotary test_rms_norm test_swiglu
    test_token_loss test_narrow"
tests=${*:-"$operations $layers test_mma"}
debug=
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT

# grind LOG OPTIONS COMMAND: findings go to LOG.
grind() {
    log=$1
    options=$2
    shift 2
    # shellcheck disable=SC2086 # the options are several words
    CLPRUNE_TEST_SMALL=1 CLPRUNE_CACHE_DIR=off CLPRUNE_DEBUG="check=off${debug:+,$debug}" oclgrind $options --max-errors 1000 \
        --num-threads 1 --log "$log" "$@"
}

failed=0
# check TEST FAMILY RUN OPTIONS [ARGUMENT]
check() {
    what="$1, $2, $3"
    test=$1
    family=$2
    options=$4
    shift 4
    log=$folder/log
    out=$folder/out
    : >"$log"
    CLPRUNE_TEST_KERNELS=$family grind "$log" "$options" "$build/bin/$test" "$@" >"$out" 2>&1
    code=$?
    if [ "$code" -ne 0 ]; then
        echo "FAILED    $what: exit $code"
        grep -E '^ERROR|FAILED|error' "$out" | head -20
        head -20 "$log"
    elif grep -q '[^[:space:]]' "$log"; then
        echo "FINDINGS  $what:"
        head -60 "$log"
    elif ! grep -q 'Oclgrind' "$out"; then
        echo "FAILED    $what: did not run on the simulated device"
    else
        echo "clean     $what"
        return
    fi
    failed=1
}

unoptimised="--build-options -cl-opt-disable"
for test in $tests; do
    [ "$test" != test_mma ] || continue
    for family in vector tiled; do
        plain=
        case $test,$family in
        test_gemm,tiled | test_recurrent,tiled | test_max_pool,* | test_prune,* | test_prune_sampled,* | test_saved,* | test_linear,* | test_plan_arena,*) plain=$unoptimised ;;
        test_gelu_code,* | test_rotate,* | test_bsr_index,vector) plain=$unoptimised ;;
        test_bsr,vector | test_bsr_values,*) plain=$unoptimised ;;
        test_batch_norm*,* | test_conv2d,tiled) plain=$unoptimised ;;
        esac
        # prune_select_vector counts what its zext of <16 x i1> makes 255 of: no cases that select
        [ "$test,$family" != test_prune,vector ] || {
            check "$test" $family races "--data-races --check-api" scores
            continue
        }
        set --
        case $test,$family in
        test_bspmm,vector) # all but "scratch full of ones", which selects
            plain=$unoptimised
            set -- "five runs" "any offset" linear "alpha 0" "of zero" "tn " "nt " "nn " "nn, chunks" "nn, joined" "nn, strips"
            ;;
        test_prune_sampled,vector) set -- "large blocks" "finite values" "x upon the result" ;;
        test_saved,vector) set -- ": dense" "all kept" "dense product" ;;
        test_linear,vector) set -- ", dense" ", 1x16, 1" "bit for bit" ;;
        test_conv2d,vector) set -- reference pooled ;;
        esac
        for cases; do
            CLPRUNE_TEST_CASES=$cases check "$test" $family "$cases" "--data-races --check-api $plain"
        done
        [ "$test,$family" != test_bspmm,vector ] || for cases in subnormal "tn " "nt "; do
            CLPRUNE_PRECISION=bf16 CLPRUNE_TEST_CASES=$cases check "$test" $family "bf16, $cases" \
                "--data-races --check-api $unoptimised"
        done
        # with local memory for the kernel that has all keys there, as CPUs have
        [ "$test,$family" != test_attention,vector ] || for cases in "9 x 7" "2 x 75" "apart: 2"; do
            CLPRUNE_PRECISION=bf16 CLPRUNE_TEST_CASES=$cases check "$test" $family "bf16, $cases" \
                "--data-races --check-api --local-mem-size 1048576"
        done
        [ $# -eq 0 ] || continue
        check "$test" $family races "--data-races --check-api $plain"
        case $test,$family in # they join the halves of float16 vectors, or turn them
        test_max_pool,vector | test_relu,vector | test_gelu_code,vector | test_attention*,vector) continue ;;
        esac
        part='' cases=${CLPRUNE_TEST_CASES:-}
        case $test in
        test_gemm | test_bspmm | test_bsr | test_bsr_index | test_bsr_values | test_prune_sampled | test_quantise) continue ;;
        test_saved | test_linear | test_plan_arena | test_embedding) continue ;;
        test_rotate | test_silu | test_recurrent | test_rotary | test_swiglu | test_token_loss | test_rms_norm) continue ;;
        test_affine | test_bias | test_cross_entropy | test_layer_norm | test_layerscale | test_element_loss) continue ;;
        test_pool | test_conv2d | test_batch_norm* | test_narrow) continue ;;
        test_optimizer | test_optimizer_codes | test_optimizer_many | test_optimizer_state | test_image | test_patch_embed | test_token_mix) continue ;;
        test_prune) part=select ;;
        test_gelu) cases=${cases:-special values} ;; # the others sum up float16 vectors
        test_relu) cases=${cases:-forward} ;;
        esac
        CLPRUNE_TEST_CASES=$cases check "$test" $family uninitialized "--uninitialized $unoptimised" $part
    done
done
# Emulated tensor cores, with the barriers of real ones alone: a case of each loop, as one takes minutes.
debug=mma=emulated
while read -r test precision options cases; do
    case " $(echo $tests) " in *" $test "*) ;; *) continue ;; esac
    [ "$options" = optimised ] && options= || options=$unoptimised
    CLPRUNE_PRECISION=$precision CLPRUNE_TEST_CASES=$cases check "$test" tiled "emulated $precision, $cases" \
        "--data-races --check-api --local-mem-size 65536 $options" </dev/null
done <<END
test_mma bf16 optimised bf16 emulated: tn 1x16
test_mma bf16 optimised bf16 emulated: nt 1x16
test_gemm bf16 unoptimised tiled: M 65, N 63
END
exit "$failed"
