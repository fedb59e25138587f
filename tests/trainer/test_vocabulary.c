/* Texts as tokens and back: both kinds of vocabularies, each way to cut a text into words, tokens
 * that are found as they are, and each wrong vocabulary and text with its sentence. Encodings beside
 * transformers': long/vocabularies.sh, which runs this program with a model and texts. */
#include <stdio.h>
#include <stdlib.h>

#include "support/gguf_text.h"
#include "support/test_fault.h"
#include "support/test_folder.h"
#include "trainer/vocabulary/text_tokens.h"

/* Prints the tokens of each text of a file on a line, or "! " and why there are none. A text has its
 * number of bytes and a line end before it. */
static int print_tokens(const char *model, const char *path, bool special)
{
    vocabulary v;
    fault f = {0};
    size_t size;
    char *texts = text_tokens_read(path, &size, &f);
    bool good = texts != NULL && vocabulary_open(model, &v, &f) && vocabulary_prepare(&v, &f);
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

int main(int argc, char **argv)
{
    return print_tokens(argv[1], argv[2], argc > 3);
}
