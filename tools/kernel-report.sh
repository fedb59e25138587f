#!/usr/bin/env bash
# Compiles every GPU kernel for NVIDIA, without a GPU, and prints what ptxas reports: registers,
# spills, stack, local memory; and the occupancy that these allow.
#
#     tools/kernel-report.sh [--arch sm_90] [--csv FILE] [--allow-spills] [--plain] [KERNEL...]
#
# --arch SM        the target of ptxas, sm_90 by default
# --csv FILE       writes the table to FILE too
# --allow-spills   does not fail if a kernel spills
# --plain          hides the group size from ptxas, which then chooses registers differently
# KERNEL...        only these entry points
#
# Exit status: 0; 1 if a kernel spills or does not compile; 2 if a tool or a define set is missing.
# Needs clang >= 14, libclc (Debian: libclc-15), ptxas (CUDA) and readelf; $CLANG, $LIBCLC
# (nvptx64--nvidiacl.bc) and $PTXAS select other ones than those found. NVIDIA's driver has another
# compiler, with similar numbers, not the same.
export LC_ALL=C # a decimal point in every locale
unset CDPATH # with it, cd prints, and may go elsewhere
set -euo pipefail

# The define sets that src/ passes on a GPU (CLPRUNE_KERNELS_TILED). Each line of a kernel is a program
# of its own.
define_sets() {
    cat <<'TABLE'
fill                    LOCAL=128 VW=4
mat_scale               LOCAL=128 VW=4
mat_copy                LOCAL=128 VW=4
mma_probe               M_TILES=2 N_TILES=2 PRECISION=1 MMA_PTX=1
mma_probe               M_TILES=2 N_TILES=2 PRECISION=2 MMA_PTX=1
prune_score             LOCAL=32 VW=1 BR=1 BC=1 NORM=0
prune_score             LOCAL=32 VW=4 BR=1 BC=4 NORM=0
prune_score             LOCAL=32 VW=16 BR=1 BC=16 NORM=0
prune_score             LOCAL=32 VW=16 BR=1 BC=16 NORM=1
prune_score             LOCAL=32 VW=16 BR=1 BC=16 NORM=2
prune_score             LOCAL=32 VW=16 BR=16 BC=16 NORM=0
prune_score             LOCAL=32 VW=16 BR=1 BC=64 NORM=0
prune_draw              LOCAL=64
prune_select            LOCAL=256 RADIX=8 THRESHOLD=0
prune_select            LOCAL=256 RADIX=8 THRESHOLD=1
bsr_index               LOCAL=64 FROM=0 TO_BITMAP=0
bsr_index               LOCAL=64 FROM=0 TO_BITMAP=1
bsr_index               LOCAL=64 FROM=1 TO_BITMAP=0
bsr_index               LOCAL=64 FROM=2 TO_BITMAP=0
bsr_pack                LOCAL=64 VALUES=0 VW=4 BR=1 BC=4
bsr_pack                LOCAL=64 VALUES=0 VW=4 BR=1 BC=16
bsr_pack                LOCAL=64 VALUES=0 VW=4 BR=16 BC=16
bsr_pack                LOCAL=64 VALUES=0 VW=4 BR=1 BC=64
bsr_pack                LOCAL=64 VALUES=0 VW=4 BR=1 BC=16 WEIGHTED=1
bsr_pack                LOCAL=64 VALUES=1 VW=4 BR=1 BC=16
bsr_pack                LOCAL=64 VALUES=2 VW=4 BR=1 BC=16
bsr_pack                LOCAL=64 VALUES=3 VW=4 BR=1 BC=16
bsr_pack                LOCAL=64 VALUES=3 VW=4 BR=1 BC=16 WEIGHTED=1
bsr_unpack              LOCAL=64 VALUES=0 VW=4 BR=1 BC=16
bsr_unpack              LOCAL=64 VALUES=0 VW=4 BR=16 BC=16
bsr_unpack              LOCAL=64 VALUES=1 VW=4 BR=1 BC=16
bsr_unpack              LOCAL=64 VALUES=2 VW=4 BR=1 BC=16
bsr_unpack              LOCAL=64 VALUES=3 VW=4 BR=1 BC=16
bsr_widen               LOCAL=64 VALUES=1 VW=1 BLOCK=16
bsr_widen               LOCAL=64 VALUES=2 VW=1 BLOCK=16
bsr_widen               LOCAL=64 VALUES=3 VW=1 BLOCK=16
gemm_tiled              TRANSPOSE_A=0 TRANSPOSE_B=0 BIAS=2 AV=4 BV=4 CV=4
gemm_tiled              TRANSPOSE_A=1 TRANSPOSE_B=0 BIAS=0 AV=4 BV=4 CV=4
gemm_tiled              TRANSPOSE_A=0 TRANSPOSE_B=1 BIAS=0 AV=4 BV=4 CV=4
gemm_tiled              TRANSPOSE_A=0 TRANSPOSE_B=0 BIAS=1 AV=1 BV=1 CV=1
gemm_tiled              TRANSPOSE_A=0 TRANSPOSE_B=1 BIAS=1 AV=4 BV=4 CV=4 DEPTH=16 M_TILES=4 N_TILES=4 PRECISION=1 MMA_PTX=1
gemm_tiled              TRANSPOSE_A=0 TRANSPOSE_B=0 BIAS=0 AV=4 BV=4 CV=4 DEPTH=16 M_TILES=4 N_TILES=4 PRECISION=1 MMA_PTX=1
gemm_tiled              TRANSPOSE_A=1 TRANSPOSE_B=0 BIAS=0 AV=4 BV=4 CV=4 DEPTH=16 M_TILES=4 N_TILES=4 PRECISION=1 MMA_PTX=1
gemm_tiled              TRANSPOSE_A=0 TRANSPOSE_B=1 BIAS=1 AV=4 BV=4 CV=4 DEPTH=32 M_TILES=4 N_TILES=4 PRECISION=2 MMA_PTX=1
gemm_tiled              TRANSPOSE_A=0 TRANSPOSE_B=0 BIAS=0 AV=4 BV=4 CV=4 DEPTH=32 M_TILES=4 N_TILES=4 PRECISION=2 MMA_PTX=1
gemm_tiled              TRANSPOSE_A=1 TRANSPOSE_B=0 BIAS=0 AV=4 BV=4 CV=4 DEPTH=32 M_TILES=4 N_TILES=4 PRECISION=2 MMA_PTX=1
conv_tiled              BACK=0 FV=4 WV=4
conv_tiled              BACK=0 FV=1 WV=1
conv_tiled              BACK=1 FV=4 WV=4
conv_tiled              BACK=0 FV=4 WV=4 DEPTH=32 M_TILES=4 N_TILES=4 PRECISION=2 MMA_PTX=1
conv_tiled              BACK=1 FV=4 WV=4 DEPTH=32 M_TILES=4 N_TILES=4 PRECISION=2 MMA_PTX=1
conv_dw_tiled           XV=4 DYV=4 POOLED=0
conv_dw_tiled           XV=1 DYV=4 POOLED=0
conv_dw_tiled           XV=4 DYV=4 POOLED=1
conv_dw_tiled           XV=4 DYV=4 POOLED=0 DEPTH=32 M_TILES=4 N_TILES=4 PRECISION=2 MMA_PTX=1
conv_dw_tiled_quantised XV=4 DYV=4 POOLED=0 BITS=4 GROUP=64
image_channels_last     LOCAL=128
image_bytes_channels_last LOCAL=128
gemm_tiled_quantised    TRANSPOSE_A=1 TRANSPOSE_B=0 BIAS=0 AV=4 BV=4 CV=4 BITS=4 GROUP=64
gemm_tiled_quantised    TRANSPOSE_A=0 TRANSPOSE_B=1 BIAS=0 AV=4 BV=4 CV=4 BITS=4 GROUP=64
gemm_tiled_quantised    TRANSPOSE_A=1 TRANSPOSE_B=0 BIAS=0 AV=4 BV=4 CV=4 BITS=8 GROUP=64
conv_tap_sums           LOCAL=64 VW=4 KH=3 KW=3
self_check              LOCAL=64 VW=4
sample_sum              LOCAL=64 CHUNK=256 STRIP=1 VW=4 READ_DW=0
sample_sum              LOCAL=64 CHUNK=256 STRIP=1 VW=4 READ_DW=1
quantise                BITS=4 GROUP=64 STOCHASTIC=0 LOCAL=128
quantise                BITS=4 GROUP=64 STOCHASTIC=1 LOCAL=128
quantise                BITS=8 GROUP=64 STOCHASTIC=1 LOCAL=128
dequantise              BITS=4 GROUP=64 LOCAL=128
dequantise_add          BITS=4 GROUP=64 LOCAL=128 LAYERSCALE=0
dequantise_add          BITS=4 GROUP=64 LOCAL=128 LAYERSCALE=1
pool_rows               LOCAL=128 VW=4 MEAN=0
pool_rows               LOCAL=128 VW=4 MEAN=1
pool_spread             LOCAL=128 VW=4
pool_columns            LOCAL=128 VW=4 READ_DW=0
bspmm_lists             LOCAL=64 BR=1 SEG=256
bspmm_lists             LOCAL=64 BR=16 SEG=256
bspmm_tn_tiled          XV=1 BC=1 BR=1 SEG=32 CT=1 LANES=32 TEAMS=8 SLOTS=2 DYV=4 CONV=0
bspmm_tn_tiled          XV=4 BC=4 BR=1 SEG=32 CT=4 LANES=32 TEAMS=8 SLOTS=2 DYV=4 CONV=0
bspmm_tn_tiled          XV=4 BC=8 BR=1 SEG=32 CT=8 LANES=32 TEAMS=8 SLOTS=2 DYV=4 CONV=0
bspmm_tn_tiled          XV=4 BC=16 BR=1 SEG=32 CT=16 LANES=32 TEAMS=8 SLOTS=1 DYV=4 CONV=0
bspmm_tn_tiled          XV=4 BC=16 BR=16 SEG=32 CT=16 LANES=32 TEAMS=8 SLOTS=1 DYV=4 CONV=0
bspmm_tn_tiled          XV=4 BC=64 BR=1 SEG=32 CT=16 LANES=32 TEAMS=8 SLOTS=1 DYV=4 CONV=0
bspmm_tn_tiled          XV=4 BC=16 BR=1 SEG=32 CT=16 LANES=32 TEAMS=8 SLOTS=1 DYV=1 CONV=0
bspmm_tn_tiled          XV=4 BC=16 BR=1 SEG=32 CT=16 LANES=32 TEAMS=8 SLOTS=1 DYV=4 CONV=1
bspmm_tn_mma            XV=1 BC=1 BR=1 SEG=49 CT=1 LANES=32 TEAMS=8 SLOTS=2 DYV=4 PANEL=64 M_TILES=4 N_TILES=1 PRECISION=1 MMA_PTX=1
bspmm_tn_mma            XV=4 BC=4 BR=1 SEG=49 CT=4 LANES=32 TEAMS=8 SLOTS=2 DYV=4 PANEL=64 M_TILES=4 N_TILES=1 PRECISION=1 MMA_PTX=1
bspmm_tn_mma            XV=4 BC=8 BR=1 SEG=49 CT=8 LANES=32 TEAMS=8 SLOTS=2 DYV=4 PANEL=64 M_TILES=4 N_TILES=1 PRECISION=1 MMA_PTX=1
bspmm_tn_mma            XV=4 BC=16 BR=1 SEG=66 CT=16 LANES=32 TEAMS=8 SLOTS=1 DYV=4 PANEL=64 M_TILES=4 N_TILES=2 PRECISION=1 MMA_PTX=1
bspmm_tn_mma            XV=4 BC=16 BR=1 SEG=66 CT=16 LANES=32 TEAMS=8 SLOTS=1 DYV=1 PANEL=64 M_TILES=4 N_TILES=2 PRECISION=1 MMA_PTX=1
bspmm_tn_mma            XV=4 BC=16 BR=16 SEG=66 CT=16 LANES=32 TEAMS=8 SLOTS=1 DYV=4 PANEL=64 M_TILES=4 N_TILES=2 PRECISION=1 MMA_PTX=1
bspmm_tn_mma            XV=4 BC=24 BR=1 SEG=66 CT=24 LANES=32 TEAMS=8 SLOTS=1 DYV=4 PANEL=64 M_TILES=4 N_TILES=3 PRECISION=1 MMA_PTX=1
bspmm_tn_mma            XV=4 BC=64 BR=1 SEG=66 CT=32 LANES=32 TEAMS=8 SLOTS=1 DYV=4 PANEL=64 M_TILES=4 N_TILES=4 PRECISION=1 MMA_PTX=1
bspmm_tn_mma            XV=4 BC=4 BR=1 SEG=66 CT=4 LANES=32 TEAMS=8 SLOTS=2 DYV=4 PANEL=64 M_TILES=4 N_TILES=1 PRECISION=2 MMA_PTX=1
bspmm_tn_mma            XV=4 BC=16 BR=1 SEG=98 CT=16 LANES=32 TEAMS=8 SLOTS=1 DYV=4 PANEL=64 M_TILES=4 N_TILES=2 PRECISION=2 MMA_PTX=1
bspmm_tn_mma            XV=4 BC=64 BR=1 SEG=98 CT=32 LANES=32 TEAMS=8 SLOTS=1 DYV=4 PANEL=64 M_TILES=4 N_TILES=4 PRECISION=2 MMA_PTX=1
bspmm_nt_tiled          XV=1 BC=1 BR=1 SEG=16 CT=1 LANES=16 TEAMS=8 DYV=1
bspmm_nt_tiled          XV=4 BC=4 BR=1 SEG=16 CT=4 LANES=16 TEAMS=8 DYV=4
bspmm_nt_tiled          XV=4 BC=16 BR=1 SEG=16 CT=16 LANES=16 TEAMS=8 DYV=4
bspmm_nt_tiled          XV=4 BC=16 BR=16 SEG=16 CT=16 LANES=16 TEAMS=8 DYV=4
bspmm_nt_tiled          XV=4 BC=64 BR=1 SEG=16 CT=16 LANES=16 TEAMS=8 DYV=4
bspmm_nt_tiled          XV=4 BC=16 BR=1 SEG=16 CT=16 LANES=16 TEAMS=8 DYV=1
bspmm_nt_mma            XV=1 BC=1 BR=1 SEG=32 CT=1 LANES=32 TEAMS=4 DYV=1 PANEL=64 M_TILES=4 N_TILES=1 PRECISION=1 MMA_PTX=1
bspmm_nt_mma            XV=4 BC=4 BR=1 SEG=32 CT=4 LANES=32 TEAMS=4 DYV=4 PANEL=64 M_TILES=4 N_TILES=1 PRECISION=1 MMA_PTX=1
bspmm_nt_mma            XV=4 BC=16 BR=1 SEG=32 CT=16 LANES=32 TEAMS=4 DYV=4 PANEL=64 M_TILES=4 N_TILES=1 PRECISION=1 MMA_PTX=1
bspmm_nt_mma            XV=4 BC=16 BR=1 SEG=32 CT=16 LANES=32 TEAMS=4 DYV=1 PANEL=64 M_TILES=4 N_TILES=1 PRECISION=1 MMA_PTX=1
bspmm_nt_mma            XV=4 BC=64 BR=1 SEG=32 CT=16 LANES=32 TEAMS=4 DYV=4 PANEL=64 M_TILES=4 N_TILES=1 PRECISION=1 MMA_PTX=1
bspmm_nt_mma            XV=4 BC=4 BR=1 SEG=32 CT=4 LANES=32 TEAMS=4 DYV=4 PANEL=64 M_TILES=4 N_TILES=1 PRECISION=2 MMA_PTX=1
bspmm_nt_mma            XV=4 BC=16 BR=1 SEG=32 CT=16 LANES=32 TEAMS=4 DYV=4 PANEL=64 M_TILES=4 N_TILES=1 PRECISION=2 MMA_PTX=1
bspmm_nt_mma            XV=4 BC=64 BR=1 SEG=32 CT=32 LANES=32 TEAMS=4 DYV=4 PANEL=64 M_TILES=4 N_TILES=1 PRECISION=2 MMA_PTX=1
bspmm_nn                LOCAL=64 BR=1 BC=16 READ_Y=0
bspmm_nn                LOCAL=64 BR=1 BC=16 READ_Y=1
bspmm_nn                LOCAL=64 BR=16 BC=16 READ_Y=0
bspmm_finish            LOCAL=64 PANEL=128 STRIP=8 COLS=64 READ_DW=0
bspmm_finish            LOCAL=64 PANEL=128 STRIP=8 COLS=64 READ_DW=1
affine_forward          LOCAL=128 VW=4
affine_backward         READ_DX=0 LOCAL=128 VW=4 SUMS=2
affine_backward         READ_DX=1 LOCAL=128 VW=4 SUMS=2
affine_weights          LOCAL=128 VW=4
affine_centre           LOCAL=128 VW=4
affine_product          LOCAL=128 VW=4 SUMS=2
gelu_forward            LOCAL=128 VW=4
gelu_forward            BIAS=1 LOCAL=128 VW=4
gelu_backward           LOCAL=128 VW=4 SUMS=0 STRIP=1
gelu_backward           SUMS=1 LOCAL=128 VW=4
gelu_backward           SUMS=1 AGAIN=1 LOCAL=128 VW=4
gelu_backward_quantised BITS=4 GROUP=64 LOCAL=128 VW=4 SUMS=1
gelu_code_forward       BITS=2 LOCAL=128 VW=4
gelu_code_forward       BITS=2 BIAS=1 LOCAL=128 VW=4
gelu_code_forward       BITS=4 LOCAL=128 VW=4
gelu_code_forward       BITS=4 BIAS=1 LOCAL=128 VW=4
gelu_code_forward       BITS=8 LOCAL=128 VW=4
gelu_code_forward       BITS=8 BIAS=1 LOCAL=128 VW=4
gelu_code_backward      BITS=2 LOCAL=128 VW=4 SUMS=0 STRIP=1
gelu_code_backward      BITS=2 SUMS=1 LOCAL=128 VW=4
gelu_code_backward      BITS=4 LOCAL=128 VW=4 SUMS=0 STRIP=1
gelu_code_backward      BITS=4 SUMS=1 LOCAL=128 VW=4
gelu_code_backward      BITS=8 LOCAL=128 VW=4 SUMS=0 STRIP=1
gelu_code_backward      BITS=8 SUMS=1 LOCAL=128 VW=4
layer_norm_forward      LOCAL=128 TEAM=32 VW=4 KEEP=1
layer_norm_forward      LOCAL=128 TEAM=32 VW=4 AFFINE=0
layer_norm_apply        LOCAL=128 TEAM=32 VW=4
layer_norm_backward     LOCAL=128 TEAM=32 VW=4 SUMS=2 STRIP=8
layer_norm_backward     LOCAL=128 TEAM=32 VW=4 SUMS=2 STRIP=8 READ_DX=1
layer_norm_backward     LOCAL=128 TEAM=32 VW=4 SUMS=0 STRIP=8 AFFINE=0
layerscale_forward      LOCAL=128 VW=4
layerscale_backward     LOCAL=128 VW=4 SUMS=1
layerscale_backward     SUMS=2 LOCAL=128 VW=4
layerscale_backward     ROW_SUMS=1 LOCAL=128 VW=4 SUMS=1 STRIP=8
layerscale_weights      LOCAL=128 VW=4
layerscale_product      LOCAL=128 TEAM=32 VW=4
bias_rows               LOCAL=128 VW=4
bias_tokens             LOCAL=128 VW=4
column_sum_partial      LOCAL=128 VW=4 SUMS=1
column_sum_final        LANES=8 LOCAL=128 VW=4
column_sum_final        READ_SUM=1 LANES=8 LOCAL=128 VW=4
relu_forward            LOCAL=128 VW=8 SUMS=0 STRIP=1 BIAS=0 KEEP=1
relu_forward            LOCAL=128 VW=8 SUMS=0 STRIP=1 BIAS=1 KEEP=1
relu_backward           LOCAL=128 VW=8 SUMS=0 STRIP=1
relu_backward           LOCAL=128 VW=8 SUMS=1
batch_norm_partial      LOCAL=128 VW=4 SUMS=2
batch_norm_merge        LOCAL=128 VW=4
batch_norm_statistics   LOCAL=128 VW=4 RUNNING=1
batch_norm_forward      LOCAL=128 VW=4 SUMS=0 RELU=0
batch_norm_forward      LOCAL=128 VW=4 SUMS=0 RELU=1 RESIDUAL=1
batch_norm_forward      LOCAL=128 VW=8 SUMS=0 RELU=1 RESIDUAL=1 KEEP_MASK=1
batch_norm_backward_sums    LOCAL=128 VW=4 SUMS=2 KEEP_DZ=0 GATE=0
batch_norm_backward_sums    LOCAL=128 VW=4 SUMS=2 KEEP_DZ=1 GATE=1
batch_norm_backward_sums    LOCAL=128 VW=4 SUMS=2 KEEP_DZ=1 GATE=2 RESIDUAL=1
batch_norm_backward_input   LOCAL=128 VW=4 SUMS=0 GATE=0
batch_norm_backward_input   LOCAL=128 VW=4 SUMS=0 GATE=1
batch_norm_backward_input   LOCAL=128 VW=4 SUMS=0 GATE=2
batch_norm_product      LOCAL=128 VW=4 TEAM=32 READ_OLD=1
max_pool_forward        LOCAL=128 VW=4 KEEP=1
max_pool_forward        LOCAL=128 VW=4 KEEP=1 NORM=1
max_pool_backward       LOCAL=128 VW=4 KEEP=0
row_sum                 LOCAL=128 TEAM=32 VW=4
patch_cut               LOCAL=128 PATCH=16 VW=4 SUMS=0 STRIP=1
patch_cut               LOCAL=128 PATCH=4 VW=4 SUMS=0 STRIP=1
patch_cut               LOCAL=128 PATCH=14 VW=1 SUMS=0 STRIP=1
patch_cut_bytes         LOCAL=128 PATCH=16 VW=4 SUMS=0 STRIP=1
patch_put               LOCAL=128 PATCH=16 VW=4 SUMS=0 STRIP=1
token_mean_forward      LOCAL=128 VW=4
token_mean_backward     LOCAL=128 VW=4
upsample_forward        LOCAL=128 VW=4
upsample_backward       LOCAL=128 VW=4
token_mix_input         LOCAL=128 VW=4
token_mix_backward      LOCAL=128 VW=4 SUMS=3 STRIP=8
add                     LOCAL=128 VW=4 TWO=1
dropout                 LOCAL=128 VW=4
rms_norm_forward        LOCAL=128 TEAM=32 VW=4 KEEP=1
rms_norm_apply          LOCAL=128 TEAM=32 VW=4
rms_norm_backward       LOCAL=128 TEAM=32 VW=4 SUMS=1 STRIP=8
attention_forward       LOCAL=64 VW=1 QV=1 E=64 KT=4 TILE=8 WHOLE=0 ET=8 CAUSAL=0 DROP=0
attention_forward_mma LOCAL=128 VW=1 QV=1 E=64 KT=4 TILE=64 WHOLE=0 ET=8 CAUSAL=0 DROP=0 LENGTHS=0 QUADS=4 M_TILES=1 N_TILES=2 PRECISION=2 MMA_PTX=1
attention_forward_mma LOCAL=128 VW=1 QV=1 E=64 KT=4 TILE=64 WHOLE=0 ET=8 CAUSAL=0 DROP=0 LENGTHS=0 QUADS=4 M_TILES=1 N_TILES=2 PRECISION=1 MMA_PTX=1
attention_forward_mma LOCAL=128 VW=1 QV=1 E=32 KT=4 TILE=64 WHOLE=0 ET=8 CAUSAL=0 DROP=0 LENGTHS=0 QUADS=4 M_TILES=1 N_TILES=2 PRECISION=2 MMA_PTX=1
attention_forward_mma LOCAL=128 VW=1 QV=1 E=128 KT=4 TILE=32 WHOLE=0 ET=8 CAUSAL=0 DROP=0 LENGTHS=0 QUADS=4 M_TILES=1 N_TILES=2 PRECISION=2 MMA_PTX=1
attention_backward_queries_mma LOCAL=128 VW=1 QV=1 E=64 KT=4 TILE=64 WHOLE=0 ET=8 CAUSAL=0 DROP=0 LENGTHS=0 QUADS=4 M_TILES=1 N_TILES=2 PRECISION=2 MMA_PTX=1
attention_backward_queries_mma LOCAL=128 VW=1 QV=1 E=64 KT=4 TILE=64 WHOLE=0 ET=8 CAUSAL=0 DROP=0 LENGTHS=0 QUADS=4 M_TILES=1 N_TILES=2 PRECISION=1 MMA_PTX=1
attention_backward_queries_mma LOCAL=128 VW=1 QV=1 E=32 KT=4 TILE=64 WHOLE=0 ET=8 CAUSAL=0 DROP=0 LENGTHS=0 QUADS=4 M_TILES=1 N_TILES=2 PRECISION=2 MMA_PTX=1
attention_backward_queries_mma LOCAL=128 VW=1 QV=1 E=128 KT=4 TILE=32 WHOLE=0 ET=8 CAUSAL=0 DROP=0 LENGTHS=0 QUADS=4 M_TILES=1 N_TILES=2 PRECISION=2 MMA_PTX=1
attention_backward_keys_mma LOCAL=128 VW=1 QV=1 E=64 KT=4 TILE=32 WHOLE=0 ET=8 CAUSAL=0 DROP=0 LENGTHS=0 QUADS=4 M_TILES=1 N_TILES=2 PRECISION=2 MMA_PTX=1
attention_backward_keys_mma LOCAL=128 VW=1 QV=1 E=64 KT=4 TILE=32 WHOLE=0 ET=8 CAUSAL=0 DROP=0 LENGTHS=0 QUADS=4 M_TILES=1 N_TILES=2 PRECISION=1 MMA_PTX=1
attention_backward_keys_mma LOCAL=128 VW=1 QV=1 E=32 KT=4 TILE=64 WHOLE=0 ET=8 CAUSAL=0 DROP=0 LENGTHS=0 QUADS=4 M_TILES=1 N_TILES=2 PRECISION=2 MMA_PTX=1
attention_backward_keys_mma LOCAL=128 VW=1 QV=1 E=128 KT=4 TILE=16 WHOLE=0 ET=8 CAUSAL=0 DROP=0 LENGTHS=0 QUADS=4 M_TILES=1 N_TILES=2 PRECISION=2 MMA_PTX=1
attention_forward       LOCAL=64 VW=1 QV=1 E=64 KT=4 TILE=8 WHOLE=0 ET=8 CAUSAL=1 DROP=1
attention_backward_queries LOCAL=64 VW=1 QV=1 E=64 KT=4 TILE=8 WHOLE=0 ET=8 CAUSAL=1 DROP=0
attention_backward_keys LOCAL=64 VW=1 QV=1 E=64 KT=4 TILE=8 WHOLE=0 ET=8 CAUSAL=1 DROP=0
embedding_forward       LOCAL=128 VW=4
embedding_links         LOCAL=128 VW=4
embedding_backward      LOCAL=128 VW=4
positions_forward       LOCAL=128 VW=4 HAS_X=1
positions_backward      LOCAL=128 VW=4
rotary_table            LOCAL=128 VW=4
rotary_turn             LOCAL=128 VW=4 SUMS=0 BACK=0
rotary_turn             LOCAL=128 VW=4 SUMS=0 BACK=1
swiglu_forward          LOCAL=128 VW=4 ACTIVATION=3
swiglu_backward         LOCAL=128 VW=4 ACTIVATION=3
token_loss_weight       LOCAL=128 TEAM=128 VW=4
token_loss_sums         LOCAL=128 TEAM=32 VW=4
cross_entropy_forward   LOCAL=128 TEAM=32 VW=4
cross_entropy_backward  LOCAL=128 TEAM=32 VW=4
mean_squared_error_forward  LOCAL=128 TEAM=32 VW=4 SEGMENT=1024
mean_squared_error_mean LOCAL=128 TEAM=32 VW=4 SEGMENT=1024
mean_squared_error_backward LOCAL=128 VW=4
sgd                     CHUNK=2048 LOCAL=128 MOMENTUM=0 SLICES=16 TEAM=128 VW=4
sgd                     CHUNK=2048 LOCAL=128 MOMENTUM=1 SLICES=16 TEAM=128 VW=4
sgd                     CHUNK=2048 LOCAL=64 MOMENTUM=1 SLICES=8 TEAM=64 VW=4 CODES=1
adamw                   CHUNK=2048 LOCAL=128 MOMENTUM=0 SLICES=16 TEAM=128 VW=4
adamw                   CHUNK=2048 LOCAL=64 MOMENTUM=1 SLICES=8 TEAM=64 VW=4 CODES=1
lamb_moments            CHUNK=2048 LOCAL=128 MOMENTUM=0 SLICES=16 TEAM=128 VW=4
lamb_ratio              CHUNK=2048 LOCAL=128 MOMENTUM=0 SLICES=16 TEAM=128 VW=4
lamb_apply              CHUNK=2048 LOCAL=128 MOMENTUM=0 SLICES=16 TEAM=128 VW=4
square_sum              CHUNK=2048 LOCAL=128 MOMENTUM=0 SLICES=16 TEAM=128 VW=4
clip_factor             CHUNK=2048 LOCAL=128 MOMENTUM=0 SLICES=16 TEAM=128 VW=4
scale                   CHUNK=2048 LOCAL=128 MOMENTUM=0 SLICES=16 TEAM=128 VW=4
TABLE
}

# Kernels that only CPUs run.
cpu_only=" attention_backward_whole bf16_probe bspmm_index_pairs bspmm_pairs bspmm_index_words bspmm_words bspmm_panels bspmm_nn_lists bspmm_nn_strips bspmm_tn_bf16 bspmm_nt_bf16 conv_dw_bf16_vector conv_pairs conv_weights_bf16 gemm_bf16 gemm_bf16_quantised conv_vector conv_strip_vector conv_weights conv_dw_vector conv_dw_pooled_vector conv_lists conv_dw_pruned_vector gemm_vector gemm_vector_quantised bspmm_tn_vector bspmm_nt_vector prune_select_vector "

die() {
    echo "kernel-report: $*" >&2
    exit 2
}

arch=sm_90 csv='' allow_spills=no group_known=yes
wanted=' '
while [ $# -gt 0 ]; do
    case $1 in
    --arch) arch=${2:?--arch needs a target, such as sm_90}; shift 2 ;;
    --csv) csv=${2:?--csv needs a file}; shift 2 ;;
    --allow-spills) allow_spills=yes; shift ;;
    --plain) group_known=no; shift ;;
    --help) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    -*) die "no option $1; --help lists them" ;;
    *) wanted+="$1 "; shift ;;
    esac
done
[[ $arch =~ ^sm_([0-9]+)[a-z]?$ ]] || die "--arch $arch: not of the form sm_90"
capability=${BASH_REMATCH[1]}
root=$(cd "$(dirname "$0")/.." && pwd)

# clang may not know the newest target: ptxas compiles PTX of an older target for it.
ptx_arch=sm_80
[ "$capability" -ge 80 ] || ptx_arch=$arch

# Limits of a multiprocessor: warps, groups, local memory, and the local memory that is reserved for
# each group besides its own. All of these have 64 Ki registers.
case $capability in
75) sm_warps=32 sm_groups=16 sm_local=65536 reserved=0 ;;
80) sm_warps=64 sm_groups=32 sm_local=167936 reserved=1024 ;;
86) sm_warps=48 sm_groups=16 sm_local=102400 reserved=1024 ;;
89) sm_warps=48 sm_groups=24 sm_local=102400 reserved=1024 ;;
90 | 100) sm_warps=64 sm_groups=32 sm_local=233472 reserved=1024 ;;
*) sm_warps=0 sm_groups=0 sm_local=0 reserved=0 ;; # the occupancy stays unknown
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# --- the kernels ---------------------------------------------------------------------------------

# The declarations in src/: static const clprune__kernel_def x_kernel = {"file", "entry"};
declaration='clprune__kernel_def [a-z0-9_]*_kernel ='
find "$root/src" -name '*.c' -exec cat {} + >"$work/sources"
tr '\n' ' ' <"$work/sources" | grep -o "$declaration *{[^}]*}" |
    sed 's/^[^{]*{ *"\([^"]*\)", *"\([^"]*\)".*/\2 \1/' >"$work/kernels"
[ "$(wc -l <"$work/kernels")" -eq "$(grep -c "$declaration" "$work/sources")" ] ||
    die "not every clprune__kernel_def in src/ could be read"
define_sets >"$work/sets"

missing=''
while read -r kernel _ _; do
    case $cpu_only in *" $kernel "*) continue ;; esac
    grep -q "^$kernel " "$work/sets" || missing+=" $kernel"
done <"$work/kernels"
[ -z "$missing" ] || die "no define set for:$missing; add one to define_sets in tools/kernel-report.sh"
while read -r kernel _; do
    grep -q "^$kernel " "$work/kernels" ||
        die "the define sets name $kernel, which no file in src/ declares"
done <"$work/sets"
for kernel in $cpu_only $wanted; do
    grep -q "^$kernel " "$work/kernels" || die "no file in src/ declares the kernel $kernel"
done

# --- the tools -----------------------------------------------------------------------------------

ptxas=${PTXAS:-}
for candidate in ptxas /usr/local/cuda/bin/ptxas; do
    [ -z "$ptxas" ] && command -v "$candidate" >/dev/null && ptxas=$candidate
done
[ -n "$ptxas" ] || die "no ptxas in PATH or /usr/local/cuda/bin; it is part of the CUDA toolkit (set PTXAS)"
command -v "$ptxas" >/dev/null || die "PTXAS is $ptxas, which is not there"
command -v readelf >/dev/null || die "no readelf; Debian: apt-get install binutils"

library=${LIBCLC:-}
for candidate in /usr/lib/clc/nvptx64--nvidiacl.bc /usr/share/clc/nvptx64--nvidiacl.bc; do
    [ -z "$library" ] && [ -f "$candidate" ] && library=$candidate
done
[ -n "$library" ] ||
    die "no libclc, which has OpenCL's functions; Debian: apt-get install libclc-15 (set LIBCLC to nvptx64--nvidiacl.bc)"
[ -f "$library" ] || die "LIBCLC is $library, which is not there"

compilers=()
if [ -n "${CLANG:-}" ]; then
    compilers=("$CLANG")
else
    for candidate in clang clang-{21..14}; do
        command -v "$candidate" >/dev/null && compilers+=("$candidate")
    done
fi
[ ${#compilers[@]} -gt 0 ] || die "no clang >= 14; Debian: apt-get install clang-15 (set CLANG)"

# to_ptx SOURCE PTX DEFINE...: with the options of src/runtime/launch/program_cache.c.
to_ptx() {
    local source=$1 ptx=$2
    shift 2
    "$clang" -x cl -cl-std=CL1.2 -target nvptx64--nvidiacl -Xclang -target-cpu -Xclang "$ptx_arch" \
        -Xclang -finclude-default-header -Xclang -mlink-builtin-bitcode -Xclang "$library" \
        -O3 -S "$@" -o "$ptx" "$source"
}

# A clang reads a libclc of its own version or an older one.
echo 'kernel void probe(global float *x) { size_t i = get_global_id(0); x[i] = fma(x[i], 2, 1); }' \
    >"$work/probe.cl"
found=no
for clang in "${compilers[@]}"; do
    to_ptx "$work/probe.cl" "$work/probe.ptx" 2>"$work/probe.log" && found=yes && break
done
if [ $found = no ]; then
    head -3 "$work/probe.log" >&2
    die "none of ${compilers[*]} compiles OpenCL C with $library; clang must be as new as libclc (Debian: clang-15 and libclc-15)"
fi
"$ptxas" -arch="$arch" -o "$work/probe.cubin" "$work/probe.ptx" 2>"$work/probe.log" || {
    head -3 "$work/probe.log" >&2
    die "$ptxas does not compile for $arch"
}

# --- the report ----------------------------------------------------------------------------------

# make_ptx STEM FILE DEFINE...: $work/STEM.ptx of a program.
make_ptx() {
    local stem=$work/$1 file=$root/cl/$2
    shift 2
    to_ptx "$file" "$stem.ptx" "-I$root/cl" "$@" 2>"$stem.log" || {
        cat "$stem.log" >&2
        return 1
    }
}

# group_size FILE KERNEL DEFINE...: the reqd_work_group_size, which all kernels have.
group_size() {
    local file=$root/cl/$1 kernel=$2
    shift 2
    "$clang" -x cl -cl-std=CL1.2 -target nvptx64--nvidiacl -E -P "-I$root/cl" "$@" "$file" | tr '\n' ' ' |
        sed -n 's/.*reqd_work_group_size(\([0-9 *()]*\), 1, 1))) *void '"$kernel"'(.*/\1/p'
}

# occupancy REGISTERS LOCAL GROUP: percent of the warps of a multiprocessor, and what limits them.
# A warp takes registers in units of 256; each quarter of a multiprocessor has 16 Ki of them.
occupancy() {
    [ "$sm_warps" -gt 0 ] || { echo "- -"; return; }
    local warps registers bytes groups=$sm_groups by=groups limit
    warps=$((($3 + 31) / 32))
    registers=$((($1 * 32 + 255) & ~255))
    bytes=$((($2 + reserved + 127) & ~127))
    limit=$((sm_warps / warps))
    [ $limit -gt "$groups" ] || groups=$limit by=none
    limit=$((16384 / registers))
    limit=$((limit * 4 / warps))
    [ $limit -ge "$groups" ] || groups=$limit by=registers
    limit=$((sm_local / (bytes > 0 ? bytes : 1)))
    [ $limit -ge "$groups" ] || groups=$limit by=local
    echo "$((groups * warps * 100 / sm_warps)) $by"
}

row='%-23s %-62s %4s %5s %6s %6s %5s %6s %6s %5s %5s %s\n'
header=(kernel defines regs spill+ spill- stack local const div64 group occup limit)
# shellcheck disable=SC2059
printf "$row" "${header[@]}"
printf '%s\n' 'kernel,defines,registers,spill_store_bytes,spill_load_bytes,stack_bytes,local_bytes,constant_bytes,divisions_64bit,group_size,occupancy_percent,occupancy_limit' \
    >"$work/table.csv"

spills=0 failed=0
while read -r kernel defines; do
    [ "$wanted" = ' ' ] || [[ $wanted == *" $kernel "* ]] || continue
    read -r _ file < <(grep "^$kernel " "$work/kernels")
    read -r -a options <<<"-D${defines// / -D}"
    stem=$(basename "$file" .cl)-${defines// /-}
    if [ ! -f "$work/$stem.ptx" ] && ! make_ptx "$stem" "$file" "${options[@]}"; then
        echo "kernel-report: $kernel ($defines) does not compile" >&2
        failed=$((failed + 1))
        continue
    fi
    group=$(group_size "$file" "$kernel" "${options[@]}")
    [ -n "$group" ] || die "$kernel has no reqd_work_group_size(X, 1, 1)"
    group=$((group))
    # clang 14 and 15 leave out .reqntid, the required group size in PTX.
    awk -v kernel="$kernel" -v group="$group" -v known=$group_known '
        index($0, ".entry " kernel "(") { inside = 1 }
        inside && /^\.reqntid/ { next }
        inside && /^\{/ { if (known == "yes") print ".reqntid " group ", 1, 1"; inside = 0 }
        { print }' "$work/$stem.ptx" >"$work/kernel.ptx"
    if ! "$ptxas" -v -arch="$arch" -e "$kernel" -o "$work/kernel.cubin" "$work/kernel.ptx" \
        >"$work/ptxas.log" 2>&1; then
        cat "$work/ptxas.log" >&2
        echo "kernel-report: ptxas refuses $kernel ($defines)" >&2
        failed=$((failed + 1))
        continue
    fi
    # number PATTERN: the number before PATTERN in the log, 0 where it is absent.
    number() { sed -n "s/.*[^0-9]\([0-9][0-9]*\) $1.*/\1/p" "$work/ptxas.log" | tail -1 | grep . || echo 0; }
    registers=$(number registers) stores=$(number 'bytes spill stores')
    loads=$(number 'bytes spill loads') stack=$(number 'bytes stack frame')
    local_bytes=$(number 'bytes smem')
    # All banks: arguments, constant arrays, literals.
    constant=0
    while read -r size; do
        constant=$((constant + 16#$size))
    done < <(readelf -SW "$work/kernel.cubin" 2>/dev/null |
        sed -n 's/.*\] *\.nv\.constant[^ ]* *[A-Z_]* *[0-9a-f]* *[0-9a-f]* *\([0-9a-f]*\) .*/\1/p')
    divisions=$(awk -v kernel="$kernel" '
        index($0, ".entry " kernel "(") { inside = 1 }
        /^}/ { inside = 0 }
        inside && /(div|rem)\.[us]64/ { n++ }
        END { print n + 0 }' "$work/kernel.ptx")
    read -r percent limit < <(occupancy "$registers" "$local_bytes" "$group")
    cells=("$kernel" "$defines" "$registers" "$stores" "$loads" "$stack" "$local_bytes" "$constant"
        "$divisions" "$group" "$percent" "$limit")
    # shellcheck disable=SC2059
    printf "$row" "${cells[@]}"
    (IFS=, && printf '%s\n' "${cells[*]}") >>"$work/table.csv"
    [ $((stores + loads)) -eq 0 ] || spills=$((spills + 1))
done <"$work/sets"

echo
echo "$arch, $("$clang" --version | head -1), ptxas $("$ptxas" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')"
echo "regs: of a work-item; spill+ and spill-: bytes stored and loaded; stack, local, const: bytes;"
echo "div64: 64-bit divisions; occup: percent of the warps that fit a multiprocessor; limit: why not more"
if [ -n "$csv" ]; then
    mkdir -p "$(dirname "$csv")"
    cp "$work/table.csv" "$csv"
fi
[ $failed -eq 0 ] || {
    echo "kernel-report: $failed programs do not compile" >&2
    exit 1
}
[ $spills -eq 0 ] || {
    echo "kernel-report: $spills programs spill registers" >&2
    [ $allow_spills = yes ] || exit 1
}
