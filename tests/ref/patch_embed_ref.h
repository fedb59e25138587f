/* Reference of the patch embedding, computed as a convolution. `bound` receives the error bound of
 * fp32; may be NULL. */
#ifndef CLPRUNE_PATCH_EMBED_REF_H
#define CLPRUNE_PATCH_EMBED_REF_H

#include "clprune/patch_embed.h"

void patch_embed_ref_forward(const clprune_patch_embed_desc *desc, size_t batch,
    const double *images, const double *w, const double *b, double *y, double *bound);
void patch_embed_ref_dimages(const clprune_patch_embed_desc *desc, size_t batch, const double *dy,
    const double *w, double *dimages, double *bound);
void patch_embed_ref_dw(const clprune_patch_embed_desc *desc, size_t batch, const double *images,
    const double *dy, double *dw, double *bound);
void patch_embed_ref_db(const clprune_patch_embed_desc *desc, size_t batch, const double *dy,
    double *db, double *bound);

#endif
