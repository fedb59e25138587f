#!/bin/sh
# Plants one bug at a time in the kernels and the host code of the operations, in a copy of the tree,
# and checks that a test notices it.
#   tests/long/mutants.sh [FOLDER [FILE [OLD]]]   FOLDER (default: a new temporary one) holds the copy and
#                                            its build; FILE: the bugs of one file only; OLD: only
#                                            the one that replaces this
# A missing barrier that PoCL's order of work-items hides is for oclgrind.sh to find.
# Exits 0 if every bug was caught, 2 if a test fails without one. Lists of shapes are short (CLPRUNE_TEST_SMALL).
export LC_ALL=C # a decimal point in every locale
unset CDPATH # with it, cd prints, and may go elsewhere
root=$(cd "$(dirname "$0")/../.." && pwd)
folder=${1:-$(mktemp -d)}
mkdir -p "$folder/tree"
(cd "$root" && tar cf - CMakeLists.txt include src cl tests tools) | (cd "$folder/tree" && tar xmf -) # m: newer than what an earlier run built
cmake -S "$folder/tree" -B "$folder/build" -DCMAKE_BUILD_TYPE=Release -DCLPRUNE_TESTS=ON \
    -DCLPRUNE_EXAMPLES=OFF -DCLPRUNE_TOOLS=OFF >/dev/null || exit 2
export CLPRUNE_TEST_SMALL=1 CLPRUNE_CACHE_DIR=off POCL_CACHE_DIR="$folder/pocl"
mkdir -p "$POCL_CACHE_DIR"
only=${2:-}
only_old=${3:-}
missed=0 sound=

# mutant TEST FILE OLD NEW: replaces the first OLD (a fixed string) of FILE, anywhere in cl/ or src/ops/, by NEW.
mutant() {
    [ -z "$only" ] || [ "$only" = "$2" ] || return
    [ -z "$only_old" ] || [ "$only_old" = "$3" ] || return
    file=$(cd "$root" && find cl src/ops -name "$2")
    case $2 in
    conv_vector.cl | conv_strip_vector.cl | conv_dw_vector.cl | conv_dw_tiled.cl | conv_dw_pruned_vector.cl | conv_dw_pooled_vector.cl | column_sum.cl) all="env -u CLPRUNE_TEST_SMALL" ;; # only many or large ones take several parts
    conv_dw_bf16_vector.cl | bspmm_pairs.cl) all="env -u CLPRUNE_TEST_SMALL CLPRUNE_TEST_KERNELS=vector CLPRUNE_PRECISION=bf16" ;;
    *_bf16* | *pairs.cl | pair_rows.clh) all="env CLPRUNE_TEST_KERNELS=vector CLPRUNE_PRECISION=bf16" ;;
    pairs.clh) all="env CLPRUNE_TEST_KERNELS=vector CLPRUNE_PRECISION=bf16 CLPRUNE_DEBUG=bf16=converted" ;;
    *) all= ;;
    esac
    case " $sound " in
    *" $1,$all, "*) ;;
    *)
        cmake --build "$folder/build" --target "$1" >/dev/null || exit 2
        $all "$folder/build/bin/$1" >"$folder/out" 2>&1 || {
            echo "$1 fails without a bug:"
            tail -20 "$folder/out"
            exit 2
        }
        sound="$sound $1,$all,"
        ;;
    esac
    OLD=$3 NEW=$4 awk '!done && (at = index($0, ENVIRON["OLD"])) {
        $0 = substr($0, 1, at - 1) ENVIRON["NEW"] substr($0, at + length(ENVIRON["OLD"])); done = 1 }
        { print } END { exit !done }' "$root/$file" >"$folder/tree/$file" || {
        echo "STALE   $2: no '$3'"
        missed=1
        cp "$root/$file" "$folder/tree/$file"
        return
    }
    cmake --build "$folder/build" --target "$1" >/dev/null || exit 2
    if $all "$folder/build/bin/$1" >"$folder/out" 2>&1; then
        echo "MISSED  $2: '$3' -> '$4'"
        missed=1
    elif grep -q 'clBuildProgram failed\|BUILD_FAILED' "$folder/out"; then
        echo "INVALID $2: '$3' -> '$4' does not compile"
        missed=1
    else
        echo "caught  $2: '$3' -> '$4' ($(grep -c '^\[  FAILED  \]' "$folder/out") lines of $1)"
    fi
    cp "$root/$file" "$folder/tree/$file"
}

mutant test_matrix rowwise.clh 'FIRST_ROW + group_rows, rows' 'FIRST_ROW + group_rows - 1, rows'
mutant test_gemm fill.cl 'factor * GET' 'GET'
mutant test_gemm gemm_tiled.cl 'inner > k + 4 ? inner - k - 4 : 0' '4'
mutant test_gemm gemm_tiled.cl 'row < inner ? count - column : 0' 'count - column'
mutant test_gemm gemm_tiled.cl 'first_row + r / 4 * 32' 'first_row + r / 4 * 16'
mutant test_gemm gemm_tiled.cl 'b_offset + get_group_id(2) * stride_b' 'b_offset + stride_b'
mutant test_quantise gemm_tiled.cl 'get_group_id(2) * stride_b' 'stride_b'
mutant test_conv2d conv_vector.cl 'j < g.source_width' 'j <= g.source_width'
mutant test_conv2d gather.clh 'u * g.spread_y + g.shift_y) * g.result_width' 'u * g.spread_y) * g.result_width'
mutant test_conv2d conv_vector.cl 'is_first ? beta : 1.0f' 'beta'
mutant test_conv2d conv_vector.cl 'any |= inside' 'any = inside'
mutant test_conv2d conv_vector.cl 'if (find_sources(source, &at, t, g, from_ld, nothing))' 'if (!find_sources(source, &at, t, g, from_ld, nothing)) weights -= k * PANEL; else'
mutant test_conv2d conv_vector.cl 'p.images = min(grid.block, grid.batch - p.first);' 'p.images = grid.block;'
mutant test_conv2d conv_vector.cl '    p.first += p.images;' ';'
mutant test_conv2d conv_weights.cl 't / taps_x * weight_step_y' 't / taps_x'
mutant test_conv2d conv_tiled.cl 'if (at->c < k)' 'if (at->c <= k)'
mutant test_conv2d gather.clh 'v * g.spread_x + g.shift_x' 'v * g.spread_x'
mutant test_conv2d layer.clh '(first + stride - 1) / stride' 'first / stride'
mutant test_conv2d conv_dw_vector.cl 'min(top + segment_height, height)' 'height'
mutant test_conv2d conv_dw_pooled_vector.cl 'min(top + segment_height, grid.rows)' 'grid.rows'
mutant test_conv2d conv_dw_pooled_vector.cl 'shift) / side + 1)' 'shift) / side)'
mutant test_conv2d conv_dw_pooled_vector.cl 'grid.rows + down.x + y' 'grid.rows + y'
mutant test_conv2d conv_dw_tiled.cl 'const bool there = r < last;' 'const bool there = true;'
mutant test_conv2d conv_dw_tiled.cl 'first_channel + 32 * h' 'first_channel + 16 * h'
mutant test_conv2d conv_dw_tiled.cl 'reaching(0, (int)height' 'reaching(0, (int)height - 1'
mutant test_conv2d conv_dw_tiled.cl 'x.groups + (pixel)*x.groups_ld' 'x.groups'
mutant test_conv2d tiled_tn.clh 'from % stride == 0 &&' ''
mutant test_conv2d layer.clh 't % a.kernel_width' '0'
mutant test_conv2d conv_lists.cl '(y - first) % stride_y * stride_x' '0'
mutant test_conv2d conv_lists.cl 'x += stride_x, position++' 'x += stride_x'
mutant test_conv2d conv_lists.cl 'for (int k = at[0]' 'for (int k = at[1]'
mutant test_forms centre.clh '((x) - LOAD((centre) + (c)))' '(x)'
mutant test_forms centre.clh '((x) - (centre)[c])' '(x)'
mutant test_forms centre.clh '((x) - LOAD16((centre) + (c)))' '(x)'
mutant test_forms prune_score.cl 'CENTRE_ROW(n)' 'CENTRE_ROW(0)'
mutant test_forms bsr_pack.cl '= CENTRE_ROW(n)' '= CENTRE_ROW(0)'
mutant test_conv2d conv_tap_sums.cl '- padding_x < width' '- padding_x <= width'
mutant test_conv2d conv_tap_sums.cl 'to[k * KH * KW + t]' 'to[t * VW + k]'
mutant test_token_mean token_mean.cl 'GET(dy, r / tokens, c) * scale' 'GET(dy, 0, c) * scale'
mutant test_upsample upsample.cl 'line / tall * width' 'line * width'
mutant test_upsample upsample.cl 'a * width * wide + b' 'a * width + b'
mutant test_conv2d conv_dw_pruned_vector.cl '/ stride + 1, most)' '/ stride + 1, most + 1)'
mutant test_conv2d conv_dw_pruned_vector.cl '(uint)(j * BC) + c' 'c'
mutant test_conv2d conv_dw_pruned_vector.cl '(of - reach) / stride' '-reach / stride'
mutant test_conv2d conv_dw_pruned_vector.cl 'i < a.height && j < a.width' 'i < a.height'
mutant test_batch_norm batch_norm_forward.cl 'mask_apply(z, ROW(mask, r), c)' 'relu_of(z)'
mutant test_image image.cl 'r % pixels' 'r'
mutant test_image image.cl 'IMAGE_VALUE(images, c,' 'IMAGE_VALUE(images, 0,'
mutant test_image image_bytes.clh 'x##_bytes + x##_first' 'x##_bytes'
mutant test_image patch_embed.cl 'k / ((ulong)PATCH * PATCH), from' 'k / PATCH, from'
mutant test_image patch_embed.cl 'cols / ((ulong)PATCH * PATCH) * height' 'cols * height'
mutant test_linear gemm_tiled.cl 'bias_offset + row' 'bias_offset + column'
mutant test_prune score.clh 'block = row + j * BC' 'block = row + j * BC + 1'
mutant test_prune score.clh 'a > b || isnan(a)' 'a > b'
mutant test_prune score.clh 'b.s0145' 'b.s0167'
mutant test_prune score.clh 'a.s4567, a.scdef, b.s4567, b.scdef), sums[i]' 'a.s4567, a.scdef, b.s4567, b.scdef), 0.0f'
mutant test_prune score.clh '(a.s0123, a.s89ab, b.s0123, b.s89ab), 0.0f' '(a.s0123, b.s0123, a.s89ab, b.s89ab), 0.0f'
mutant test_prune score.clh 'row + i * BC + c' 'row + i * BC'
mutant test_prune score.clh 'sum > SAFE_LOW && sum < SAFE_HIGH;' 'sum < SAFE_HIGH;'
mutant test_prune prune_score.cl 'n * rows + block_row * BR' 'n * rows + block_row'
mutant test_prune prune_select.cl 'rank++ < left' 'rank++ <= left'
mutant test_prune prune_key.clh 'isnan(score)' 'isinf(score)'
mutant test_prune prune_select.cl 'barrier(CLK_LOCAL_MEM_FENCE);' ''
mutant test_prune_sampled draw.clh 'mix(mix((uint)(seed >> 32) + 0x9e3779b9u) ^ (uint)seed)' '0x9e3779b9u'
mutant test_prune_sampled draw.clh ' + (uint)sample * 0x9e3779b9u' ''
mutant test_prune_sampled draw.clh 'mix##N(i ^ key)' 'mix##N(i)'
mutant test_prune_sampled prune_draw.cl '(seed, first_sample + n)' '(seed, n)'
mutant test_prune_random prune_draw.cl '(seed, first_sample + n)' '(seed, n)'
mutant test_prune_random prune_random.c '(double)blocks / (double)bsr->desc.keep' '(double)bsr->desc.keep / (double)blocks'
mutant test_prune prune_select_vector.cl 'i++' 'i += 2'
mutant test_prune prune_select_vector.cl ': -INFINITY' ': INFINITY'
mutant test_prune prune_select_vector.cl 'min(max(keys, upper << 16), upper << 16 | 0xffff)' 'keys'
mutant test_prune prune_select_vector.cl 'key_of(scores[i]) == t' 'mask[i]'
mutant test_prune_sampled prune_select_vector.cl 'better ? (uint16)(0) : keys' 'keys'
mutant test_prune_sampled prune_select_vector.cl 'best[0] = t;' ''
mutant test_bsr bsr_index.cl 'order[others] << 8' 'order[others] << 9'
mutant test_bsr bsr_index.cl 'next + 8 <= keep' 'next <= keep'
mutant test_prune_sampled prune_select.cl 'kept ? best : max(best, key)' 'max(best, key)'
mutant test_prune_sampled weight.clh '? threshold / score' '? 1.0f'
mutant test_prune_sampled weight.clh 'select(v, clamp(v, -MOST, MOST), isfinite(x))' 'v'
mutant test_prune_sampled prune_draw.cl 'is_large ? 0x1p-32f' 'is_large ? 1.0f'
mutant test_prune score.clh 'fmin(ldexp(sqrt(sum), shift), FLT_MAX)' 'ldexp(sqrt(sum), shift)'
mutant test_prune score.clh 'm < INFINITY ? FLT_MAX : m' 'INFINITY'
mutant test_prune_sampled bsr_pack.cl 'const float weight = WEIGHT(k)' 'const float weight = 1.0f'
mutant test_bsr bsr_index.cl 'next += marked_in_run[i]' 'next += marked_in_run[0]'
mutant test_bsr_index bsr_index.cl 'fill -= fills' 'fill -= 0'
mutant test_bsr_index bsr_index.cl 'fill = (uint)keep - next' 'break'
mutant test_bsr_index bsr_index.cl 'if (marked != keep)' 'if (false)'
mutant test_bsr_index bsr_index.cl 'KEPT(i) << i % 8' 'KEPT(i) << (7 - i % 8)'
mutant test_bsr_index bsr_index.cl '>> (i) % 8 & 1u' '>> (7 - (i) % 8) & 1u'
mutant test_bsr_index bsr_index.cl 'b * 8 + 8, blocks' 'b * 8 + 7, blocks'
mutant test_bsr_index bsr_index.cl 'crow[row] = (int)min((ulong)next, keep)' 'crow[row] = (int)next'
mutant test_bsr_index bsr_index.cl 'bitmap += bitmap_offset + n * bytes' 'bitmap += n * bytes'
mutant test_bsr_values bsr_widen.cl 'const float scale = SCALE(b)' 'const float scale = SCALE(begin)'
mutant test_bsr_values bsr_values.clh 'bits + 0xffffu' 'bits + 0x7fffu'
mutant test_bsr_values bsr_values.clh 'scale < 0x1p-126f' 'scale < 0x1p-124f'
mutant test_bsr_values bsr_values.clh 'bits > 0x7f800000u ? 0x7fc0u' 'false ? 0x7fc0u'
mutant test_bsr bsr_pack.cl 'r < height ? width : 0' 'width'
mutant test_bsr bsr_pack.cl 'LESS(row[r * x_ld + c], centre_row, c)' 'LESS(row[r * x_ld], centre_row, c)'
mutant test_bsr bsr_pack.cl 'e / cols * y_ld' 'e / cols * cols'
mutant test_bspmm bspmm_lists.cl 'for (int k = CROW(i); k < CROW(i + 1); k++)' 'for (int k = CROW(i) + 1; k < CROW(i + 1); k++)'
mutant test_linear bspmm_lists.cl '(i) * (keep / block_rows)' '(i) * keep'
mutant test_linear bspmm.c 'desc->keep *= run;' ''
mutant test_linear bspmm.c 'desc->rows *= run;' ''
mutant test_linear bspmm.c 'desc->batch = samples;' 'desc->batch = 1;'
mutant test_linear bspmm.c 'sizes->block_rows = run;' 'sizes->block_rows = desc->batch;'
mutant test_bspmm bspmm_lists.cl 'col[middle] < j' 'col[middle] <= j'
mutant test_bspmm partial_tile.clh '(ulong)entry[0] * PANEL' '(ulong)((entry[0] + 1) % SEG) * PANEL'
mutant test_bspmm partial_tile.clh 'for (; entry < end' 'for (entry += 2; entry < end'
mutant test_bspmm bspmm_tn_vector.cl 'n == mine.first &&' 'false &&'
mutant test_bspmm bspmm_tn_vector.cl 'count == 0 && !s.fresh' 'count == 0'
mutant test_bspmm bspmm_tn_tiled.cl 'min(e, count - 1)' 'min(e + 1, count - 1)'
mutant test_bspmm bspmm_nt_vector.cl 'entry[r] = entries[e + r]' 'entry[r] = entries[e + r / 2]'
mutant test_bspmm bspmm_nt_vector.cl 'for (; e < end; e++)' 'for (; e + 1 < end; e++)'
mutant test_bspmm bspmm_nt_tiled.cl 'n * outputs + first_output' 'first_output'
mutant test_bspmm bspmm_nn.cl 'ulong first = (ulong)col[k] * BC' 'ulong first = (ulong)col[k]'
mutant test_bspmm bspmm_finish.cl 's < splits' 's + 1 < splits'
mutant test_gemm gemm_vector.cl 'k == 0 ? beta' 'true ? beta'
mutant test_gemm product_tile.clh 'fma(old, to[r][j], value)' 'value'
mutant test_linear gemm_vector.cl 'if (k == 0)' 'if (k != 0)'
mutant test_linear gemm_vector.cl 'first_row + r)' 'r)'
mutant test_quantise quantise.cl 'min((group + 1) * GROUP, cols)' 'min((group + 1) * GROUP, cols - cols % 16)'
mutant test_quantise quantise.cl 'first_sample + row / sample_rows' 'row / sample_rows'
mutant test_quantise quantise.cl 'first_sample + first / sample_rows' 'first / sample_rows'
mutant test_quantise quantise.cl 'draw_sample(seed, ++number)' 'draw_sample(seed, number)'
mutant test_quantise quantise.cl 'at * cols, mix(sample)' '0, mix(sample)'
mutant test_quantise quantise.cl 'bits + 0xffffu : bits' 'bits : bits'
mutant test_quantise quantise.clh 'c * BITS % 32) & LEVELS' 'c * BITS % 16) & LEVELS'
mutant test_quantise quantise_panel.clh '(r + i) * b.ld' 'r * b.ld'
mutant test_quantise gemm_tiled.cl 'row < inner && column < count ? count - column : 0' 'column < count ? count - column : 0'
mutant test_gemm panel.clh 'const float16 x = row[i], y = row[i + 1];' 'const float16 x = row[i + 1], y = row[i];'
mutant test_gemm panel.clh 'to[i * pitch + r] = from[r * ld + i];' 'to[i * pitch + r] = from[r * ld];'
mutant test_mma mma.clh '(t) + 4 * (i)' '(t) + 2 * (i)'
mutant test_mma mma.clh '(i) % 2 + 8 * ((i) / 2)' '(i) % 2 + 4 * ((i) / 2)'
mutant test_mma mma.clh '(bits + 0x1000u)' '(bits + 0x0fffu)'
mutant test_mma mma.clh '(bits + 0x7fffu + (bits >> 16 & 1u))' '(bits + 0x8000u)'
mutant test_mma mma.clh 'mma_round(low) | mma_round(high) << 16' 'mma_round(high) | mma_round(low) << 16'
mutant test_mma mma.clh 'lane / 4, k, r / 2, 2)' 'lane / 4, k, r % 2, 2)'
mutant test_mma mma_probe.cl '8 * MMA_K' '4 * MMA_K'
mutant test_mma mma_gather.clh '(d[0].zw, d[1].zw)' '(d[1].zw, d[0].zw)'
mutant test_mma mma_gather.clh '(low.x, high.x, low.z, high.z)' '(low.x, low.z, high.x, high.z)'
mutant test_mma tiled.clh '(uint2)(SEG, 0)' '(uint2)(0, 0)'
mutant test_mma bspmm_tn_mma.cl 'lane / 4 * N_TILES' 'lane / 4'
mutant test_mma bspmm_tn_mma.cl 'there && column' 'column'
mutant test_mma bspmm_tn_mma.cl 'value[2 * N_TILES + j], value[3 * N_TILES + j]' 'value[3 * N_TILES + j], value[2 * N_TILES + j]'
mutant test_mma bspmm_tn_mma.cl '(low.x, low.z, high.x, high.z)' '(low.x, high.x, low.z, high.z)'
mutant test_mma bspmm_tn_mma.cl 'c + N_TILES < CT' 'false'
mutant test_mma bspmm_tn_mma.cl 'e < count + MMA_K' 'e < count'
mutant test_mma bspmm_tn_mma.cl 'i % M_TILES * 16' 'i % M_TILES * 8'
mutant test_mma tiled_nt.clh 'segments * (block_cols + 1) - block_cols' 'segments * (block_cols + 1)'
mutant test_mma bspmm_nt_mma.cl 'EACH * t + v < CT ?' 'true ?'
mutant test_mma bspmm_nt_mma.cl 'list[e + 2 * t + 1].x' 'list[e + 2 * t].x'
mutant test_mma bspmm_nt_mma.cl '(p.z, q.z, p.w, q.w)' '(p.z, p.w, q.z, q.w)'
mutant test_mma bspmm_nt_mma.cl 'EACH * (lane % 4) + MMA_EACH * s' 'EACH * (lane % 4) + MMA_EACH * (STEPS - 1 - s)'
mutant test_mma bspmm_nt_mma.cl 'min(e + 8, (uint)LIST - 8)' 'e'
mutant test_relu relu_mask.clh '(c + left + 31) / 32 * 4' '(c + left) / 32 * 4'
mutant test_relu relu.cl 'in += GET(b, 0, c);' ';'
mutant test_relu relu.cl 'sum += gradient' 'sum = gradient'
mutant test_batch_norm relu_mask.clh 'z <= zero ? zero : d' 'z < zero ? zero : d'
mutant test_batch_norm_statistics batch_norm_statistics.cl 'd * (n * share)' 'd * n'
mutant test_batch_norm_statistics batch_norm_statistics.cl 'sum * (1.0f / TAKE)' '0'
mutant test_batch_norm_statistics batch_norm_statistics.cl 'top + SLICE + k * ROW_SLICES' 'top + k * ROW_SLICES'
mutant test_batch_norm_statistics batch_norm_statistics.cl '(float)before / n' '1.0f / n'
mutant test_batch_norm_statistics batch_norm_statistics.cl '(count - 1.0f)' 'count'
mutant test_batch_norm batch_norm_forward.cl 'Z(GET(x, r, c) - middle, r, c)' 'Z(GET(x, r, c), r, c)'
mutant test_batch_norm batch_norm_backward_sums.cl 'part[LOCAL + me + s]' 'part[me + s]'
mutant test_batch_norm batch_norm_backward_input.cl '-unit * (share' '-(share'
mutant test_batch_norm_product batch_norm_product.cl 'fma(-middle, plain, along)' 'along'
mutant test_batch_norm_product batch_norm_product.cl 'fma((vec)(-middle), patch, GET(x_product, o, t))' 'GET(x_product, o, t)'
mutant test_batch_norm_product batch_norm_product.cl 'share * plain' '0'
mutant test_max_pool max_pool.cl '(ivec)(BLOCKED) : at' 'at : at'
mutant test_max_pool max_pool.cl 'v > best' 'v >= best'
mutant test_max_pool max_pool.cl ' | v != v' ''
mutant test_max_pool max_pool.cl '(c + left + 15) / 16 * 8' '(c + left) / 16 * 8'
mutant test_max_pool max_pool.cl '(tap_y - a * stride_y) * taps_x' '(tap_y - a * stride_y) * taps_y'
mutant test_conv2d conv_strip_vector.cl 'at < across.size' 'at <= across.size'
mutant test_conv2d conv_strip_vector.cl 'phase_x * s.line_size + c * s.pitch' 'c * s.pitch'
mutant test_conv2d conv_strip_vector.cl 'ROW(bias, 0) + column' 'ROW(bias, 0)'
mutant test_conv2d conv_strip_vector.cl 'first_image + m, top + u' 'first_image + m, u'
mutant test_pool pool.cl 'min(x + cell, width)' 'x + cell'
mutant test_pool pool.cl '(sum) / count' '(sum) / (float)(cell * cell)'
mutant test_pool pool.cl 'place % width / cell' 'place / cell'
mutant test_pool pool.cl 'fma(beta, *to, sum)' 'sum'
mutant test_add add.cl '(vec)(beta)' '(vec)(alpha)'
mutant test_affine affine.cl 'dx_beta * GET(dx, r, c)' 'GET(dx, r, c)'
mutant test_affine affine.cl 'dbeta += d;' 'dbeta = d;'
mutant test_layer_norm layer_norm.clh 'cols - (c), middle)' 'cols - (c), 0)'
mutant test_layer_norm layer_norm.cl 'mean = about + off;' 'mean = about;'
mutant test_layer_norm layer_norm.cl 'fma(-off, off, team_sum(part, SUM(squares)) / n)' 'team_sum(part, SUM(squares)) / n + 1e-6f'
mutant test_layer_norm layer_norm.cl 'rough < 0 ? 0 : rough' 'rough > 0 ? rough : 0'
mutant test_layer_norm layer_norm_backward.cl 'g - offsets[r - top]' 'g - offsets[0]'
mutant test_layer_norm layer_norm_backward.cl 'offsets[r - top] = offset;' 'offsets[r - top] = slope;'
mutant test_layer_norm layer_norm_backward.cl 'top, min(top + STRIP, last_row)' 'top, min(top + STRIP - 1, last_row)'
mutant test_layer_norm layer_norm_backward.cl 'dbeta += d;' 'dbeta = d;'
mutant test_layer_norm layer_norm_backward.cl '(vec)(dx_beta), GET' '(vec)(1.0f), GET'
mutant test_attention attention.clh 'p->mass[v] *= factor[v];' ';'
mutant test_attention attention_backward.cl '- mean[query + i]' '- mean[query]'
mutant test_attention attention_backward_whole.cl 'slope = fma(s[j][v], dp[j][v], slope);' ';'
mutant test_attention attention_forward.cl 'HEAD_ROWS(v, sample, head / share)' 'HEAD_ROWS(v, sample, 0)'
mutant test_attention attention_drop.clh 'MIX_VEC(query + d.stream) ^ key' 'MIX_VEC(query + d.stream)'
mutant test_affine affine_product.cl 'shift * sum' 'middle * sum'
mutant test_bias bias.cl 'r % tokens' 'r / tokens'
mutant test_bias column_sum.cl 's < SLICES' 's < SLICES - 1'
mutant test_bias column_sum.cl 'g = slice; g < groups' 'g = slice; g + 1 < groups'
mutant test_cross_entropy cross_entropy.cl 'logits < (vec)(label_logit) ? zero : one' 'logits <= (vec)(label_logit) ? zero : one'
mutant test_cross_entropy cross_entropy.cl 'fma(on, label_logit - max_n - log_mass, smooth)' '(label_logit - max_n - log_mass)'
mutant test_dropout dropout.cl 'row = first_row + r' 'row = r'
mutant test_dropout draw.clh '(uint)(n >> 32)' '0'
mutant test_mean_squared_error mean_squared_error.cl 'v -= vectors;' ';'
mutant test_mean_squared_error mean_squared_error.cl 'min(part_rows, sample_rows - top)' 'part_rows'
mutant test_mean_squared_error mean_squared_error.cl 's / across / down * sample_rows' '0'
mutant test_gelu nn.clh 'bounded * 0.39894228f' 'bounded * 0.3989f'
mutant test_gelu nn.clh '(k - half_k + 127)' '(half_k + 127)'
mutant test_gelu gelu.cl 'sum += gradient' 'sum = gradient'
mutant test_activation gelu.cl 'PUT(value, g, r, c)' 'PUT(gradient, g, r, c)'
mutant test_activation gelu.cl 'QUANTISED(h, r)' 'QUANTISED(h, 0)'
mutant test_activation gelu.cl 'dequantise_one(row.codes, row.groups, c + i)' 'dequantise_one(row.codes, row.groups, c)'
mutant test_gelu_code gelu_code.cl 'from[lane] + half_way - 1' 'from[lane] + half_way'
mutant test_gelu_code gelu_code.cl 'lane % PER_BYTE * BITS' 'lane % PER_BYTE'
mutant test_layerscale layerscale.cl 'row_sums_add(own, r - top, gradient)' 'row_sums_add(own, r - top, d)'
mutant test_layerscale layerscale_product.cl 'fma(AT(b, 0, o), AT(db, 0, o), total)' 'total'
mutant test_token_mix row_sums.clh 'i += slices)' 'i += slices + slices)'
mutant test_token_mix token_mix.cl 'token + 1 == tokens ? 0 : token + 1' 'token + 1'
mutant test_optimizer_many optimizer.clh 'min((row + 1) * t.cols, last)' 'last'
mutant test_optimizer optimizer_clip.cl 't.partial + chunk' 't.partial'
mutant test_optimizer_codes moment_codes.clh 'x > 0 ? one : zero' 'zero'
mutant test_optimizer_codes moment_codes.clh '| (codes & 128) << 24' ''
mutant test_optimizer_codes moment_codes.clh 'most_of_all < FLT_MIN && most_of_all > 0 ? FLT_MIN : most_of_all' 'most_of_all'
mutant test_optimizer_codes moment_codes.clh 'scale <= FLT_MAX ? scale : NAN' 'scale'
mutant test_optimizer_codes moment_codes.clh 'slope *= 0.2f' 'slope *= 0.2001f'
mutant test_optimizer_codes moment_codes.clh 'base - 1.0f' 'base - 0.9f'
mutant test_optimizer_codes moment_codes.clh 'VW)(code + u)' 'VW)(code + 0.5f + 0 * u)'
mutant test_optimizer_codes moment_codes.clh '0x1.ffcp-17f' '0x1.ffp-17f'
mutant test_optimizer_codes moment_codes.clh '(t.count + 3) / 4' 't.count / 4'
mutant test_optimizer_codes moment_codes.clh 'block + BLOCK <= last' 'block + BLOCK <= last + 8'
mutant test_optimizer_codes moment_codes.clh 'p[i + k + (i + k) / cols * gap] : 0' 'p[i + k + row * gap] : 0'
mutant test_optimizer_codes moment_codes.clh 'p[i + k + (i + k) / cols * gap] = ' 'p[i + k + row * gap] = '
mutant test_optimizer_codes moment_codes.clh 'team_max(part, as_float(min(bits, 0x7f800000)))' 'as_float(min(bits, 0x7f800000))'
mutant test_optimizer_codes optimizer.cl 'if (get_local_id(0) == 0)' 'if (get_local_id(0) == 1)'
mutant test_patch_embed patch_embed.cl 'line % PATCH) * width' 'line / PATCH) * width'
mutant test_bias row_sum.cl 'own += GET(x, r, c);' 'own = GET(x, r, c);'
mutant test_forms sample_sum.cl 'READ_DW ? fma(beta, AT(dw, row, c), sum) : sum' 'sum'
mutant test_gemm pairs.clh '(size + 0x7fffu + (size >> 16 & 1u)) >> 16' 'size >> 16'
mutant test_mma pairs.clh '0x7fffu + (size >> 16 & 1u)' '0x8000u'
mutant test_bspmm pairs.clh 'size < 0x00800000u' 'size < 1u'
mutant test_gemm pairs.clh '(float16)(x.even, y.even), (float16)(x.odd, y.odd)' '(float16)(x.odd, y.odd), (float16)(x.even, y.even)'
mutant test_gemm pairs.clh 'i < count ? from[i] : 0.0f' 'from[i]'
mutant test_gemm gemm_bf16_vector.cl 'k + 1 < depth ? inside : 0' 'inside'
mutant test_gemm gemm_bf16_vector.cl 'k + 1 < depth ? rows - r : 0' 'rows - r'
mutant test_gemm gemm_bf16_vector.cl '(deep + 1) / 2' 'deep / 2'
mutant test_gemm gemm_bf16_vector.cl 'round_pairs(low, high)' 'round_pairs(high, low)'
mutant test_gemm gemm_bf16_vector.cl 'first16(a + k + 16, left_of(depth, k + 16))' 'first16(a + k + 16, 16)'
mutant test_bspmm bspmm_pairs.cl 'e + 1 < l.end ? l.entries[e + 1].x : zero_row' 'l.entries[e].x'
mutant test_bspmm bspmm_pairs.cl 'begin + 1, w)' 'begin, w)'
mutant test_bspmm bspmm_pairs.cl '(begin + first_list + j) / 2' '(begin + j) / 2'
mutant test_bspmm bspmm_tn_bf16_vector.cl '(count + 1) / 2' 'count / 2'
mutant test_conv2d pair_rows.clh 'row[1] == SEG ? SEG : row[1] + shift' 'row[1] + shift'
mutant test_conv2d conv_pairs.cl 'c + 1 < cols ? row[c + 1] : 0.0f' 'row[c + 1]'
mutant test_conv2d conv_dw_bf16_vector.cl 'v + 1 < s.right ? inside : 0' 'inside'
mutant test_conv2d conv_dw_bf16_vector.cl 'high < (int)a.image_width ? w.depth : 0' 'true ? w.depth : 0'
mutant test_conv2d conv_weights_bf16.cl 'min(16u, pairs - c / 2)' 'min(16u, pairs - c / 2 - 1)'
exit "$missed"
