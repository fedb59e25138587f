/* Conversations as tokens: each public chat template gives what transformers renders
 * (golden/make_chat.py), from GGUF files and folders; what a message says is plain; what is learnt;
 * each template and conversation that is refused, with its sentence. Tokens of real vocabularies
 * beside transformers': long/chat_templates.sh, which runs this one with a model. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/gguf_text.h"
#include "support/test_folder.h"
#include "support/test_words.h"
#include "trainer/data/token_file.h"
#include "trainer/files/plain_file.h"
#include "trainer/vocabulary/chat.h"

static const struct {
    const char *family, *template;
    bool system;
    const char *want[4]; /* of `conversations`; {...}: a special token, [...]: learnt */
} rows[] = {
#include "golden/golden_chat.inc"
};

/* ---- a vocabulary of bytes ---------------------------------------------------------------------
 */

static const char *const special[] = {"<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>",
    "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|user|>", "<|assistant|>",
    "<|system|>", "<|end|>", "<start_of_turn>", "<end_of_turn>"};

static void put(char **at, const char *text)
{
    const size_t length = strlen(text);
    memcpy(*at, text, length + 1);
    *at += length;
}

/* A key of a text with any characters. */
static void put_template(char **at, const char *key, const char *text)
{
    put(at, test_text("s:%s 4:8 8:%zu ", key, strlen(text)));
    for (const char *p = text; *p != '\0'; ++p)
        put(at, test_text("x:%x ", (unsigned)(unsigned char)*p));
}

/* more: further values, `count` of them. */
static const char *write_bytes(const char *template, bool space, const char *more, size_t count)
{
    static char text[1 << 16];
    static unsigned char bytes[1 << 16];
    char *at = text;
    const size_t all = COUNT_OF(special) + 256;
    const char *path = test_text("%s/model.gguf", test_folder());
    put(&at,
        test_text(
            "GGUF 4:3 8:0 8:%zu s:tokenizer.ggml.model 4:8 s:llama "
            "s:tokenizer.ggml.add_space_prefix 4:7 1:%d s:tokenizer.ggml.tokens 4:9 4:8 8:%zu ",
            5 + count + (template != NULL), space, all));
    for (size_t i = 0; i < COUNT_OF(special); ++i)
        put(&at, test_text("s:%s ", special[i]));
    for (unsigned byte = 0; byte < 256; ++byte)
        put(&at, test_text("s:<0x%02X> ", byte));
    put(&at, test_text("s:tokenizer.ggml.token_type 4:9 4:5 8:%zu ", all));
    for (size_t i = 0; i < all; ++i)
        put(&at, i == 0 ? "4:2 " : i < COUNT_OF(special) ? "4:3 " : "4:6 ");
    put(&at, test_text("s:tokenizer.ggml.scores 4:9 4:6 8:%zu z:%zu ", all, 4 * all));
    if (template != NULL)
        put_template(&at, "tokenizer.chat_template", template);
    put(&at, more);
    assert_true(at < text + sizeof text);
    test_file_write(path, bytes, gguf_text_make(text, bytes, sizeof bytes));
    return path;
}

#define NAMES "s:tokenizer.ggml.bos_token_id 4:4 4:1 s:tokenizer.ggml.eos_token_id 4:4 4:2 "

static void open_chat(const char *template, vocabulary *v, chat *c)
{
    open_well(write_bytes(template, false, NAMES, 2), v);
    TEST_GOOD(chat_open(v, c, &f));
}

/* ---- what is written ---------------------------------------------------------------------------
 */

#define SAYS(role, text)                                                                           \
    {                                                                                              \
        role, text, sizeof text - 1                                                                \
    }
static const chat_message first[] = {SAYS("user", "Hi there"), SAYS("assistant", "Hello!")},
                          second[] = {SAYS("system", "Be brief.\n"),
                              SAYS("user", "  Two\nlines \n"), SAYS("assistant", " Yes. "),
                              SAYS("user", "\u3000\u00e9?"), SAYS("assistant", "\tend\u00a0")},
                          third[] = {SAYS("user", "\nHi")},
                          fourth[] = {SAYS("user", "Add"),
                              SAYS("assistant", "<think>\nOne\n</think>\n\n2"),
                              SAYS("user", "More"),
                              SAYS(
                                  "assistant", "a<think>b<think>\n\nTwo\n\n</think>c</think>\n\n4"),
                              SAYS("user", "<tool_response>5</tool_response>"),
                              SAYS("assistant", "\n6"),
                              SAYS("user", "<tool_response></tool_response>"),
                              SAYS("assistant", "\n7</think>\n\n8")};
static const struct {
    const chat_message *messages;
    size_t count;
} conversations[] = {{first, 2}, {second, 5}, {third, 1}, {fourth, 8}};

/* Tokens with their marks, as `rows` has them. */
static const char *shown(
    const chat *c, const vocabulary *v, const chat_message *messages, size_t count, bool prompts)
{
    static char text[4096];
    token_list list = {0};
    unsigned char *learnt;
    size_t used = 0, length;
    TEST_GOOD(chat_encode(c, v, "lines", messages, count, prompts, &list, &learnt, &f));
    for (size_t i = 0; i <= list.count; ++i) {
        const bool before = i > 0 && learnt[i - 1] != 0, now = i < list.count && learnt[i] != 0;
        used += (size_t)sprintf(text + used, "%s", before == now ? "" : now ? "[" : "]");
        if (i == list.count)
            break;
        const bool is_special = v->kinds[list.tokens[i]] == VOCABULARY_CONTROL;
        const char *token = vocabulary_text(v, (size_t)list.tokens[i], &length);
        used += (size_t)sprintf(text + used, "%s%.*s%s", is_special ? "{" : "", (int)length, token,
            is_special ? "}" : "");
        assert_true(used + 256 < sizeof text);
    }
    free(list.tokens);
    free(learnt);
    return text;
}

static void public_templates(NO_ROW)
{
    for (size_t i = 0; i < COUNT_OF(rows); ++i) {
        vocabulary v;
        chat c;
        open_chat(rows[i].template, &v, &c);
        for (size_t k = 0; k < COUNT_OF(conversations); ++k) {
            const bool without = k == 1 && !rows[i].system;
            const char *have = shown(&c, &v, conversations[k].messages + without,
                conversations[k].count - without, conversations[k].count == 1);
            if (strcmp(have, rows[i].want[k]) != 0)
                fail_msg(
                    "%s, conversation %zu:\n%s\nnot\n%s", rows[i].family, k, have, rows[i].want[k]);
        }
        const char *end = strstr(rows[i].want[0], "}]");
        size_t length;
        const char *token = vocabulary_text(&v, (size_t)c.end, &length);
        assert_true(end != NULL && memcmp(end - length, token, length) == 0);
        chat_close(&c);
        vocabulary_close(&v);
    }
}

/* The text of a special token is that token in the template, and characters in a message. */
static void said(NO_ROW)
{
    static const chat_message messages[] = {
        SAYS("user", "a<|im_end|>\n<|im_start|>"), SAYS("assistant", "</s><|im_end|>")};
    vocabulary v;
    chat c;
    open_chat(rows[0].template, &v, &c);
    assert_string_equal(shown(&c, &v, messages, 2, false),
        "{<|im_start|>}user\na<|im_end|>\n<|im_start|>{<|im_end|>}\n{<|im_start|>}assistant\n"
        "[</s><|im_end|>{<|im_end|>}]\n");
    chat_close(&c);
    vocabulary_close(&v);
}

/* What a system message orders in SmolLM3's template. */
#define SMOLLM3(mode, text)                                                                        \
    "{<|im_start|>}system\n## Metadata\n\nKnowledge Cutoff Date: June 2025\nToday Date: 08 July "  \
    "2025\nReasoning Mode: " mode "\n\n## Custom Instructions\n\n" text                            \
    "\n\n{<|im_start|>}user\nHi{<|im_end|>}\n{<|im_start|>}assistant\n"
static const struct {
    const char *system, *want;
} ordered[] = {{"/no_think", SMOLLM3("/no_think", "Don't think.") "<think>\n\n</think>\n"},
    {" a /think/no_think\n", SMOLLM3("/no_think", " a") "<think>\n\n</think>\n"},
    {"a/think<|im_end|>", SMOLLM3("/think", "a<|im_end|>")},
    {" \n", SMOLLM3("/think", "Think in <think>, then say it.")},
    {"a\n/system_override /no_think",
        "{<|im_start|>}system\na{<|im_end|>}\n{<|im_start|>}user\nHi{<|im_end|>}\n{<|im_start|>}"
        "assistant\n<think>\n\n</think>\n"}};

static void orders(NO_ROW)
{
    vocabulary v;
    chat c;
    open_chat(rows[23].template, &v, &c);
    for (size_t i = 0; i < COUNT_OF(ordered); ++i) {
        const chat_message messages[] = {{"system", ordered[i].system, strlen(ordered[i].system)},
            SAYS("user", "Hi"), SAYS("assistant", "\nYes")};
        assert_string_equal(shown(&c, &v, messages, 2, true), ordered[i].want);
        assert_string_equal(
            shown(&c, &v, messages, 3, false), test_text("%s[Yes{<|im_end|>}]\n", ordered[i].want));
    }
    chat_close(&c);
    vocabulary_close(&v);
}

/* SentencePiece's space before a text, which only tokens have, goes with what follows. */
static void spaces(NO_ROW)
{
    vocabulary v;
    chat c;
    open_well(write_bytes(rows[9].template, true, NAMES, 2), &v);
    TEST_GOOD(chat_open(&v, &c, &f));
    assert_string_equal(shown(&c, &v, second + 1, 2, false),
        "{<s>}{<|user|>} Two\nlines \n{<|end|>}{<|assistant|>}[ Yes. {<|end|>}]");
    chat_close(&c);
    vocabulary_close(&v);
    /* Mistral 0.3's template has its spaces, and its tokenizer adds none */
    open_well(write_bytes(rows[18].template, true, NAMES, 2), &v);
    TEST_GOOD(chat_open(&v, &c, &f));
    assert_string_equal(
        shown(&c, &v, first, 2, false), "{<s>}[INST] Hi there[/INST][ Hello!{</s>}]");
    chat_close(&c);
    vocabulary_close(&v);
}

/* ---- what is refused ---------------------------------------------------------------------------
 */

/* Each has something that its neighbour among the families has not. */
static const char *const unknown[] = {"", "{{ messages }}",
    "{% for m in messages %}{{ m.content }}",
    /* no end of a line; no question; a system message of more than a text; another loop */
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% "
    "endif %}",
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>\n'}}{% endfor %}{{ '<|im_start|>assistant\n' }}",
    "{{'<|im_start|>system\nToday is ' + date + '<|im_end|>\n'}}{% for message in messages "
    "%}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n'}}{% endfor "
    "%}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "{% for message in messages %} {{'<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ "
    "'<|im_end|>\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% "
    "endif %}",
    /* Qwen2.5's, with a word of its own behind each user; beside tools nothing may be added */
    "{%- if tools %}{{- 'tools' }}{%- else %}{%- if messages[0]['role'] == 'system' %}{{- "
    "'<|im_start|>system\n' + messages[0]['content'] + '<|im_end|>\n' }}{%- else %}{{- "
    "'<|im_start|>system\nBe brief.<|im_end|>\n' }}{%- endif %}{%- endif %}{%- for message in "
    "messages %}{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' "
    "}}{%- if message.role == 'user' %}{{- 'more' }}{%- endif %}{%- endfor %}{%- if "
    "add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}",
    "{{ 'a", "{% if", "{{'\\", "{%- -%}{", "{#"};

/* Known ones with one change: another day or year; what it thinks in all answers, or in none unless
 * it is asked for; answers, and messages, without their space. */
static const struct {
    size_t row;
    const char *from, *to;
} changes[] = {{13, "26 Jul", "27 Jul"}, {14, "December 2023", "May 2024"},
    {15, "'\\n' + content }}", "'' }}"},
    {16, "enable_thinking is false", "enable_thinking is true"},
    {18, "' ' + message.content", "message.content"},
    {19, "'[INST]' + message", "'[INST] ' + message"}, {23, "\"Don't think.\\n\\n\"", "''"},
    {24, "June 2025", "July 2025"}};

static const char *changed(size_t i)
{
    const char *whole = rows[changes[i].row].template, *at = strstr(whole, changes[i].from);
    assert_non_null(at);
    return test_text(
        "%.*s%s%s", (int)(at - whole), whole, changes[i].to, at + strlen(changes[i].from));
}

static void unknown_templates(NO_ROW)
{
    vocabulary v;
    chat c;
    for (size_t i = 0; i < COUNT_OF(unknown) + COUNT_OF(changes); ++i) {
        const size_t known = i - COUNT_OF(unknown);
        open_well(
            write_bytes(i < COUNT_OF(unknown) ? unknown[i] : changed(known), false, NAMES, 2), &v);
        TEST_REFUSED(chat_open(&v, &c, &f), CODE_DATA,
            "model.gguf: its chat template is none of those known here (ChatML, Qwen2.5, Qwen3, "
            "Qwen3 2507 Instruct, SmolLM3, Llama 2, Llama 3, Llama 3.1, Mistral, Mistral 0.1, "
            "Mistral with "
            "system messages, Mistral 0.3, Mistral Nemo, Mistral Small, Phi-3, Phi-3 with system "
            "messages, Gemma, Gemma 3, Zephyr); tokens.py puts lines into any template");
        vocabulary_close(&v);
    }
    open_well(write_bytes(NULL, false, NAMES, 2), &v);
    TEST_REFUSED(chat_open(&v, &c, &f), CODE_DATA, "model.gguf: it has no chat template");
    vocabulary_close(&v);
    open_well(write_bytes(NULL, false, "s:tokenizer.chat_template 4:4 4:7 ", 1), &v);
    TEST_REFUSED(
        chat_open(&v, &c, &f), CODE_DATA, "model.gguf: its tokenizer.chat_template is no text");
    vocabulary_close(&v);
    open_well(
        write_bytes(rows[4].template, false, "s:tokenizer.ggml.eos_token_id 4:4 4:2 ", 1), &v);
    TEST_REFUSED(chat_open(&v, &c, &f), CODE_DATA,
        "its chat template writes the token that begins a text, but it names none");
    vocabulary_close(&v);
    open_well(
        write_bytes(rows[12].template, false, "s:tokenizer.ggml.bos_token_id 4:4 4:1 ", 1), &v);
    TEST_REFUSED(chat_open(&v, &c, &f), CODE_DATA, "token that ends a text, but it names none");
    vocabulary_close(&v);
    open_well(
        write_bytes(rows[12].template, false, "s:tokenizer.ggml.eos_token_id 4:4 4:110 ", 1), &v);
    TEST_REFUSED(chat_open(&v, &c, &f), CODE_DATA, "ends turns with `, which is no token that con");
    vocabulary_close(&v);
}

static const struct {
    size_t row;
    const char *messages, *part;
} bad[] = {
    {0, "", "\"messages\" is no list of messages"},
    {0, "7", "message 1 has no text as its \"role\""},
    {0, "{\"content\":\"a\"}", "message 1 has no text as its \"role\""},
    {0, "{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\"}",
        "message 2 has no text as its \"content\""},
    {0, "{\"role\":\"user\",\"content\":[\"a\"]}", "message 1 has no text as its \"content\""},
    {0, "{\"role\":\"user\",\"content\":null}", "message 1 has no text as its \"content\""},
    {0, "{\"role\":\"tool\",\"content\":\"a\"}",
        "message 1 has the role tool, expected system, user or assistant"},
    {0, "{\"role\":\"assistant\",\"content\":\"a\"}",
        "message 1 has the role assistant, expected system or user: after a system message, if"},
    {0, "{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"user\",\"content\":\"a\"}",
        "message 2 has the role user, expected assistant: after"},
    {0, "{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"system\",\"content\":\"a\"}",
        "message 2 has the role system, expected assistant: after"},
    {0, "{\"role\":\"system\",\"content\":\"a\"},{\"role\":\"system\",\"content\":\"a\"}",
        "message 2 has the role system, expected user: after"},
    {0, "{\"role\":\"system\",\"content\":\"a\"}", "no message is of the user"},
    {11, "{\"role\":\"system\",\"content\":\"a\"},{\"role\":\"user\",\"content\":\"a\"}",
        "message 1 has the role system, which the model's chat template (Gemma) lacks"},
    {18, "{\"role\":\"system\",\"content\":\"a\"},{\"role\":\"user\",\"content\":\"a\"}",
        "message 1 has the role system, which the model's chat template (Mistral 0.3) lacks"},
    {15,
        "{\"role\":\"user\",\"content\":\"a\",\"tool_calls\":[]},{\"role\":\"assistant\","
        "\"content\":\"a\",\"reasoning_content\":\"b\"}",
        "message 2 has \"reasoning_content\", which is not put into a chat template"},
    {0,
        "{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"\","
        "\"tool_calls\":[{}]}",
        "message 2 has \"tool_calls\", which is not put into a chat template"},
};

/* Opens a file of lines, whose tokens take a build with jansson. */
static bool open_lines(text_model *m, const char *lines, token_file *file, fault *f)
{
    const char *path = test_text("%.*s/a.jsonl", (int)(strrchr(m->path, '/') - m->path), m->path);
    uint64_t checksum;
    test_file_write(path, lines, strlen(lines));
    const bool good = token_file_open(path, COUNT_OF(special) + 256, m, file, &checksum, f);
    if (!good && f->code == CODE_USAGE)
        skip();
    return good;
}

static void bad_conversations(NO_ROW)
{
    for (size_t i = 0; i < COUNT_OF(bad); ++i) {
        text_model m = {.path = write_bytes(rows[bad[i].row].template, false, NAMES, 2)};
        token_file file;
        fault f = {0};
        const bool good = open_lines(
            &m, test_text("{\"text\":\"a\"}\n{\"messages\":[%s]}\n", bad[i].messages), &file, &f);
        test_refused(good, &f, CODE_DATA, test_text("a.jsonl: line 2: %s", bad[i].part));
        text_model_close(&m);
    }
    text_model m = {.path = write_bytes(rows[0].template, false, NAMES, 2)};
    token_file file;
    fault f = {0};
    const bool good = open_lines(
        &m, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":[1]}", &file, &f);
    test_refused(good, &f, CODE_DATA, "line 1: \"tools\" are not put into a chat template");
    text_model_close(&m);
}

/* ---- files of lines ----------------------------------------------------------------------------
 */

/* The tokens of lines as `shown` has them. */
static const char *lines_of(text_model *m, const char *lines)
{
    static char text[4096];
    token_file file;
    fault f = {0};
    size_t used = 0, length;
    test_good(open_lines(m, lines, &file, &f), &f);
    uint8_t learnt = 0, last = 0;
    for (size_t i = 0; i < file.count; ++i, last = learnt) {
        uint32_t token;
        assert_true(token_file_read(&file, i, 1, &token, &f));
        assert_true(token_file_read_mask(&file, i, 1, &learnt, &f));
        const char *word = vocabulary_text(&m->words, token, &length);
        used += (size_t)sprintf(text + used, "%s%.*s",
            learnt == last ? ""
            : learnt != 0  ? "["
                           : "]",
            (int)length, word);
    }
    token_file_close(&file);
    return text;
}

static void lines_in_templates(NO_ROW)
{
    static const char lines[] = "{\"prompt\":\"p\",\"completion\":\"c\"}\n"
                                "{\"messages\":[{\"role\":\"user\",\"content\":\"u\"},"
                                "{\"role\":\"assistant\",\"content\":\"a\"}],\"tools\":null}\n"
                                "{\"text\":\"t\"}\n";
    text_model m = {.path = write_bytes(rows[0].template, false, NAMES, 2)};
    assert_string_equal(lines_of(&m, lines),
        "<s>p[c</s>]<|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\n[a<|im_end|>]\n<s>[t</"
        "s>");
    m.chat = true;
    assert_string_equal(lines_of(&m, lines),
        "<|im_start|>user\np<|im_end|>\n<|im_start|>assistant\n[c<|im_end|>]\n"
        "<|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\n[a<|im_end|>]\n<s>[t</s>");
    text_model_close(&m);
}

/* ---- folders -----------------------------------------------------------------------------------
 */

static const char tokenizer[] =
    "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true},"
    "\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{\"a\":0,\"u\":1,\"s\":2,\"e\":3,\"r\":4,"
    "\"t\":5,\"n\":6,\"i\":7,\"m\":8,\"y\":9,\"\\u010a\":10}},\"added_tokens\":["
    "{\"id\":11,\"content\":\"<|im_start|>\",\"special\":true},"
    "{\"id\":12,\"content\":\"<|im_end|>\",\"special\":true}]}";
#define JINJA                                                                                      \
    "{% for message in messages %}{{'<|im_start|>' + message.role + '\\n' + message.content + "    \
    "'<|im_end|>\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' "    \
    "}}{% endif %}"
#define ESCAPED                                                                                    \
    "{% for message in messages %}{{'<|im_start|>' + message.role + '\\\\n' + message.content + "  \
    "'<|im_end|>\\\\n'}}{% endfor %}{% if add_generation_prompt %}{{ "                             \
    "'<|im_start|>assistant\\\\n' }}{% endif %}"

static void write_file(const char *folder, const char *name, const char *text)
{
    test_file_write(test_text("%s/%s", folder, name), text, strlen(text));
}

/* chat_template.jinja counts, then tokenizer_config.json, in which it may be one of several. */
static void folders(NO_ROW)
{
    static const chat_message messages[] = {SAYS("user", "a"), SAYS("assistant", "ti")};
    static const struct {
        const char *config, *jinja;
    } files[] = {{"{}", JINJA},
        {"{\"chat_template\":\"" ESCAPED "\",\"eos_token\":\"a\",\"model_max_length\":"
         "1000000000000000019884624838656}",
            NULL},
        {"{\"chat_template\":\"other\",\"bos_token\":{\"content\":\"a\"}}", JINJA},
        {"{\"chat_template\":[{\"name\":\"tool_use\",\"template\":\"\"},{\"name\":\"default\","
         "\"template\":\"" ESCAPED "\"}]}",
            NULL}};
    const char *folder = test_folder();
    vocabulary v;
    chat c;
    write_file(folder, "tokenizer.json", tokenizer);
    write_file(folder, "config.json", "{}");
    for (size_t i = 0; i < COUNT_OF(files); ++i) {
        write_file(folder, "tokenizer_config.json", files[i].config);
        (void)remove(test_text("%s/chat_template.jinja", folder));
        if (files[i].jinja != NULL)
            write_file(folder, "chat_template.jinja", files[i].jinja);
        open_well(folder, &v);
        if (v.count == 0)
            skip(); /* built without jansson */
        TEST_GOOD(chat_open(&v, &c, &f));
        assert_string_equal(shown(&c, &v, messages, 2, false),
            "{<|im_start|>}user\na{<|im_end|>}\n{<|im_start|>}assistant\n[ti{<|im_end|>}]\n");
        chat_close(&c);
        vocabulary_close(&v);
    }
    static const char *const none[] = {"{}", "{\"chat_template\":7}", "{\"chat_template\":[{}]}"};
    (void)remove(test_text("%s/chat_template.jinja", folder));
    for (size_t i = 0; i < COUNT_OF(none); ++i) {
        write_file(folder, "tokenizer_config.json", none[i]);
        open_well(folder, &v);
        TEST_REFUSED(chat_open(&v, &c, &f), CODE_DATA, "it has no chat template");
        vocabulary_close(&v);
    }
    write_file(folder, "tokenizer_config.json", "{");
    open_well(folder, &v);
    TEST_REFUSED(chat_open(&v, &c, &f), CODE_DATA, "tokenizer_config.json: no JSON object: ");
    vocabulary_close(&v);
}

/* Prints for each line of a file its tokens, and those that are learnt with a '+', or "! " and why
 * there are none. prompts: a line is what a user says. */
static int print_lines(const char *model, const char *path, bool prompts)
{
    text_model m = {.path = model};
    fault f = {0};
    chat c = {0};
    size_t size;
    char *lines = plain_file_read(path, SIZE_MAX - 1, &size, &f);
    const char *one = "one.jsonl";
    bool good = lines != NULL && text_model_open(&m, &f) && vocabulary_prepare(&m.words, &f) &&
                (!prompts || chat_open(&m.words, &c, &f));
    for (char *at = lines, *end; good && (end = strchr(at, '\n')) != NULL; at = end + 1) {
        fault wrong = {0};
        token_list list = {0};
        token_file file = {0};
        uint64_t checksum;
        uint32_t token = 0;
        uint8_t learnt = 0;
        const chat_message message = {"user", at, (size_t)(end - at)};
        if (prompts)
            (void)chat_encode(&c, &m.words, "a line", &message, 1, true, &list, NULL, &wrong);
        else
            test_file_write(one, at, (size_t)(end - at));
        if (prompts || token_file_open(one, (uint32_t)m.words.count, &m, &file, &checksum, &wrong))
            for (size_t i = 0; i < (prompts ? list.count : file.count); ++i) {
                if (prompts)
                    token = (uint32_t)list.tokens[i];
                else
                    good = token_file_read(&file, i, 1, &token, &f) &&
                           token_file_read_mask(&file, i, 1, &learnt, &f) && good;
                (void)printf("%u%s ", token, learnt != 0 ? "+" : "");
            }
        (void)printf("%s%s\n", wrong.code == CODE_OK ? "" : "! ", wrong.text);
        token_file_close(&file);
        free(list.tokens);
    }
    if (!good)
        (void)fprintf(stderr, "%s\n", f.text);
    chat_close(&c);
    text_model_close(&m);
    free(lines);
    return !good;
}

/* test_chat MODEL LINES [prompts] prints tokens. */
int main(int argc, char **argv)
{
    test_list list = {0};
    if (argc > 2)
        return print_lines(argv[1], argv[2], argc > 3);
    test_add(&list, public_templates, NULL, "public templates");
    test_add(&list, said, NULL, "what a message says");
    test_add(&list, orders, NULL, "what a system message orders");
    test_add(&list, spaces, NULL, "spaces before texts");
    test_add(&list, unknown_templates, NULL, "unknown templates");
    test_add(&list, bad_conversations, NULL, "bad conversations");
    test_add(&list, lines_in_templates, NULL, "lines in templates");
    test_add(&list, folders, NULL, "folders");
    return test_run_on_host("chat", &list);
}
