/* Temporary folders. */
#ifndef CLPRUNE_TEST_FOLDER_H
#define CLPRUNE_TEST_FOLDER_H

#include <stddef.h>

#define TEST_PATH 512

/* Makes a new private folder under $TMPDIR or /tmp and writes its path; fails the case if it
 * cannot. The end of the case removes it. */
void test_folder_make(char path[TEST_PATH]);

/* The same; the path lives until the end of the case. */
const char *test_folder(void);

/* Removes a folder and all in it; links are removed, not followed. */
void test_folder_remove(const char *path);

/* The number of entries in a folder; the name of the last of them goes to `name` (may be NULL). */
size_t test_folder_count(const char *path, char name[TEST_PATH]);

/* A text that lives until the end of the case. */
char *test_text(const char *format, ...) __attribute__((__format__(__printf__, 1, 2)));

/* Makes the locale "comma" of support/comma_locale.sh, and sets it for one LC_ category until the
 * end of the case; skips the case where it cannot be made. */
void test_comma_locale(int category);

/* Whole files. */
void *test_file_read(const char *path, size_t *size);
void test_file_write(const char *path, const void *data, size_t size);
/* Fails the case unless both have the same bytes. */
void test_file_same(const char *a, const char *b);

/* The variables of the environment are from now on what the end of a case sets back to: called by
 * the fixture when main has set its own. */
void test_keep_environment(void);

/* setenv, or unsetenv for NULL. The end of the case sets the variable back. */
void test_environment(const char *name, const char *value);

/* Sets $CLPRUNE_DEBUG to its value at the start of the program, with `words` added; NULL:
 * without. */
void test_debug(const char *words);

#endif
