/* Vocabularies in tokenizer.json: each way to cut texts that is known, tokens that are found as
 * they are, what ends a text; each bad file with its sentence. */
#include "support/test_folder.h"
#include "support/test_words.h"

#define BYTES(words) "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":" words "}"
#define BOTH(first)  "{\"type\":\"Sequence\",\"pretokenizers\":[" first "]}"
#define SPLIT(digits)                                                                              \
    BOTH("{\"type\":\"Split\",\"behavior\":\"Isolated\",\"invert\":false,\"pattern\":{\"Regex\":"  \
         "\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}" digits  \
         "| "                                                                                      \
         "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"}}"  \
         "," BYTES("false"))
#define TEKKEN                                                                                     \
    BOTH("{\"type\":\"Split\",\"behavior\":\"Isolated\",\"invert\":false,\"pattern\":{\"Regex\":"  \
         "\"[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*[\\\\p{"  \
         "Ll}\\\\p{Lm}\\\\p{"                                                                      \
         "Lo}\\\\p{M}]+|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{" \
         "M}]+[\\\\p{Ll}\\\\p{"                                                                    \
         "Lm}\\\\p{Lo}\\\\p{M}]*|\\\\p{N}| "                                                       \
         "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n/]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"}}" \
         "," BYTES("false"))
#define VOCAB        "{\"a\":0,\"1\":1,\"2\":2,\"\\u0120\":3,\"12\":4,\"!\":5,\"!a\":6}"
#define MODEL(more)  "\"model\":{\"type\":\"BPE\",\"vocab\":" VOCAB more "}"
#define MERGES(list) MODEL(",\"merges\":[" list "]")
#define GOOD         MERGES("\"1 2\",[\"!\",\"a\"]")
#define ADDED                                                                                      \
    ",\"added_tokens\":[{\"id\":7,\"content\":\"<\u00e9>\",\"special\":false},"                    \
    "{\"id\":8,\"content\":\"<y>\",\"special\":true}]"
#define BEGIN                                                                                      \
    ",\"post_processor\":{\"type\":\"Sequence\",\"processors\":[{\"type\":\"ByteLevel\"},{"        \
    "\"type\":"                                                                                    \
    "\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<y>\"}},{\"Sequence\":{}}],"   \
    "\"special_tokens\":{\"<y>\":{\"ids\":[8]}}}]}"

static const char *write_folder(const char *text)
{
    static const char config[] = "{\"bos_token_id\":8,\"eos_token_id\":[8,1,99]}";
    const char *folder = test_folder();
    test_file_write(test_text("%s/tokenizer.json", folder), text, strlen(text));
    test_file_write(test_text("%s/config.json", folder), config, sizeof config - 1);
    return folder;
}

static const struct {
    const char *text, *want;
    int32_t begin;
} folders[] = {
    {"{\"pre_tokenizer\":" BYTES("true") "," GOOD ADDED "}", "!|a| |12|<\xc3\xa9>|12|<y>",
        VOCABULARY_NONE},
    {"{\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":" SPLIT("{1,3}") "," GOOD ADDED BEGIN
                                                                            "}",
        "!a| |12|<\xc3\xa9>|12|<y>", 8},
    {"{\"pre_tokenizer\":" SPLIT("{1,3}") "," MODEL(",\"merges\":[],\"ignore_merges\":true") ADDED
        "}",
        "!a| |12|<\xc3\xa9>|12|<y>", VOCABULARY_NONE},
    {"{\"pre_tokenizer\":" SPLIT("{1,3}") "," MODEL(",\"merges\":[]") ADDED "}",
        "!|a| |1|2|<\xc3\xa9>|1|2|<y>", VOCABULARY_NONE},
    {"{\"normalizer\":null,\"pre_tokenizer\":" SPLIT("") "," GOOD ADDED "}",
        "!a| |1|2|<\xc3\xa9>|1|2|<y>", VOCABULARY_NONE},
    {"{\"pre_tokenizer\":" TEKKEN "," MODEL(",\"merges\":[],\"ignore_merges\":true") ADDED "}",
        "!a| |1|2|<\xc3\xa9>|1|2|<y>", VOCABULARY_NONE},
    {"{\"pre_tokenizer\":" BOTH(
         "{\"type\":\"Digits\",\"individual_digits\":true}," BYTES("true")) "," GOOD ADDED "}",
        "!|a| |1|2|<\xc3\xa9>|1|2|<y>", VOCABULARY_NONE},
};

static const struct {
    const char *text, *part;
} bad_folders[] = {
    {"{", "tokenizer.json: no JSON object: "},
    {"[]", "tokenizer.json: no JSON object"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{}}}", "a token has no number from 0 to 1048575"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1}}}", "a token has no number"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1048576}}}", "a token has no number"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":\"0\"}}}", "a token has no number"},
    {"{" GOOD ",\"added_tokens\":[{\"id\":7}]}", "a token has no number"},
    {"{" MODEL("") "}", "it has no list of merges"},
    {"{" GOOD "}", "its pre_tokenizer cuts texts in a way that is not known"},
    {"{\"pre_tokenizer\":" SPLIT("{1,2}") "," GOOD "}", "in a way that is not known"},
    {"{\"pre_tokenizer\":" BYTES("false") "," GOOD "}", "in a way that is not known"},
    {"{\"pre_tokenizer\":" BYTES("true") "," MERGES("[\"1\"]") "}", "a merge has not two sides"},
    {"{\"pre_tokenizer\":" BYTES("true") "," MERGES("\"12\"") "}", "a merge has not two sides"},
    {"{\"pre_tokenizer\":" BYTES("true") "," MERGES("\"1 a\"") "}",
        "the result of merge 0 is no token"},
    {"{\"normalizer\":{\"type\":\"Lowercase\"},\"pre_tokenizer\":" BYTES("true") "," GOOD "}",
        "its normalizer, or a token of it, changes texts"},
    {"{\"pre_tokenizer\":" BYTES(
         "true") "," GOOD ",\"added_tokens\":[{\"id\":7,\"content\":\"<x>\",\"lstrip\":true}]}",
        "its normalizer, or a token of it, changes texts"},
    {"{" MODEL(",\"merges\":[],\"byte_fallback\":true") "}", "of SentencePiece; a GGUF file"},
};

static void folder_files(NO_ROW)
{
    vocabulary v;
    TEST_GOOD(vocabulary_open(write_folder(folders[0].text), &v, &f));
    if (v.count == 0)
        skip(); /* built without jansson */
    vocabulary_close(&v);
    for (size_t i = 0; i < COUNT_OF(folders); ++i) {
        open_well(write_folder(folders[i].text), &v);
        assert_string_equal(encoded(&v, "!a 12<\xc3\xa9>12<y>", true), folders[i].want);
        assert_true(v.ends_count == 2 && v.ends[0] == 8 && v.ends[1] == 1);
        assert_int_equal(v.begin, folders[i].begin);
        vocabulary_close(&v);
    }
}

static void bad_files(NO_ROW)
{
    vocabulary v;
    TEST_GOOD(vocabulary_open(write_folder(folders[0].text), &v, &f));
    if (v.count == 0)
        skip();
    vocabulary_close(&v);
    for (size_t i = 0; i < COUNT_OF(bad_folders); ++i) {
        v = (vocabulary){0};
        const char *folder = write_folder(bad_folders[i].text);
        TEST_REFUSED(vocabulary_open(folder, &v, &f) && vocabulary_prepare(&v, &f), CODE_DATA,
            bad_folders[i].part);
        vocabulary_close(&v);
    }
    TEST_GOOD(vocabulary_open(write_folder("{\"model\":{\"type\":\"Unigram\"}}"), &v, &f));
    assert_int_equal(v.count, 0);
    vocabulary_close(&v);
}

int main(void)
{
    test_list list = {0};
    test_add(&list, folder_files, NULL, "folders of transformers");
    test_add(&list, bad_files, NULL, "bad files");
    return test_run_on_host("vocabulary_json", &list);
}
