/* The file of clprune-tune --output: a row for this device replaces its old one, however much white
 * space is around the name that the driver gives.
 *
 * Rows of other devices stay. A file of another kind is not replaced. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/test_device.h"
#include "support/test_folder.h"
#include "tune/tune.h"

void tune_write_file(
    FILE *stream, const tune *t, const tune_row *row, const tune_op *op, const char *others)
{
    (void)row;
    (void)op;
    (void)fprintf(stream, "clprune_tuning = 1\ndevice = %s\ndriver = 1\n%send\n", t->device,
        others != NULL ? others : "");
}

static void one_row(void **state)
{
    char folder[TEST_PATH], path[TEST_PATH + 32];
    static tune t;
    size_t size;
    (void)snprintf(t.device, sizeof t.device, "%s", (const char *)*state);
    test_folder_make(folder);
    (void)snprintf(path, sizeof path, "%s/row", folder);
    assert_true(tune_write_output(&t, path, false));
    char *once = test_file_read(path, &size);
    assert_true(tune_write_output(&t, path, false));
    size_t size_twice;
    char *twice = test_file_read(path, &size_twice);
    test_folder_remove(folder);
    assert_int_equal(size_twice, size);
    assert_memory_equal(twice, once, size);
}

int main(void)
{
    static const char *const devices[] = {"A GPU", "A GPU  ", "        Intel(R) Xeon(R) CPU  "};
    test_list list = {0};
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        test_add(&list, one_row, devices[i], "a row for '%s'", devices[i]);
    return test_run_on_host("tune output", &list);
}
