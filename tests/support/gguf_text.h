/* GGUF files from a text, for tests: words with spaces between them.
 *
 *     GGUF      bytes of the word itself
 *     4:7       7 in 4 bytes; also 1:, 2: and 8:, and hexadecimal numbers
 *     s:abc     a text with its length before it
 *     s8:N:abc  the same with the length N
 *     x:ff      a byte
 *     p:32      zeros up to a multiple of 32
 *     z:5       5 zeros */
#ifndef CLPRUNE_GGUF_TEXT_H
#define CLPRUNE_GGUF_TEXT_H

#include <stddef.h>

/* Returns the number of bytes, at most `room`. */
size_t gguf_text_make(const char *text, unsigned char *bytes, size_t room);

#endif
