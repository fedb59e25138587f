#include "trainer/vocabulary/vocabulary.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "trainer/vocabulary/vocabulary_private.h"

bool vocabulary_open(const char *path, vocabulary *v, fault *f)
{
    struct stat about;
    *v = (vocabulary){.path = strdup(path), .begin = VOCABULARY_NONE};
    v->folder = stat(path, &about) == 0 && S_ISDIR(about.st_mode);
    const bool good = v->path == NULL ? fault_set(f, CODE_MEMORY, "out of memory")
                      : v->folder     ? vocabulary__json_read(v, f)
                                      : vocabulary__gguf_read(v, f);
    if (!good)
        vocabulary_close(v);
    return good;
}

static void close_encoder(vocabulary *v)
{
    encoder *e = v->encoder;
    if (e != NULL) {
        vocabulary_split_close(e->split);
        free(e->index);
        free(e->merges);
        free(e->scores);
        free(e->added);
    }
    free(e);
    v->encoder = NULL;
}

bool vocabulary_prepare(vocabulary *v, fault *f)
{
    if (v->encoder != NULL ||
        (v->folder ? vocabulary__json_prepare(v, f) : vocabulary__gguf_prepare(v, f)))
        return true;
    close_encoder(v);
    return false;
}

void vocabulary_close(vocabulary *v)
{
    close_encoder(v);
    free(v->begins);
    free(v->bytes);
    free(v->kinds);
    free(v->path);
    *v = (vocabulary){0};
}
