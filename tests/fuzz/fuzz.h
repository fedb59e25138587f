/* What the fuzzing targets share. A target is one file, fuzz_NAME.c, that hands its input to the
 * functions that read such a file or text. libFuzzer makes inputs (tests/long/fuzz.sh); replay.c
 * runs the committed ones in every build. */
#ifndef CLPRUNE_TESTS_FUZZ_H
#define CLPRUNE_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ends the program, and so reports a finding, where a promise is broken. */
#define FUZZ_CHECK(condition) fuzz_check((condition), #condition, __FILE__, __LINE__)
void fuzz_check(bool holds, const char *condition, const char *file, int line);

/* A message of a failure: not empty, one line, and it has `part` (NULL: anything). */
void fuzz_check_text(const char *text, const char *part);

/* An input that is taken apart from its front. */
typedef struct fuzz_input {
    const uint8_t *data;
    size_t size;
} fuzz_input;

/* The target, which fuzz_NAME.c has. */
void fuzz_target(fuzz_input in);

/* What libFuzzer and replay.c call. The target's files are in the memory of the program
 * (memory_files.h), but one length of 32 is run on files of the system; all are, where
 * fuzz_on_disk is set. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
extern bool fuzz_on_disk;
bool fuzz_in_memory(void);

/* The folder of the files; the system's is in /dev/shm, else $TMPDIR or /tmp, until exit. */
const char *fuzz_folder(void);

/* Writes a file there, one of at most 16 in an execution, and returns its path, valid until the
 * 16th call after this one. Folders in `name` must exist: fuzz_subfolder. */
const char *fuzz_write(const char *name, const void *data, size_t size);
void fuzz_subfolder(const char *name);
void fuzz_remove(const char *name); /* a file or a folder with what is in it */

uint8_t fuzz_byte(fuzz_input *in);                 /* 0 where there is none left */
uint32_t fuzz_word(fuzz_input *in, uint32_t most); /* two bytes, modulo most + 1 */
/* At most `size` bytes. */
fuzz_input fuzz_part(fuzz_input *in, size_t size);
/* Up to a newline, which is dropped, as a string in `text`; longer lines are cut. A zero byte
 * ends the string. */
char *fuzz_line(fuzz_input *in, char *text, size_t size);
/* All that is left, with a NUL behind it; to be freed. */
char *fuzz_text(fuzz_input *in);

#endif
