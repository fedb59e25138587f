/* Files of the program cache: a byte, then the file, or its payload where the byte's bits have the
 * header made: 1 with the right key, 2 also the right size, 4 also the right checksum; 8: a byte
 * follows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/sha256.h"
#include "fuzz/fuzz.h"
#include "runtime/launch/disk_cache.h"

enum {
    HASH = CLPRUNE__SHA256_BYTES,
    KEY_AT = 8,
    SIZE_AT = KEY_AT + HASH,
    HASH_AT = SIZE_AT + 8,
    HEADER = HASH_AT + HASH
};

static const char key[] = "a key\nof two lines";

static void digest(const void *data, size_t size, uint8_t out[HASH])
{
    clprune__sha256 hash;
    clprune__sha256_begin(&hash);
    clprune__sha256_update(&hash, data, size);
    clprune__sha256_end(&hash, out);
}

void fuzz_target(fuzz_input in)
{
    const uint8_t flags = fuzz_byte(&in);
    static uint8_t head[HASH]; /* of the key, as `name` is */
    static char hex[2 * HASH + 1], name[sizeof hex + 4];
    uint8_t *file = malloc(HEADER + in.size + 1);
    unsigned char *payload = NULL;
    const char *reason = NULL;
    size_t loaded = 1;
    FUZZ_CHECK(file != NULL);
    if (name[0] == '\0') {
        digest(key, strlen(key), head);
        clprune__sha256_hex(head, hex);
        (void)snprintf(name, sizeof name, "%s.bin", hex);
    }
    const bool made = (flags & 1) != 0;
    memset(file, 0, HEADER);
    memcpy(file, "CLPRUNE1", KEY_AT);
    memcpy(file + KEY_AT, head, HASH);
    for (unsigned i = 0; i < 8; ++i)
        file[SIZE_AT + i] = (uint8_t)((flags & 2) ? (uint64_t)in.size >> (8 * i) : flags);
    if ((flags & 4) != 0)
        digest(in.data, in.size, file + HASH_AT);
    if (in.size > 0)
        memcpy(file + HEADER, in.data, in.size);
    file[HEADER + in.size] = 0;
    const size_t more = (flags & 8) != 0 ? 1 : 0;
    (void)fuzz_write(name, made ? file : in.data, made ? HEADER + in.size + more : in.size);
    free(file);
    const clprune__disk_result result =
        clprune__disk_load(fuzz_folder(), key, &payload, &loaded, &reason);
    if (result == CLPRUNE__DISK_OK) {
        FUZZ_CHECK(reason == NULL);
        FUZZ_CHECK(!made || (flags & 15) == 7);
        if (made) /* the file that was meant, to the byte */
            FUZZ_CHECK(loaded == in.size && memcmp(payload, in.data, in.size) == 0);
    } else {
        FUZZ_CHECK(result == CLPRUNE__DISK_REFUSED && payload == NULL && loaded == 0);
        FUZZ_CHECK(reason != NULL);
        FUZZ_CHECK((flags & 15) != 7 || in.size == 0);
    }
    free(payload);
}
