/* SHA-256: the examples of FIPS 180-4; any cut of the data gives the same hash. */
#include "core/sha256.h"
#include "support/test_device.h"

typedef struct vector {
    const char *name, *text;
    size_t repeat;
    const char *digest;
} vector;

static const vector vectors[] = {
    {"empty", "", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", "abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"448 bits", "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"896 bits",
        "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlm"
        "nopqrsmnopqrstnopqrstu",
        1, "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    {"a million a", "a", 1000000,
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
};

static void finish(clprune__sha256 *hash, char text[65])
{
    unsigned char digest[CLPRUNE__SHA256_BYTES];
    clprune__sha256_end(hash, digest);
    clprune__sha256_hex(digest, text);
}

static void known_digest(void **state)
{
    const vector *v = *state;
    clprune__sha256 hash;
    char text[65];
    clprune__sha256_begin(&hash);
    for (size_t i = 0; i < v->repeat; i++)
        clprune__sha256_update(&hash, v->text, strlen(v->text));
    finish(&hash, text);
    assert_string_equal(text, v->digest);
}

/* Every length around the block size, cut in two at every place. */
static void any_cut(NO_ROW)
{
    unsigned char data[200];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 7 + 3);
    for (size_t size = 0; size <= sizeof data; size += size < 140 ? 1 : 20) {
        clprune__sha256 hash;
        char whole[65], cut[65];
        clprune__sha256_begin(&hash);
        clprune__sha256_update(&hash, data, size);
        finish(&hash, whole);
        for (size_t first = 0; first <= size; first++) {
            clprune__sha256_begin(&hash);
            clprune__sha256_update(&hash, data, first);
            clprune__sha256_update(&hash, data + first, size - first);
            finish(&hash, cut);
            assert_string_equal(cut, whole);
        }
    }
}

int main(void)
{
    test_list list = {0};
    TEST_ADD_EACH(&list, known_digest, vectors, "FIPS 180-4, %s");
    test_add(&list, any_cut, NULL, "the digest does not depend on how the data is cut");
    return test_run_on_host("sha256", &list);
}
