/* The seam of the operating system, on POSIX and on Windows.
 *
 * Patterns, also malformed ones; a decimal point; files that are made, replaced, found, touched and
 * removed; what is no regular file; folders within folders. */
#include <errno.h>

#include "core/system.h"
#include "support/test_device.h"
#include "support/test_folder.h"

static void patterns(NO_ROW)
{
    static const struct {
        const char *pattern, *text;
        bool hit;
    } rows[] = {{"", "", true}, {"", "a", false}, {"a", "a", true}, {"a", "ab", false},
        {"*", "", true}, {"*", "a.b/c", true}, {"a*", "a", true}, {"*.fc1", "b.0.fc1", true},
        {"*.fc1", "b.0.fc12", false}, {"*a*b*c", "xaxxbyybc", true}, {"*a*b*c", "xaxxbyyb", false},
        {"h.?.attn.*", "h.3.attn.q", true}, {"h.?.attn.*", "h.30.attn.q", false}, {"?", "", false},
        {"b.[0-3].*", "b.2.x", true}, {"b.[0-3].*", "b.4.x", false}, {"b.[!0-3].*", "b.4.x", true},
        {"b.[!0-3].*", "b.0.x", false}, {"[]]", "]", true}, {"[!]]", "]", false},
        {"[a-]", "-", true}, {"[", "[", true}, {"[a", "[a", true}, {"a[", "a", false},
        {"\\*", "*", true}, {"\\*", "a", false}, {"a\\?c", "a?c", true}, {"a\\?c", "abc", false},
        {"**a", "bca", true}, {"[ab]*[cd]", "axxd", true}};
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (clprune__system_matches(rows[i].pattern, rows[i].text) != rows[i].hit)
            fail_msg("'%s', '%s'", rows[i].pattern, rows[i].text);
}

static int format(char *text, size_t size, const char *form, ...)
{
    va_list arguments;
    va_start(arguments, form);
    const int length = clprune__system_format(text, size, form, arguments);
    va_end(arguments);
    return length;
}

static void texts(NO_ROW)
{
    char text[32];
    assert_int_equal(format(text, sizeof text, "%g, %zu", 0.5, (size_t)7), 6);
    assert_string_equal(text, "0.5, 7");
    assert_int_equal(format(text, 4, "%s", "abcdef"), 6);
    assert_string_equal(text, "abc");
    assert_true(clprune__system_processors() >= 1);
    assert_int_equal(clprune__system_watch_forks(NULL), 0);
}

static bool is_wanted(const char *name)
{
    return strncmp(name, "file", 4) == 0;
}

/* Makes a file of the text, in place of one that is there. */
static bool put(const char *name, const char *text)
{
    char temporary[TEST_PATH];
    const int file = clprune__system_create_temporary(name, temporary, sizeof temporary);
    assert_true(file >= 0);
    test_says(temporary, name);
    return clprune__system_commit(
        file, clprune__system_write(file, text, strlen(text)), temporary, name);
}

static void expect(const char *name, const char *text)
{
    char read[16];
    clprune__file_facts facts = {0};
    const int file = clprune__system_open_private(name);
    assert_true(file >= 0);
    assert_true(clprune__system_facts(file, &facts));
    assert_true(facts.regular && facts.private && facts.bytes == strlen(text));
    assert_true(clprune__system_read(file, read, strlen(text)));
    assert_memory_equal(read, text, strlen(text));
    assert_false(clprune__system_read(file, read, 1));
    clprune__system_close(file);
}

/* The files of a folder that are wanted; the last one's entry. */
static size_t count(const char *path, clprune__folder_entry *entry)
{
    size_t found = 0;
    clprune__folder *folder = clprune__system_open_folder(path);
    assert_non_null(folder);
    while (clprune__system_next_file(folder, is_wanted, entry))
        found++;
    clprune__system_close_folder(folder);
    return found;
}

static void files(NO_ROW)
{
    char inner[TEST_PATH];
    (void)snprintf(inner, sizeof inner, "%s/a/b/./", test_folder());
    assert_true(clprune__system_make_folders(inner));
    assert_true(inner[strlen(inner) - 1] == 'b');
    assert_true(clprune__system_make_folders(inner)); /* it is there */
    assert_int_equal(clprune__system_folder_state(inner), CLPRUNE__FOLDER_PRIVATE);

    const char *name = test_text("%s/file", inner), *other = test_text("%s/other", inner);
    assert_int_equal(clprune__system_folder_state(name), CLPRUNE__FOLDER_NONE);
    assert_int_equal(clprune__system_open_private(name), -1);
    assert_int_equal(errno, ENOENT);
    assert_true(put(name, "first\n"));
    assert_true(put(name, "another\r\n\x1a."));
    assert_true(put(other, ""));
    expect(name, "another\r\n\x1a.");
    assert_int_equal(clprune__system_folder_state(name), CLPRUNE__FOLDER_NONE);

    clprune__folder_entry entry;
    assert_int_equal(count(inner, &entry), 1);
    assert_int_equal(entry.bytes, 11);
    assert_true(entry.seconds > 1700000000 && entry.nanoseconds >= 0);
    const int64_t before = entry.seconds;
    const int file = clprune__system_open_private(name);
    clprune__system_used_now(file);
    clprune__system_close(file);
    assert_int_equal(count(inner, &entry), 1);
    assert_true(entry.seconds >= before);

    /* A bad one leaves nothing, and what was there stays. */
    char temporary[TEST_PATH];
    const int bad = clprune__system_create_temporary(name, temporary, sizeof temporary);
    assert_true(bad >= 0);
    assert_int_equal(count(inner, &entry), 2);
    assert_false(clprune__system_commit(bad, false, temporary, name));
    assert_int_equal(count(inner, &entry), 1);
    expect(name, "another\r\n\x1a.");

    clprune__folder *folder = clprune__system_open_folder(inner);
    clprune__system_remove_file(folder, "file");
    clprune__system_close_folder(folder);
    assert_int_equal(count(inner, &entry), 0);
    assert_null(clprune__system_open_folder(name));
    assert_false(clprune__system_make_folders(test_text("%s/below", other)));
}

int main(void)
{
    test_list list = {0};
    test_add(&list, patterns, NULL, "patterns");
    test_add(&list, texts, NULL, "texts");
    test_add(&list, files, NULL, "files");
    return test_run_on_host("system", &list);
}
