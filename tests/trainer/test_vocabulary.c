/* Texts as tokens and back: both kinds of vocabularies, each way to cut a text into words, tokens
 * that are found as they are, files of texts, and each wrong vocabulary and text with its sentence.
 * Encodings beside other programs': long/vocabularies.sh, which runs this one with a model. */
#include <stdio.h>
#include <stdlib.h>

#include "support/gguf_text.h"
#include "support/test_folder.h"
#include "support/test_rng.h"
#include "support/test_words.h"
#include "trainer/data/token_file.h"
#include "trainer/files/plain_file.h"

/* ---- vocabularies ------------------------------------------------------------------------------
 */

typedef struct model_text {
    char text[1 << 16];
    size_t used, values;
} model_text;

static void put(model_text *m, const char *text)
{
    m->used += (size_t)snprintf(m->text + m->used, sizeof m->text - m->used, "%s", text);
    assert_true(m->used < sizeof m->text);
}

/* A text as byte-level BPE writes it, or as it is; with a space in it, which gguf_text lacks. */
static void put_text(model_text *m, const char *text, bool characters)
{
    char bytes[512] = "";
    size_t count = 0, used = 0;
    for (const unsigned char *s = (const unsigned char *)text; *s != '\0'; ++s, ++count) {
        const bool plain = !characters || (*s > ' ' && *s < 127);
        const unsigned c = *s <= ' ' ? 0x100u + *s : *s;
        used += (size_t)(plain ? snprintf(bytes + used, sizeof bytes - used, "x:%x ", *s)
                               : snprintf(bytes + used, sizeof bytes - used, "x:%x x:%x ",
                                     0xc0 | c >> 6, 0x80 | (c & 0x3f)));
        count += !plain;
    }
    put(m, test_text("8:%zu %s", count, bytes));
}

static void put_list(model_text *m, const char *key, const char *const *texts, size_t count)
{
    ++m->values;
    put(m, test_text("s:tokenizer.ggml.%s 4:9 4:8 8:%zu ", key, count));
    for (size_t i = 0; i < count; ++i)
        put_text(m, texts[i], true);
}

static const char *write_model(const char *values, size_t count)
{
    static unsigned char bytes[1 << 16];
    const char *path = test_text("%s/model.gguf", test_folder());
    const char *text = test_text("GGUF 4:3 8:0 8:%zu %s", count, values);
    test_file_write(path, bytes, gguf_text_make(text, bytes, sizeof bytes));
    return path;
}

/* ---- byte-level BPE ----------------------------------------------------------------------------
 */

static const char *const tokens[] = {"a", "b", "c", "d", "e", "h", "i", "r", "s", "t", "x", "S",
    "0", "1", "2", "3", "'", "!", ".", "$", " ", "\n", "\r", "\t", "\xc3", "\xa9", "\xc2", "\xbd",
    "th", "the", " t", " the", "ab", "bc", "12", "123", "'s", "'S", "  ", "\n\n", " \n", "!\n",
    "!!", "..", "   ", " !", "00", "$$", "abc", " a", "ca", "!a", "bS", "<tool>>", "<tool>",
    "<|im_end|>"};
/* '|' stands for the space between two sides. */
static const char *const merges[] = {"t|h", "th|e", " |the", " |t", "b|c", "a|b", "1|2", "12|3",
    "'|s", "'|S", "\n|\n", " |\n", "!|!", "!|\n", ".|.", " | ", "  | ", " |!", "0|0", "$|$", " |a",
    "c|a", "!|a", "b|S"};

static const char *write_words(const char *pre)
{
    static model_text m;
    m = (model_text){0};
    put(&m, "s:tokenizer.ggml.model 4:8 s:gpt2 ");
    put(&m, test_text("s:tokenizer.ggml.pre 4:8 s:%s ", pre));
    put(&m, test_text("s:tokenizer.ggml.eos_token_id 4:4 4:%zu ", COUNT_OF(tokens) - 1));
    m.values = 3;
    put_list(&m, "tokens", tokens, COUNT_OF(tokens));
    ++m.values;
    put(&m, test_text("s:tokenizer.ggml.token_type 4:9 4:5 8:%zu ", COUNT_OF(tokens)));
    for (size_t i = 0; i < COUNT_OF(tokens); ++i)
        put(&m, i + 3 < COUNT_OF(tokens) ? "4:1 " : i + 1 < COUNT_OF(tokens) ? "4:4 " : "4:3 ");
    ++m.values;
    put(&m, test_text("s:tokenizer.ggml.merges 4:9 4:8 8:%zu ", COUNT_OF(merges)));
    for (size_t i = 0; i < COUNT_OF(merges); ++i) {
        const size_t before = m.used;
        put_text(&m, merges[i], true);
        memcpy(strstr(m.text + before, "x:7c "), "x:20 ", 5);
    }
    return write_model(m.text, m.values);
}

/* What tokenizers of Hugging Face gives. */
static const struct {
    const char *pre, *text, *want;
} words[] = {
    {"gpt-2", "", ""},
    {"gpt-2", "the the", "the| the"},
    {"gpt-2", "theth", "the|th"},
    {"gpt-2", "abc cab", "a|bc| |c|ab"},
    {"gpt-2", "it's its'S", "i|t|'s| |i|t|s|'|S"},
    {"gpt-2", "a  the", "a| | the"},
    {"gpt-2", "a   b\n\n\nc", "a|  | |b|\n\n|\n|c"},
    {"gpt-2", "123123 123a", "123|123| |123|a"},
    {"gpt-2", "1 12 123 1200", "1| |12| |123| |12|00"},
    {"gpt-2", "!!!\n\n$$x", "!!|!|\n|\n|$$|x"},
    {"gpt-2", "!! \n a  \n\nb", "!!| \n| a| | \n|\n|b"},
    {"gpt-2", "\ta\r\n\t", "\t|a|\r|\n|\t"},
    {"gpt-2", "\xc3\xa9\xc2\xbd", "\xc3|\xa9|\xc2|\xbd"},
    {"gpt-2", "a 12's  ", "a| |12|'s|  "},
    {"gpt-2", "!a", "!|a"},
    {"gpt-2", "dbS", "d|bS"},
    {"smollm", "a  12", "a|  |1|2"},
    {"smollm", "123123 123a", "1|2|3|1|2|3| |1|2|3|a"},
    {"smollm", "it's it'S", "i|t|'s| |i|t|'|S"},
    {"llama-bpe", "abc cab", "abc| |c|ab"}, /* a word that is a token */
    {"llama-bpe", "it's it'S", "i|t|'s| |i|t|'S"},
    {"llama-bpe", "1 12 123 1200", "1| |12| |123| |12|0|0"},
    {"llama-bpe", "!!!\n\n$$x", "!!|!|\n\n|$$|x"},
    {"llama-bpe", "!! \n a  \n\nb", "!!| \n| a|  |\n\n|b"},
    {"qwen2", "!a", "!a"},
    {"qwen2", "abc cab", "a|bc| |c|ab"},
    {"qwen2", "1 12 123 1200", "1| |1|2| |1|2|3| |1|2|0|0"},
    {"deepseek-r1-qwen", "it'S 12", "i|t|'S| |1|2"},
    {"tekken", "dbS SSbSb", "d|b|S| |S|S|b|S|b"}, /* capitals begin a word */
    {"tekken", "!a it's it'S", "!a| |i|t|'s| |i|t|'S"},
    {"tekken", "abc 12 1200", "abc| |1|2| |1|2|0|0"},
    {"tekken", "!! \n a  \n\nb", "!!| \n| a|  |\n\n|b"},
    {"default", "it's it'S", "i|t|'|s| |i|t|'|S"},
    {"default", "!!!\n\n$$x", "!!|!|\n\n|$$|x"},
    {"default", "1 12 123 1200", "1| |12| |123| |12|0|0"},
};

static void cut_into_words(NO_ROW)
{
    for (size_t i = 0; i < COUNT_OF(words); ++i) {
        const size_t mark = test_mark();
        vocabulary v;
        open_well(write_words(words[i].pre), &v);
        const char *have = encoded(&v, words[i].text, false);
        if (strcmp(have, words[i].want) != 0)
            fail_msg("%s: \"%s\" is %s, not %s", words[i].pre, words[i].text, have, words[i].want);
        assert_true(v.begin == VOCABULARY_NONE && vocabulary_ends(&v, COUNT_OF(tokens) - 1));
        assert_true(!vocabulary_ends(&v, 0) && !vocabulary_ends(&v, VOCABULARY_NONE));
        vocabulary_close(&v);
        test_release(mark);
    }
}

/* The user's tokens are found in any text, those that control where it is said; longer ones first.
 */
static void added(NO_ROW)
{
    vocabulary v;
    open_well(write_words("gpt-2"), &v);
    assert_string_equal(encoded(&v, "a<tool>>b<tool>", false), "a|<tool>>|b|<tool>");
    assert_string_equal(encoded(&v, " <|im_end|><tool>", true), " |<|im_end|>|<tool>");
    token_list list = {0};
    TEST_REFUSED(vocabulary_encode(&v, "text", "a<|im_end|>", 11, 0, &list, &f), CODE_DATA,
        "text: the vocabulary has no token for < (3c)");
    free(list.tokens);
    vocabulary_close(&v);
}

/* ---- SentencePiece -----------------------------------------------------------------------------
 */

#define SP "\xe2\x96\x81"
static const char *const parts[] = {"<unk>", "<s>", "</s>", SP, "t", "h", "e", SP "t", "he",
    SP "the", "th", "x", "<tool>", SP "x", "xx", "\xc3\xa9"};
/* Lower than those of their halves, so that merges come in this order. */
static const float scores[] = {0, 0, 0, -9, -9, -9, -9, -1, -2, -3, -4, -9, 0, -5, -6, -9};

static const char *write_pieces(const char *more, size_t count)
{
    static model_text m;
    m = (model_text){0};
    put(&m, "s:tokenizer.ggml.model 4:8 s:llama s:tokenizer.ggml.bos_token_id 4:4 4:1 "
            "s:tokenizer.ggml.eos_token_id 4:4 4:2 ");
    put(&m, test_text("s:tokenizer.ggml.tokens 4:9 4:8 8:%zu ", COUNT_OF(parts) + 256));
    for (size_t i = 0; i < COUNT_OF(parts); ++i)
        put_text(&m, parts[i], false);
    for (unsigned byte = 0; byte < 256; ++byte)
        put(&m, test_text("s:<0x%02X> ", byte));
    put(&m, test_text("s:tokenizer.ggml.token_type 4:9 4:5 8:%zu ", COUNT_OF(parts) + 256));
    for (size_t i = 0; i < COUNT_OF(parts) + 256; ++i)
        put(&m, test_text("4:%d ", i == 0                ? 2
                                   : i < 3               ? 3
                                   : i == 12             ? 4
                                   : i < COUNT_OF(parts) ? 1
                                                         : 6));
    put(&m, test_text("s:tokenizer.ggml.scores 4:9 4:6 8:%zu ", COUNT_OF(parts) + 256));
    for (size_t i = 0; i < COUNT_OF(parts) + 256; ++i) {
        uint32_t bits = 0;
        if (i < COUNT_OF(parts))
            memcpy(&bits, &scores[i], sizeof bits);
        put(&m, test_text("4:0x%x ", bits));
    }
    put(&m, more);
    return write_model(m.text, 6 + count);
}

static const struct {
    const char *text, *want;
    bool special;
} pieces[] = {
    {"", "", false}, {"the", " the", false}, {"the  the", " the| | the", false},
    {"xxx", " x|xx", false}, {"xxxx", " x|xx|x", false}, /* the leftmost first */
    {"thth", " t|h|th", false},
    {"\xc3\xa9\xc3\xbc", " |\xc3\xa9|\xc3|\xbc", false}, /* one of them in bytes */
    {"the\n\nthe", " the|\n|\n|t|he", false}, {"x<tool>x", " x|<tool>| x", false},
    {"<s>x</s>", " |<|s|>|x|<|/|s|>", false}, {"<s>x</s>", "<s>| x|</s>", true},
    {SP "the", " |\xe2|\x96|\x81|t|he", false}, /* what stands for a space is text, too */
};

static void merge_pieces(NO_ROW)
{
    vocabulary v;
    open_well(write_pieces("", 0), &v);
    for (size_t i = 0; i < COUNT_OF(pieces); ++i) {
        const char *have = encoded(&v, pieces[i].text, pieces[i].special);
        if (strcmp(have, pieces[i].want) != 0)
            fail_msg("\"%s\" is %s, not %s", pieces[i].text, have, pieces[i].want);
    }
    assert_true(v.begin == 1 && vocabulary_ends(&v, 2) && v.ends_count == 1);
    vocabulary_close(&v);
    open_well(write_pieces("s:tokenizer.ggml.add_space_prefix 4:7 1:0 "
                           "s:tokenizer.ggml.add_bos_token 4:7 1:0 ",
                  2),
        &v);
    assert_string_equal(encoded(&v, "the the", false), "t|he| the");
    assert_int_equal(v.begin, VOCABULARY_NONE);
    vocabulary_close(&v);
    /* a token that goes over the end of a line */
    open_well(
        write_model("s:tokenizer.ggml.model 4:8 s:llama s:tokenizer.ggml.add_space_prefix 4:7 "
                    "1:0 s:tokenizer.ggml.tokens 4:9 4:8 8:3 s:x 8:1 x:a 8:2 x:a x:78 "
                    "s:tokenizer.ggml.scores 4:9 4:6 8:3 z:12",
            4),
        &v);
    assert_string_equal(encoded(&v, "x\nx", false), "x|\nx");
    vocabulary_close(&v);
}

/* ---- properties --------------------------------------------------------------------------------
 */

static size_t put_character(unsigned c, char *to)
{
    if (c < 0x80)
        return (size_t)sprintf(to, "%c", (char)c);
    if (c < 0x800)
        return (size_t)sprintf(to, "%c%c", (char)(0xc0 | c >> 6), (char)(0x80 | (c & 63)));
    if (c < 0x10000)
        return (size_t)sprintf(to, "%c%c%c", (char)(0xe0 | c >> 12), (char)(0x80 | (c >> 6 & 63)),
            (char)(0x80 | (c & 63)));
    return (size_t)sprintf(to, "%c%c%c%c", (char)(0xf0 | c >> 18), (char)(0x80 | (c >> 12 & 63)),
        (char)(0x80 | (c >> 6 & 63)), (char)(0x80 | (c & 63)));
}

/* Any text of characters comes back from its tokens, but for the space before it. */
static void round_trips(NO_ROW)
{
    vocabulary v;
    test_rng rng = {7};
    open_well(write_pieces("", 0), &v);
    for (size_t i = 0; i < 2000; ++i) {
        char text[128], back[256] = "";
        size_t length = 0, used = 0, size;
        token_list list = {0};
        for (size_t k = test_rng_below(&rng, 30); k > 0; --k) {
            const unsigned c = 1 + (unsigned)test_rng_below(&rng, i % 2 == 0 ? 0x10ffff : 0x80);
            const char *known = parts[3 + test_rng_below(&rng, COUNT_OF(parts) - 3)];
            if (k % 3 == 0 && strncmp(known, SP, 3) != 0)
                length += (size_t)sprintf(text + length, "%s", known);
            else if (c < 0xd800 || c > 0xdfff)
                length += put_character(c, text + length);
        }
        text[length] = '\0';
        TEST_GOOD(vocabulary_encode(&v, "text", text, length, 0, &list, &f));
        bool first = true; /* after a token that is found as it is, too */
        for (size_t k = 0; k < list.count; ++k) {
            const char *part = vocabulary_text(&v, (size_t)list.tokens[k], &size);
            const size_t cut = first && v.kinds[list.tokens[k]] != VOCABULARY_USER;
            assert_true(!cut || part[0] == ' ');
            memcpy(back + used, part + cut, size - cut);
            used += size - cut;
            first = v.kinds[list.tokens[k]] == VOCABULARY_USER;
        }
        assert_int_equal(used, length);
        assert_memory_equal(back, text, length);
        free(list.tokens);
    }
    vocabulary_close(&v);
}

/* A word of many thousand bytes takes no longer than as many words. */
static void long_word(NO_ROW)
{
    enum { LENGTH = 300000 };
    vocabulary v;
    token_list list = {0};
    char *text = malloc(LENGTH + 1);
    assert_non_null(text);
    memset(text, 'x', LENGTH);
    text[LENGTH] = '\0';
    open_well(write_pieces("", 0), &v);
    TEST_GOOD(vocabulary_encode(&v, "text", text, LENGTH, 0, &list, &f));
    assert_int_equal(list.count, 1 + LENGTH / 2);
    free(list.tokens);
    free(text);
    vocabulary_close(&v);
}

/* ---- what is wrong -----------------------------------------------------------------------------
 */

#define GGML  "s:tokenizer.ggml."
#define LIST  GGML "tokens 4:9 4:8 8:3 s:a s:b s:ab "
#define WORDS GGML "model 4:8 s:gpt2 " LIST
#define PRE   GGML "pre 4:8 s:gpt-2 "
#define MERGE GGML "merges 4:9 4:8 8:1 "
#define SCORE GGML "model 4:8 s:llama " LIST GGML "scores 4:9 4:6 "

static const struct {
    const char *text;
    size_t values;
    const char *part;
} bad[] = {
    {WORDS GGML "token_type 4:9 4:5 8:2 4:1 4:1", 3,
        "no array of int32 for 3 tokens (type 5, 2 of"},
    {WORDS GGML "token_type 4:9 4:6 8:3 z:12", 3, "no array of int32 for 3 tokens (type 6, 3 of"},
    {WORDS GGML "token_type 4:4 4:3", 3, "no array of int32"},
    {WORDS GGML "eos_token_id 4:4 4:3", 3, "eos_token_id is 3, but it has 3 tokens"},
    {WORDS GGML "eot_token_id 4:5 4:0xfffffffe", 3, "eot_token_id is -2"},
    {WORDS GGML "eos_token_id 4:6 4:0x3f000000", 3, "eos_token_id is 0.5"},
    {WORDS GGML "eos_token_id 4:8 s:b", 3, "eos_token_id is nan"},
    {WORDS GGML "bos_token_id 4:4 4:3 " GGML "add_bos_token 4:7 1:1", 4, "bos_token_id is 3"},
    {WORDS MERGE "8:3 x:61 x:20 x:62", 3,
        "its tokenizer.ggml.pre is (none), expected one of gpt-2"},
    {WORDS GGML "pre 4:8 s:falcon " MERGE "8:3 x:61 x:20 x:62", 4,
        "pre is falcon, expected one of"},
    {WORDS GGML "pre 4:4 4:1 " MERGE "8:3 x:61 x:20 x:62", 4, "pre is no text"},
    {WORDS PRE, 3, "its tokenizer.ggml.merges is no array of texts"},
    {WORDS PRE GGML "merges 4:9 4:4 8:1 4:1", 4, "its tokenizer.ggml.merges is no array of texts"},
    {WORDS PRE MERGE "s:ab", 4, "merge 0 has one side alone"},
    {WORDS PRE MERGE "8:3 x:63 x:20 x:62", 4, "the left side of merge 0 is no token"},
    {WORDS PRE MERGE "8:3 x:61 x:20 x:63", 4, "the right side of merge 0 is no token"},
    {WORDS PRE MERGE "8:3 x:62 x:20 x:61", 4, "the result of merge 0 is no token"},
    {WORDS PRE MERGE "8:1 x:20", 4, "the left side of merge 0 is no token"},
    {GGML "model 4:8 s:llama " LIST, 2, "it has no tokenizer.ggml.scores"},
    {SCORE "8:2 z:8", 3, "no array of fp32 for 3 tokens (type 6, 2 of them)"},
    {SCORE "8:3 z:8 4:0x7fc00000", 3, "the score of token 2 is not finite"},
};

static void bad_vocabularies(NO_ROW)
{
    for (size_t i = 0; i < COUNT_OF(bad); ++i) {
        vocabulary v = {0};
        const char *path = write_model(bad[i].text, bad[i].values);
        TEST_REFUSED(
            vocabulary_open(path, &v, &f) && vocabulary_prepare(&v, &f), CODE_DATA, bad[i].part);
        vocabulary_close(&v);
    }
}

static const struct {
    const char *text, *part;
} bad_texts[] = {
    {"a\xff", "text: byte 1 (ff) is no UTF-8; iconv"},
    {"ab\xc3", "byte 2 (c3) is no UTF-8"},
    {"\xc3(", "byte 0 (c3)"},
    {"\xed\xa0\x80", "byte 0 (ed)"},
    {"\xc0\x80", "byte 0 (c0)"},
    {"\xf4\x90\x80\x80", "byte 0 (f4)"},
    {"z", "text: the vocabulary has no token for z (7a)"},
    {"a\x01", "no token for a byte (01)"},
    {"\xc3\xbc", "no token for \xc3\xbc (c3)"},
};

static void texts_without_tokens(NO_ROW)
{
    vocabulary v;
    open_well(write_model(SCORE "8:3 z:12 " GGML "add_space_prefix 4:7 1:0", 4), &v);
    for (size_t i = 0; i < COUNT_OF(bad_texts); ++i) {
        token_list list = {0};
        const char *text = bad_texts[i].text;
        TEST_REFUSED(vocabulary_encode(&v, "text", text, strlen(text), 0, &list, &f), CODE_DATA,
            bad_texts[i].part);
        free(list.tokens);
    }
    vocabulary_close(&v);
}

/* ---- files of texts ----------------------------------------------------------------------------
 */

/* Fails the case unless a file has these tokens and, as a text of digits, this mask. */
static void check_file(const char *name, const char *text, const char *want, const char *mask)
{
    const char *path = test_text("%s/%s", test_folder(), name);
    text_model m = {.path = write_pieces("", 0)};
    token_file file;
    fault f = {0};
    uint64_t checksum;
    test_file_write(path, text, strlen(text));
    if (!token_file_open(path, COUNT_OF(parts) + 256, &m, &file, &checksum, &f) &&
        f.code == CODE_USAGE)
        skip(); /* built without jansson */
    test_good(f.code == CODE_OK, &f);
    char joined[512] = "";
    for (size_t i = 0; i < file.count; ++i) {
        uint32_t token;
        uint8_t learnt;
        assert_true(token_file_read(&file, i, 1, &token, &f));
        assert_true(token_file_read_mask(&file, i, 1, &learnt, &f));
        join(&m.words, (int32_t)token, joined, sizeof joined);
        assert_int_equal(learnt, mask == NULL ? 1 : mask[i] - '0');
    }
    assert_string_equal(joined, want);
    text_model_close(&m);
    token_file_close(&file);
}

static void text_files(NO_ROW)
{
    check_file("train.txt", "the\nx</s>", " the|\n|x|<|/|s|>", NULL);
    check_file("a.JSONL",
        "{\"text\": \"the\"}\n\n \t\r\n{\"prompt\": \"x\", \"completion\": \"the\"}",
        "<s>| the|</s>|<s>| x|t|he|</s>", "01100111");
    check_file("b.jsonl",
        "{\"input\": \"x\", \"question\": \"t\", \"instruction\": \"\", \"answer\": \"x</s>\"}\n",
        "<s>| t|\n|x|x|</s>", "000011");
}

static const struct {
    const char *name, *text, *part;
} bad_files[] = {
    {"a.txt", "", "it is empty"},
    {"a.txt", "the \xff", "a.txt: byte 4 (ff) is no UTF-8"},
    {"a.jsonl", "\n", "it is empty"},
    {"a.jsonl", "{\"text\": \"x\"}\n{", "a.jsonl: line 2: no JSON object: "},
    {"a.jsonl", "[1]", "line 1: no JSON object"},
    {"a.jsonl", "{\"text\": 1}", "line 1: 0 prompts and 0 answers, expected \"text\", \"mess"},
    {"a.jsonl", "{\"prompt\": \"x\"}", "line 1: 1 prompts and 0 answers"},
    {"a.jsonl", "{\"prompt\": \"x\", \"answer\": \"x\", \"output\": \"x\"}", "and 2 answers"},
    {"a.jsonl", "{\"messages\": []}", "line 1: \"messages\" is no list of messages"},
    {"a.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}",
        "model.gguf: it has no chat template"},
    {"a.jsonl", "{\"text\": \"\xff\"}", "line 1: no JSON object: "},
};

static void wrong_text_files(NO_ROW)
{
    text_model m = {.path = write_pieces("", 0)};
    for (size_t i = 0; i < COUNT_OF(bad_files); ++i) {
        const char *path = test_text("%s/%s", test_folder(), bad_files[i].name);
        token_file file;
        uint64_t checksum;
        fault f = {0};
        test_file_write(path, bad_files[i].text, strlen(bad_files[i].text));
        if (!token_file_open(path, 500, &m, &file, &checksum, &f) && f.code == CODE_USAGE)
            skip(); /* built without jansson */
        test_refused(f.code == CODE_OK, &f, CODE_DATA, bad_files[i].part);
    }
    const char *path = test_text("%s/few.txt", test_folder());
    token_file file;
    uint64_t checksum;
    test_file_write(path, "the", 3);
    TEST_REFUSED(token_file_open(path, 9, &m, &file, &checksum, &f), CODE_DATA,
        "token 9 at position 0; the vocabulary has 9");
    TEST_REFUSED(token_file_open(path, 300, NULL, &file, &checksum, &f), CODE_USAGE,
        "a text has a vocabulary of 256, its bytes; the model's has 300");
    text_model_close(&m);
}

/* ---- tokens as texts ---------------------------------------------------------------------------
 */
/* Of both kinds, and of one that is not known. */
#define TOKENS GGML "tokens 4:9 4:8 "
static const struct {
    const char *text;
    size_t values;
    const char *words[6];
} vocabularies[] = {
    {TOKENS "8:5 s:abc s:\xc4\xa0the\xc3\xa9\xc4\x8a s:<|im_start|> 8:0 s:" SP "\xc5\x83\xff " GGML
            "model 4:8 s:gpt2",
        2, {"abc", " the\xe9\n", "<|im_start|>", "", SP "\xad\xff"}},
    {TOKENS "8:5 s:" SP "the" SP "\xc3\xa9 s:<0x0A> s:<0xg0> s:<s> s:<0xFF> " GGML
            "model 4:8 s:llama",
        2, {" the \xc3\xa9", "\n", "<0xg0>", "<s>", "\xff"}},
    {TOKENS "8:1 s:abc " GGML "model 4:8 s:bert", 2, {NULL}},
    {TOKENS "8:0 " GGML "model 4:8 s:llama", 2, {NULL}},
    {GGML "model 4:8 s:llama", 1, {NULL}},
    {GGML "tokens 4:9 4:4 8:1 4:7 " GGML "model 4:8 s:llama", 2, {NULL}},
};

static void texts_of_tokens(NO_ROW)
{
    vocabulary v;
    for (size_t i = 0; i < COUNT_OF(vocabularies); i++) {
        size_t length, count = 0;
        TEST_GOOD(
            vocabulary_open(write_model(vocabularies[i].text, vocabularies[i].values), &v, &f));
        for (; vocabularies[i].words[count] != NULL; count++) {
            const char *want = vocabularies[i].words[count];
            assert_true(count < v.count);
            const char *have = vocabulary_text(&v, count, &length);
            assert_int_equal(length, strlen(want));
            assert_memory_equal(have, want, length);
        }
        assert_int_equal(v.count, count);
        vocabulary_close(&v);
    }
    TEST_REFUSED(
        vocabulary_open(test_text("%s/none", test_folder()), &v, &f), CODE_DATA, "No such");
}

/* Every byte is the text of one character, as GPT-2's encoder has them. */
static void byte_alphabet(NO_ROW)
{
    static model_text m;
    vocabulary v;
    unsigned next = 0x100;
    m = (model_text){0};
    put(&m, TOKENS "8:256 ");
    for (unsigned byte = 0; byte < 256; byte++) {
        const bool printed = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
        const unsigned c = printed ? byte : next++;
        put(&m, c < 128 ? test_text("s:%c ", (char)c)
                        : test_text("8:2 x:%x x:%x ", 0xc0 | c >> 6, 0x80 | (c & 0x3f)));
    }
    put(&m, GGML "model 4:8 s:gpt2");
    TEST_GOOD(vocabulary_open(write_model(m.text, 2), &v, &f));
    assert_int_equal(v.count, 256);
    for (size_t byte = 0; byte < 256; byte++) {
        size_t length;
        const char *have = vocabulary_text(&v, byte, &length);
        assert_true(length == 1 && (unsigned char)have[0] == byte);
    }
    vocabulary_close(&v);
}

/* Prints the tokens of each text of a file on a line, or "! " and why there are none. A text has
 * its number of bytes and a line end before it. */
static int print_tokens(const char *model, const char *path, bool special)
{
    vocabulary v;
    fault f = {0};
    size_t size;
    char *texts = plain_file_read(path, SIZE_MAX - 1, &size, &f);
    const bool good = texts != NULL && vocabulary_open(model, &v, &f) && vocabulary_prepare(&v, &f);
    for (char *at = texts; good && at < texts + size;) {
        token_list list = {0};
        fault wrong = {0};
        const size_t length = strtoul(at, &at, 10);
        const char kept = (++at)[length];
        at[length] = '\0';
        if (!vocabulary_encode(&v, "a text", at, length, special, &list, &wrong))
            (void)printf("! %s", wrong.text);
        for (size_t i = 0; wrong.code == CODE_OK && i < list.count; ++i)
            (void)printf("%d ", (int)list.tokens[i]);
        (void)printf("\n");
        at[length] = kept;
        at += length;
        free(list.tokens);
    }
    if (good)
        vocabulary_close(&v);
    else
        (void)fprintf(stderr, "%s\n", f.text);
    free(texts);
    return !good;
}

/* test_vocabulary MODEL TEXTS [special] prints tokens. */
int main(int argc, char **argv)
{
    test_list list = {0};
    if (argc > 2)
        return print_tokens(argv[1], argv[2], argc > 3);
    test_add(&list, texts_of_tokens, NULL, "texts of tokens");
    test_add(&list, byte_alphabet, NULL, "the alphabet of bytes");
    test_add(&list, cut_into_words, NULL, "byte-level BPE");
    test_add(&list, added, NULL, "tokens that are found as they are");
    test_add(&list, merge_pieces, NULL, "SentencePiece");
    test_add(&list, round_trips, NULL, "texts come back");
    test_add(&list, long_word, NULL, "a long word");
    test_add(&list, bad_vocabularies, NULL, "bad vocabularies");
    test_add(&list, texts_without_tokens, NULL, "texts without tokens");
    test_add(&list, text_files, NULL, "files of texts");
    test_add(&list, wrong_text_files, NULL, "bad files of texts");
    return test_run_on_host("vocabulary", &list);
}
