/* Prints the layout of the structures that examples/pytorch/clprune.py declares once more: a line
 * "structure size" each, and "structure.member offset size" for its members. test_pytorch.py
 * compares. */
#include <stddef.h>
#include <stdio.h>

#include "clprune/clprune.h"

#define STRUCTURE(type) printf("%s %zu\n", #type, sizeof(type))
#define MEMBER(type, member)                                                                       \
    printf("%s.%s %zu %zu\n", #type, #member, offsetof(type, member), sizeof(((type *)0)->member))

int main(void)
{
    STRUCTURE(clprune_keep);
    MEMBER(clprune_keep, form);
    MEMBER(clprune_keep, sparsity);
    MEMBER(clprune_keep, block);
    MEMBER(clprune_keep, norm);
    MEMBER(clprune_keep, criterion);
    MEMBER(clprune_keep, value_type);
    MEMBER(clprune_keep, index_type);
    MEMBER(clprune_keep, bits);
    MEMBER(clprune_keep, group);
    MEMBER(clprune_keep, rounding);
    MEMBER(clprune_keep, cell);
    MEMBER(clprune_keep, grid_height);
    MEMBER(clprune_keep, grid_width);
    MEMBER(clprune_keep, centre);
    MEMBER(clprune_keep, reserved);
    STRUCTURE(clprune_saved_sizes);
    MEMBER(clprune_saved_sizes, bytes);
    MEMBER(clprune_saved_sizes, values_bytes);
    MEMBER(clprune_saved_sizes, index_bytes);
    MEMBER(clprune_saved_sizes, dense_bytes);
    STRUCTURE(clprune_mat);
    MEMBER(clprune_mat, buffer);
    MEMBER(clprune_mat, offset);
    MEMBER(clprune_mat, rows);
    MEMBER(clprune_mat, cols);
    MEMBER(clprune_mat, ld);
    STRUCTURE(clprune_grads);
    MEMBER(clprune_grads, dx);
    MEMBER(clprune_grads, dw);
    MEMBER(clprune_grads, db);
    MEMBER(clprune_grads, beta);
    MEMBER(clprune_grads, dx_beta);
    return 0;
}
