/* GGUF files. A byte that is odd makes the first 8 bytes right; the rest of it is a number of
 * heads. What is accepted has its tensors apart and inside of the file, and gives each of them;
 * then the sizes of a model and the names of its tensors are read. The file is a text, a chat
 * template and a message, too. */
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "gpt_gguf.h"
#include "trainer/base/utf8.h"
#include "trainer/files/tensors/tensor_file.h"
#include "trainer/vocabulary/chat.h"
#include "trainer/vocabulary/chat_template.h"

static void check_values(const gguf_file *g)
{
    for (size_t i = 0; i < g->values_count; ++i) {
        const gguf_value *v = &g->values[i];
        FUZZ_CHECK(gguf_find(g, v->key) == v && v->key[0] != '\0' && utf8_printable(v->key));
        FUZZ_CHECK(v->text == NULL ||
                   (v->kind == GGUF_TEXT && strlen(v->text) < 256 && utf8_printable(v->text)));
        FUZZ_CHECK(v->kind == GGUF_NUMBER || (v->at <= v->end && v->end <= g->data));
        FUZZ_CHECK(v->kind != GGUF_ARRAY || v->count <= v->end - v->at);
    }
}

/* Where it fits into 64 bits. */
static uint64_t product(const gguf_tensor *t)
{
    uint64_t count = 1;
    for (size_t i = 0; i < t->rank; ++i)
        if (t->shape[i] == 0)
            return 0;
    for (size_t i = 0; i < t->rank; ++i) {
        FUZZ_CHECK(count <= UINT64_MAX / t->shape[i]);
        count *= t->shape[i];
    }
    return count;
}

static void check_tensors(const gguf_file *g, uint64_t heads)
{
    uint64_t end = 0;
    for (size_t i = 0; i < g->count; ++i) {
        const gguf_tensor *t = &g->tensors[i];
        fault f = {0};
        FUZZ_CHECK(t->from >= end && t->to >= t->from && t->to <= g->bytes - g->data);
        FUZZ_CHECK(gguf_find_tensor(g, t->name) == t && utf8_printable(t->name));
        FUZZ_CHECK(t->rank <= GGUF_RANK && t->count == product(t));
        end = t->to;
        if (t->block == NULL)
            FUZZ_CHECK(!gguf_read(g, t, 0, NULL, &f) && f.code == CODE_DATA);
        if (t->block == NULL)
            continue;
        FUZZ_CHECK(t->count <= 2 * 2 * (t->to - t->from)); /* of 2 bits each at least */
        float *values = malloc((size_t)t->count * sizeof *values + 1);
        FUZZ_CHECK(values != NULL);
        FUZZ_CHECK(gguf_read(g, t, 0, values, &f) == !t->block->whole);
        f = (fault){0};
        if (!gguf_read(g, t, heads, values, &f))
            fuzz_check_text(f.text, "tensor \"");
        free(values);
    }
}

/* Tokens are of the vocabulary, and together they have the bytes of the text, but for the spaces
 * that SentencePiece puts before it and its parts. */
static void check_encoding(const vocabulary *v, const char *text, size_t size, bool special)
{
    token_list list = {0};
    fault f = {0};
    size_t length, at = 0;
    if (!vocabulary_encode(v, "text", text, size, special, &list, &f))
        fuzz_check_text(f.text, "text: ");
    for (size_t i = 0; f.code == CODE_OK && i < list.count; ++i) {
        FUZZ_CHECK(list.tokens[i] >= 0 && (size_t)list.tokens[i] < v->count);
        const char *part = vocabulary_text(v, (size_t)list.tokens[i], &length);
        const bool space = v->pieces && length > 0 && part[0] == ' ' &&
                           (length > size - at || memcmp(part, text + at, length) != 0);
        FUZZ_CHECK(length - space <= size - at);
        FUZZ_CHECK(memcmp(part + space, text + at, length - space) == 0);
        at += length - space;
    }
    FUZZ_CHECK(f.code != CODE_OK || at == size || v->pieces);
    free(list.tokens);
}

/* The parts of a template are texts of their own. */
static void check_template(const char *text)
{
    chat_template t;
    FUZZ_CHECK(chat_template_read(text, &t));
    const char *part = t.parts;
    for (size_t i = 0; i < t.count; ++i, part += strlen(part) + 1)
        FUZZ_CHECK(*part != '\0');
    free(t.parts);
}

/* A conversation in the file's template; tokens are of the vocabulary. */
static void check_chat(const vocabulary *v, const char *text, size_t size)
{
    const chat_message messages[] = {
        {"system", "a", 1}, {"user", text, size}, {"assistant", "b", 1}};
    const char last = size > 0 ? text[size - 1] : 'a';
    chat c;
    token_list list = {0};
    unsigned char *learnt = NULL;
    fault f = {0};
    if (!chat_open(v, &c, &f)) {
        fuzz_check_text(f.text, NULL);
        return;
    }
    FUZZ_CHECK(c.end >= 0 && (size_t)c.end < v->count);
    const size_t from = last % 2 == 0;
    if (!chat_encode(&c, v, "text", messages + from, 3 - from, false, &list, &learnt, &f))
        fuzz_check_text(f.text, "text: ");
    for (size_t i = 0; f.code == CODE_OK && i < list.count; ++i)
        FUZZ_CHECK((size_t)list.tokens[i] < v->count && learnt[i] <= 1);
    free(list.tokens);
    free(learnt);
    chat_close(&c);
}

/* All texts of tokens together are no longer than the file, which is a text, too. */
static void check_words(const char *path, const char *bytes, size_t size)
{
    vocabulary v;
    fault f = {0};
    size_t length, all = 0;
    if (!vocabulary_open(path, &v, &f)) {
        FUZZ_CHECK(f.code == CODE_DATA && v.bytes == NULL);
        return;
    }
    for (size_t i = 0; i < v.count; ++i) {
        const char *text = vocabulary_text(&v, i, &length);
        FUZZ_CHECK(length <= size);
        char *copy = malloc(length + 1);
        FUZZ_CHECK(copy != NULL);
        memcpy(copy, text, length);
        copy[length] = '\0';
        if (v.encoder != NULL || (f.code == CODE_OK && vocabulary_prepare(&v, &f)))
            check_encoding(&v, copy, length, i % 2 == 0);
        free(copy);
        all += length;
    }
    FUZZ_CHECK(all <= size);
    if (f.code == CODE_OK && v.count > 0) {
        check_encoding(&v, bytes, size, false);
        check_chat(&v, bytes, size);
    }
    vocabulary_close(&v);
}

static void check_model(const char *path)
{
    gpt_arch a = {0};
    tensor_file file;
    fault f = {0};
    const char *wrong = gpt_gguf_read(path, &a);
    if (wrong != NULL)
        fuzz_check_text(wrong, NULL);
    else {
        FUZZ_CHECK(a.dim > 0 && a.depth > 0 && a.heads > 0 && a.context > 0 && a.vocabulary > 0);
        FUZZ_CHECK((a.head > 0 || a.dim % a.heads == 0) && a.eps > 0 && a.eps <= 1);
        FUZZ_CHECK(a.hidden == 0 || (a.heads % a.kv_heads == 0 && a.rotary.theta > 1));
    }
    if (!gguf_begins(path))
        return;
    if (!tensor_file_open(path, gpt_ggufs, &file, &f)) {
        FUZZ_CHECK(f.code == CODE_DATA && file.tensors == NULL);
        fuzz_check_text(f.text, NULL);
        return;
    }
    for (size_t i = 0; i < file.count; ++i)
        FUZZ_CHECK(file.tensors[i].name[0] != '\0' && file.tensors[i].heads <= 1 << 24);
    tensor_file_close(&file);
}

void fuzz_target(fuzz_input in)
{
    static const char start[8] = "GGUF\3";
    gguf_file g;
    fault f = {0};
    const uint8_t first = fuzz_byte(&in);
    const size_t size = in.size;
    uint8_t *bytes = (uint8_t *)fuzz_text(&(fuzz_input){in.data, in.size});
    if (first % 2 == 1 && size >= sizeof start)
        memcpy(bytes, start, sizeof start);
    const char *path = fuzz_write("m.gguf", bytes, size);
    if (gguf_open(path, &g, &f)) {
        check_values(&g);
        check_tensors(&g, first / 2);
        gguf_close(&g);
    } else {
        FUZZ_CHECK(f.code == CODE_DATA && g.stream == NULL && g.tensors == NULL);
        fuzz_check_text(f.text, "m.gguf: ");
    }
    check_template((char *)bytes);
    check_words(path, (char *)bytes, size);
    free(bytes);
    check_model(path);
}
