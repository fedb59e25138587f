/* Recurrent layers over time: LSTM, GRU and plain ones, with the equations and the order of gates
 * of PyTorch (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN). The product with the inputs, z, is a
 * linear layer before them. The backward pass needs z, y and the states before alone: gates are
 * made again. */
#ifndef CLPRUNE_RECURRENT_H
#define CLPRUNE_RECURRENT_H

#include <stdbool.h>

#include "clprune/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* With a = w h' + b of the step before, whose states h' and c' are at first those of states0 (of
 * PyTorch h_0 and c_0), or 0; s is the sigmoid:
 *     LSTM   z = [zi zf zg zo];  i = s(zi + ai), f = s(zf + af), g = tanh(zg + ag), o = s(zo + ao)
 *            c = f * c' + i * g;  h = o * tanh(c);  y = [h c]
 *     GRU    z = [zr zu zn];  r = s(zr + ar), u = s(zu + au), n = tanh(zn + r * an)
 *            h = (1 - u) * n + u * h';  y = h
 *     TANH   h = tanh(z + a);  y = h
 *     RELU   h = max(z + a, 0);  y = h */
typedef enum clprune_cell {
    CLPRUNE_CELL_LSTM = 0,
    CLPRUNE_CELL_GRU = 1,
    CLPRUNE_CELL_TANH = 2,
    CLPRUNE_CELL_RELU = 3
} clprune_cell;

/* Zero-initialise, then set the fields that you need. */
typedef struct clprune_recurrent_desc {
    clprune_cell cell;
    size_t steps;         /* of a sequence, at least 1: rows one behind the other */
    bool reverse;         /* time runs from a sequence's last row to its first */
    uint64_t reserved[2]; /* zeros */
} clprune_recurrent_desc;

/* M rows, a multiple of steps; states of H columns, G = 4 H (LSTM), 3 H (GRU) or H. z: M x G; w:
 * G x H; b: 1 x G, or CLPRUNE_NO_MAT; states0: M / steps x 2 H (LSTM) or x H, the states before the
 * first step of each sequence, or CLPRUNE_NO_MAT; y: M x 2 H or M x H, must not overlap the
 * others. Takes scratch of M / steps x G floats. */
CLPRUNE_API clprune_status clprune_recurrent_forward(clprune_context *context,
    const clprune_recurrent_desc *desc, clprune_mat z, clprune_mat w, clprune_mat b,
    clprune_mat states0, clprune_mat y, cl_event *event);

/* The gradients from dy, shaped as y, of z, states0 and y that are restored or those of the forward
 * pass: dz, that of states0, and those of w and b, plus beta times their old values; beta 0 does
 * not read these. dw, db, dstates0: shaped as w, b and states0, or CLPRUNE_NO_MAT. db needs no b,
 * dstates0 no states0. Outputs must not overlap inputs nor each other. Takes scratch of two times M
 * / steps x H floats, of one for TANH and RELU, none with dstates0; for GRU of M x H, and without
 * dstates0 of M / steps x H more. */
CLPRUNE_API clprune_status clprune_recurrent_backward(clprune_context *context,
    const clprune_recurrent_desc *desc, float beta, clprune_mat z, clprune_mat w, clprune_mat b,
    clprune_mat states0, clprune_mat y, clprune_mat dy, clprune_mat dz, clprune_mat dw,
    clprune_mat db, clprune_mat dstates0, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
