/*
 * fnv.h: FNV-1a with 64 bits (Fowler, Noll, Vo; RFC 9923): the checksum of checkpoints and of data
 * sets.
 *
 *     uint64_t hash = fnv1a(FNV_START, data, size);
 *     hash = fnv1a(hash, more, more_size);
 */
#ifndef TRAINER_FNV_H
#define TRAINER_FNV_H

#include <stddef.h>
#include <stdint.h>

#define FNV_START UINT64_C(0xCBF29CE484222325)

static inline uint64_t fnv1a(uint64_t hash, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; ++i)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001B3);
    return hash;
}

#endif
