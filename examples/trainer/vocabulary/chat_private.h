/* chat_private.h: private to chat*.c: the families of chat templates. */
#ifndef TRAINER_CHAT_PRIVATE_H
#define TRAINER_CHAT_PRIVATE_H

#include "trainer/vocabulary/chat_template.h"

/* What is written in a turn, beside its texts. */
enum {
    CHAT_CONTENT = 1, /* of the message */
    CHAT_TRIMMED,     /* that without white space at both ends */
    CHAT_LEFT,        /* at its beginning alone */
    CHAT_RIGHT,       /* at its end; of the white space before it, too, if nothing else is left */
    CHAT_SYSTEM,      /* the content of the system message */
    CHAT_LEARNT,      /* what the assistant says begins; ... */
    CHAT_SAID,        /* ... and ends */
    CHAT_BOS,         /* the token that begins a text */
    CHAT_EOS,         /* the one that ends it */
    CHAT_ANSWER = 11, /* the content, with what it thinks before </think> as Qwen3 has it */
    CHAT_ORDERED,     /* all that SmolLM3's system turn has; ... */
    CHAT_UNTHOUGHT = 14, /* ... an empty <think> block, if its message has /no_think */
    CHAT_LINES,          /* the content without line ends at its beginning */
    CHAT_MARKS
};

enum { CHAT_PARTS = 16 };

typedef struct chat_family {
    const char *name;
    /* What its templates have (chat_template.h), and nothing else. A part that begins
     * with '?' may be missing. CHAT_CONTENT in one: any text, which is the content of the system
     * message of conversations without one; SmolLM3 has two, the second of /no_think. */
    const char *parts[CHAT_PARTS];
    bool pieces; /* of SentencePiece alone */
    bool spaced; /* its turns have their spaces: SentencePiece puts none before a text */
    bool begins; /* as with the part bos_token */
    const char *system, *user; /* a turn */
    const char *first;     /* the user's after a system message, if that has no turn; NULL: none */
    const char *assistant; /* up to CHAT_LEARNT it is what makes the model answer */
    const char *end;       /* the token that ends an answer */
} chat_family;

extern const chat_family chat__families[];
extern const size_t chat__families_count;

/* A text in a template. */
typedef struct chat_text {
    const char *at; /* NULL: none */
    size_t length;
} chat_text;

/* NULL where it is none of them. pieces: the vocabulary is SentencePiece's. usual: the first and
 * the last text in `t` that is the content of a system message. */
const chat_family *chat__family_of(const chat_template *t, bool pieces, chat_text usual[2]);
/* Whether a template has a part. */
bool chat__has_part(const chat_template *t, const char *part);

#endif
