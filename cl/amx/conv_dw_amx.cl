/* Weight gradient of a convolution by AMX, with x and dy rounded to bf16, as the product of dy^T and the sources:
 *
 *     dw[o][t * C + c] = sum over result pixels p of dy[p][o] * x[source(p, t)][c] + beta * dw[o][t * C + c]
 *
 * source as in conv_dw_vector.cl. Group (g, m, split) makes, for the images [split * images, ...), the panels
 * [g * panel_run, (g + 1) * panel_run) of the columns of dw, and its rows [m * MC, (m + 1) * MC). It takes KC pixels at a
 * time: it packs dy^T, then the pairs of sources under a tap for up to PANELS panels at once, and multiplies them. PANEL divides
 * C.
 *
 *        dy^T: o x pairs              sources: pairs x PANEL            to: o x PANEL
 *
 * to: dw if `products` is 0, else rows [split * outputs, ...) of a matrix of partial sums. With BITS 16 x is quantised.
 *
 * Local memory: (MC + PANELS * PANEL) * KC * 2 bytes, and KC * 16. 32 divides MC and KC. */
#include "conv/layer.clh"
#include "amx/amx.clh"
#include "prelude/product_tile.clh"
#include "prelude/quantise.clh"
#if !defined(MC) || !defined(KC) || !defined(PANELS)
#error "conv_dw_amx.cl needs MC, KC and PANELS"
#endif

/* x as a parameter, and 16 of its elements as the lower or the upper halves of words. */
#ifdef BITS
#define CONV_DW_AMX conv_dw_amx_quantised
#define X_IN        QUANTISED_IN(x)
#define X_FIRST     ((global const ushort *)(x_codes + x_codes_offset))
#define X_LD        (2 * x_ld)
typedef ushort x_type;
typedef ushort16 __attribute__((aligned(2))) ushort16_anywhere;
static inline uint16 pairs_of(global const ushort *low, global const ushort *high, const bool first, const bool second)
{
    const uint16 zero = 0;
    return (first ? convert_uint16(*(global const ushort16_anywhere *)low) : zero) |
           (second ? convert_uint16(*(global const ushort16_anywhere *)high) : zero) << 16;
}
#else
#define CONV_DW_AMX conv_dw_amx
#define X_IN        MAT_IN_RESTRICT(x)
#define X_FIRST     ROW(x, 0)
#define X_LD        x_ld
typedef float x_type;
static inline uint16 pairs_of(global const float *low, global const float *high, const bool first, const bool second)
{
    const float16 zero = 0;
    return round_pairs(first ? LOAD16(low) : zero, second ? LOAD16(high) : zero);
}
#endif

/* Of a result pixel: its first pixel of x, image by image, and the coordinates of its source before a tap is added. */
typedef struct origin {
    ulong image;
    int y, x;
} origin;

static inline void list_origins(local origin *to, const layer a, ulong pixel, const uint count)
{
    uint v = (uint)(pixel % a.width), u = (uint)(pixel / a.width % a.height);
    ulong image = pixel / a.width / a.height;
    for (uint i = 0; i < count; i++) {
        to[i].image = image * a.image_height * a.image_width;
        to[i].y = (int)u * a.stride_y - a.padding_y;
        to[i].x = (int)v * a.stride_x - a.padding_x;
        if (++v == a.width) {
            v = 0;
            if (++u == a.height)
                u = 0, image++;
        }
    }
}

/* panels[j][i][..] = the pairs of PANEL channels, from x + j * PANEL on, of the sources of pixels 2 i and 2 i + 1 under a tap,
 * for j < `some`. */
static inline void pack_sources(local uint *panels, const uint some, local const origin *pixels, const uint count,
    const layer a, const int2 shift, global const x_type *x, const ulong ld)
{
    for (uint i = 0; i < (count + 31) / 32 * 32; i += 2) {
        global const x_type *from[2];
        bool inside[2];
        UNROLLED(h, 2) {
            const origin p = pixels[min(i + h, count - 1)];
            const int y = p.y + shift.y, column = p.x + shift.x;
            inside[h] = i + h < count && (uint)y < a.image_height && (uint)column < a.image_width;
            from[h] = x + (inside[h] ? (p.image + (ulong)y * a.image_width + (ulong)column) * ld : 0);
        }
        local uint *to = panels + i / 2 * PANEL;
        for (uint c = 0; c < some * PANEL; c += PANEL, to += KC / 2 * PANEL)
            FOR_VECTORS_OF_ROW(h)
                *(local uint16 *)(to + 16 * h) =
                    pairs_of(from[0] + c + 16 * h, from[1] + c + 16 * h, inside[0], inside[1]);
    }
}

KERNEL_OF(1) CONV_DW_AMX(const ulong batch, const ulong images, const uint channels, const uint outputs,
    LAYER_PARAMETERS, const ulong panel_run, const uint products, const float beta, X_IN, MAT_IN_RESTRICT(dy),
    MAT_OUT_RESTRICT(to))
{
    LOCAL_FLOATS(a_floats, KC / 2 * MC);
    LOCAL_FLOATS(panel_floats, KC / 2 * PANEL * PANELS);
    local origin pixels[KC];
    local uint *a = (local uint *)a_floats, *panels = (local uint *)panel_floats;
    const layer l = LAYER;
    const uint first_row = (uint)get_group_id(1) * MC, rows = min((uint)MC, outputs - first_row);
    const ulong first_panel = get_group_id(0) * panel_run;
    const ulong end_panel = min(first_panel + panel_run, (ulong)taps * channels / PANEL);
    const ulong size = (ulong)height * width;
    const ulong first = get_group_id(2) * images * size, end = min((get_group_id(2) + 1) * images, batch) * size;
    global float *results = ROW(to, first_row + (products ? get_group_id(2) * outputs : 0));
    amx_begin();
    for (ulong pixel = first; pixel < end; pixel += KC) {
        const uint count = (uint)min((ulong)KC, end - pixel);
        const float old = pixel > first ? 1.0f : products ? 0.0f : beta;
        list_origins(pixels, l, pixel, count);
        amx_pack_columns(a, KC / 2 * 16, ROW(dy, pixel) + first_row, dy_ld, count, rows);
        for (ulong p = first_panel; p < end_panel;) {
            const uint t = (uint)(p * PANEL / channels), c = (uint)(p * PANEL % channels);
            const uint some = (uint)min(end_panel - p, (ulong)min((channels - c) / PANEL, (uint)PANELS));
            const int2 shift = {(int)(t % l.kernel_width) * l.dilation_x, (int)(t / l.kernel_width) * l.dilation_y};
            pack_sources(panels, some, pixels, count, l, shift, X_FIRST + c, X_LD);
            for (uint j = 0; j < some; j++, p++)
                for (uint r = 0; r < rows; r += MR) {
                    local const uint *panel = panels + j * (KC / 2 * PANEL);
                    float16 sum[MR][V];
                    global float *place[MR];
                    for (uint i = 0; i < MR; i++)
                        place[i] = results + min(r + i, rows - 1) * to_ld + p * PANEL;
                    amx_zero(sum);
                    for (uint k = 0; k < count; k += 32)
                        amx_step(sum, a + r * (KC / 2) + k / 32 * AMX_TILE, KC / 2 * 16, panel + k / 2 * PANEL, PANEL);
                    amx_store(sum);
                    finish_tile(sum, place, min((uint)MR, rows - r), PANEL, 1.0f, old, (tile_bias){0, false});
                }
        }
    }
    amx_end();
}
