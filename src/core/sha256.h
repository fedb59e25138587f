/* SHA-256 (FIPS 180-4) for the keys and payloads of the program cache. */
#ifndef CLPRUNE_CORE_SHA256_H
#define CLPRUNE_CORE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define CLPRUNE__SHA256_BYTES 32

typedef struct clprune__sha256 {
    uint32_t state[8];
    uint64_t length; /* bytes seen */
    unsigned char block[64];
} clprune__sha256;

void clprune__sha256_begin(clprune__sha256 *hash);
void clprune__sha256_update(clprune__sha256 *hash, const void *data, size_t size);
void clprune__sha256_end(clprune__sha256 *hash, unsigned char digest[CLPRUNE__SHA256_BYTES]);

/* Lower-case hexadecimal with a terminating zero. */
void clprune__sha256_hex(const unsigned char digest[CLPRUNE__SHA256_BYTES], char text[65]);

#endif
