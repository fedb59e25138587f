/* Temporary folders. */
#ifndef CLPRUNE_TEST_FOLDER_H
#define CLPRUNE_TEST_FOLDER_H

#include <stddef.h>

#define TEST_PATH 512

/* Makes a new private folder under $TMPDIR or /tmp and writes its path; fails the case if it
 * cannot. */
void test_folder_make(char path[TEST_PATH]);

/* Removes a folder and all in it; links are removed, not followed. */
void test_folder_remove(const char *path);

/* The number of entries in a folder; the name of the last of them goes to `name` (may be NULL). */
size_t test_folder_count(const char *path, char name[TEST_PATH]);

/* Whole files. */
void *test_file_read(const char *path, size_t *size);
void test_file_write(const char *path, const void *data, size_t size);

/* setenv, or unsetenv for NULL. */
void test_environment(const char *name, const char *value);

/* Sets $CLPRUNE_DEBUG to its value at the start of the program, with `words` added; NULL:
 * without. */
void test_debug(const char *words);

#endif
