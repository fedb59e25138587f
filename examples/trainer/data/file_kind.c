#include "trainer/data/file_kind.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h> /* pread */

/* When a magic number counts. */
typedef enum file_kind_when {
    ALWAYS,
    IN_TEXTS,   /* tokens may begin so */
    WITH_OTHERS /* it is of letters; bytes follow that no text has */
} file_kind_when;

/* A kind of file: the bytes at `at`, and behind them `inner`, unless NULL. */
typedef struct file_kind {
    const char *what, *next; /* what to do with it; NULL: nothing */
    const char *magic;
    size_t size, at;
    file_kind_when when;
    const char *inner;
} file_kind;

/* Bytes that tell a text from tokens. */
enum { LEAST_TEXT = 64 };

#define MAGIC(bytes) bytes, sizeof bytes - 1

static const char numpy[] = "NumPy's tofile writes its numbers alone, to NAME.bin";
static const char named_bin[] = "give it a name that ends with .bin";
static const char iconv[] = "iconv -f UTF-16 -t UTF-8 converts it";

/* The first one that fits counts. */
static const file_kind kinds[] = {
    {"packed", "gunzip", MAGIC("\x1f\x8b\x08\x00")},
    {"packed", "gunzip", MAGIC("\x1f\x8b\x08\x08")},
    {"packed", "gunzip", MAGIC("\x1f\x8b"), .when = IN_TEXTS},
    {"an archive of NumPy's arrays", numpy, MAGIC("PK\3\4"), .inner = ".npy"},
    {"a file of torch.save", NULL, MAGIC("PK\3\4"), .inner = "data.pkl"},
    {"packed", "unzip", MAGIC("PK\3\4")},
    {"packed", "unzip", MAGIC("PK\5\6")},
    {"packed", "unzip", MAGIC("PK\7\x08")},
    {"packed", "unxz",
        MAGIC("\xfd"
              "7zXZ")},
    {"packed", "bunzip2", MAGIC("BZh"), .when = WITH_OTHERS, .inner = "1AY&SY"},
    {"packed", "unzstd", MAGIC("\x28\xb5\x2f\xfd")},
    {"packed", "unlz4", MAGIC("\x04\x22\x4d\x18")},
    {"packed", "unlzma", MAGIC("\x5d\0\0"), .when = IN_TEXTS},
    {"packed", "lunzip", MAGIC("LZIP"), .when = WITH_OTHERS},
    {"packed", "lzop -d", MAGIC("\x89LZO")},
    {"packed", "uncompress", MAGIC("\x1f\x9d"), .when = IN_TEXTS},
    {"packed", "zlib-flate -uncompress", MAGIC("\x78\x9c"), .when = WITH_OTHERS},
    {"packed", "zlib-flate -uncompress", MAGIC("\x78\xda"), .when = WITH_OTHERS},
    {"packed", "7z x", MAGIC("7z\xbc\xaf\x27\x1c")},
    {"packed", "unrar x", MAGIC("Rar!\x1a\7")},
    {"packed", "cabextract", MAGIC("MSCF"), .when = WITH_OTHERS},
    {"packed", "ar x", MAGIC("!<arch>\n")},
    {"packed", "tar xf", MAGIC("ustar"), .at = 257},
    {"an array of NumPy", numpy, MAGIC("\x93NUMPY")},
    {"a file of torch.save", NULL, MAGIC("\x80\2\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20")},
    {"pickled by Python", NULL, MAGIC("\x80\2"), .when = IN_TEXTS},
    {"pickled by Python", NULL, MAGIC("\x80\3"), .when = IN_TEXTS},
    {"pickled by Python", NULL, MAGIC("\x80\4\x95"), .when = IN_TEXTS},
    {"pickled by Python", NULL, MAGIC("\x80\5\x95"), .when = IN_TEXTS},
    {"a safetensors file", "--import reads weights", MAGIC("\0\0\0\0\0{\""), .at = 3},
    {"a GGUF file", NULL, MAGIC("GGUF"), .when = WITH_OTHERS},
    {"a checkpoint", "--resume goes on with its run", MAGIC("CLPRCKPT")},
    {"a file of tokens of llm.c", named_bin, MAGIC("\x88\xd8\x34\1"), .when = IN_TEXTS},
    {"a file of tokens of llm.c", named_bin, MAGIC("\xa1\xd9\x34\1"), .when = IN_TEXTS},
    {"an IDX file", NULL, MAGIC("\0\0\x08\1"), .when = IN_TEXTS},
    {"an IDX file", NULL, MAGIC("\0\0\x08\3"), .when = IN_TEXTS},
    {"a Parquet file", NULL, MAGIC("PAR1"), .when = WITH_OTHERS},
    {"an Arrow file", NULL, MAGIC("ARROW1\0\0")},
    {"an Arrow stream", NULL, MAGIC("\xff\xff\xff\xff"), .when = IN_TEXTS},
    {"a Feather file", NULL, MAGIC("FEA1"), .when = WITH_OTHERS},
    {"an ORC file", NULL, MAGIC("ORC"), .when = WITH_OTHERS},
    {"an Avro file", NULL, MAGIC("Obj\1")},
    {"an HDF5 file", NULL, MAGIC("\x89HDF\r\n")},
    {"a MATLAB file", NULL, MAGIC("MATLAB 5.0 MAT-file")},
    {"an SQLite database", NULL, MAGIC("SQLite format 3\0")},
    {"a PDF document", "pdftotext makes a text of it", MAGIC("%PDF-")},
    {"an RTF document", NULL, MAGIC("{\\rtf")},
    {"an Office document", NULL, MAGIC("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")},
    {"a PNG image", NULL, MAGIC("\x89PNG")},
    {"a JPEG image", NULL, MAGIC("\xff\xd8\xff"), .when = IN_TEXTS},
    {"a GIF image", NULL, MAGIC("GIF8"), .when = WITH_OTHERS},
    {"a BMP image", NULL, MAGIC("BM"), .when = WITH_OTHERS},
    {"a TIFF image", NULL, MAGIC("II*\0")},
    {"a TIFF image", NULL, MAGIC("MM\0*")},
    {"a WebP image", NULL, MAGIC("RIFF"), .when = WITH_OTHERS, .inner = "WEBP"},
    {"a RIFF file", NULL, MAGIC("RIFF"), .when = WITH_OTHERS},
    {"a JPEG 2000 image", NULL, MAGIC("\0\0\0\x0cjP")},
    {"an MP4, HEIF or AVIF file", NULL, MAGIC("ftyp"), .at = 4, .when = WITH_OTHERS},
    {"an Ogg file", NULL, MAGIC("OggS"), .when = WITH_OTHERS},
    {"a FLAC file", NULL, MAGIC("fLaC"), .when = WITH_OTHERS},
    {"an MP3 file", NULL, MAGIC("ID3"), .when = WITH_OTHERS},
    {"a Matroska file", NULL, MAGIC("\x1a\x45\xdf\xa3")},
    {"a program", NULL, MAGIC("\177ELF")},
    {"a program", NULL, MAGIC("\xcf\xfa\xed\xfe")},
    {"a program", NULL, MAGIC("\xca\xfe\xba\xbe")},
    {"a program", NULL, MAGIC("\0asm")},
    {"a program", NULL, MAGIC("MZ"), .when = WITH_OTHERS},
    {"a pointer of Git LFS", "git lfs pull fetches the file",
        MAGIC("version https://git-lfs.github.com/")},
    {"in UTF-32", "iconv -f UTF-32 -t UTF-8 converts it", MAGIC("\xff\xfe\0\0"), .when = IN_TEXTS},
    {"in UTF-32", "iconv -f UTF-32 -t UTF-8 converts it", MAGIC("\0\0\xfe\xff"), .when = IN_TEXTS},
    {"in UTF-16", iconv, MAGIC("\xff\xfe"), .when = IN_TEXTS},
    {"in UTF-16", iconv, MAGIC("\xfe\xff"), .when = IN_TEXTS},
};

static const char tar[] = "tar xf";

static const char *const endings[][2] = {{".tar.gz", tar}, {".tgz", tar}, {".tar.bz2", tar},
    {".tbz2", tar}, {".tar.xz", tar}, {".txz", tar}, {".tar.zst", tar}, {".tar", tar},
    {".gz", "gunzip"}, {".bz2", "bunzip2"}, {".xz", "unxz"}, {".zst", "unzstd"}, {".lz4", "unlz4"},
    {".zip", "unzip"}, {".7z", "7z x"}, {".rar", "unrar x"}};

bool file_kind_ends_with(const char *name, const char *end)
{
    const size_t length = strlen(name), most = strlen(end);
    return length > most && strcasecmp(name + length - most, end) == 0;
}

/* The command that unpacks a file of this name; NULL: it is no archive. */
static const char *unpacker_of(const char *name)
{
    for (size_t i = 0; i < sizeof endings / sizeof *endings; ++i)
        if (file_kind_ends_with(name, endings[i][0]))
            return endings[i][1];
    return NULL;
}

static bool contains(const uint8_t *bytes, size_t count, const char *part)
{
    const size_t length = strlen(part);
    for (size_t i = 0; i + length <= count; ++i)
        if (memcmp(bytes + i, part, length) == 0)
            return true;
    return false;
}

/* Whether there are control characters of no text: all but those from BEL to CR, and ESC. */
static bool has_others(const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; ++i)
        if (bytes[i] < 7 || (bytes[i] > 13 && bytes[i] < 32 && bytes[i] != 27))
            return true;
    return false;
}

/* Whether bytes are letters alone, in UTF-8; a character may be cut off at the end. */
static bool is_text(const uint8_t *bytes, size_t count)
{
    size_t more = 0; /* bytes of a character that follow */
    if (has_others(bytes, count))
        return false;
    for (size_t i = 0; i < count; ++i) {
        const bool follows = (bytes[i] & 0xc0) == 0x80;
        if (follows != (more > 0) || bytes[i] > 0xf4)
            return false;
        more = follows           ? more - 1
               : bytes[i] < 0x80 ? 0
               : bytes[i] < 0xe0 ? 1
               : bytes[i] < 0xf0 ? 2
                                 : 3;
    }
    return true;
}

static bool fits(const file_kind *kind, const uint8_t *bytes, size_t count, file_kind_use use)
{
    const size_t end = kind->at + kind->size;
    return count >= end && memcmp(bytes + kind->at, kind->magic, kind->size) == 0 &&
           (kind->when != IN_TEXTS || use == FILE_KIND_OF_TEXT) &&
           (kind->when != WITH_OTHERS || (use == FILE_KIND_OF_TEXT && has_others(bytes, count))) &&
           (kind->inner == NULL || contains(bytes + end, count - end, kind->inner));
}

bool file_kind_say(const uint8_t *bytes, size_t count, file_kind_use use, const char *name,
    const char *expected, char said[FILE_KIND_TEXT])
{
    const file_kind *kind = kinds, *end = kinds + sizeof kinds / sizeof *kinds;
    const char *unpacker = unpacker_of(name);
    char place[48], hex[2 * 10 + 1];
    while (kind < end && !fits(kind, bytes, count, use))
        ++kind;
    if (kind == end) {
        (void)snprintf(said, FILE_KIND_TEXT,
            "it is a text, whose name must not end with .bin; expected %s", expected);
        return use == FILE_KIND_OF_TOKENS && count >= LEAST_TEXT && is_text(bytes, count);
    }
    if (kind->at == 0)
        (void)snprintf(place, sizeof place, "begins with");
    else
        (void)snprintf(place, sizeof place, "has at byte %zu", kind->at);
    for (size_t i = 0; i < kind->size && 2 * i + 2 < sizeof hex; ++i)
        (void)snprintf(hex + 2 * i, 3, "%02x", (unsigned)(uint8_t)kind->magic[i]);
    const bool packed = strcmp(kind->what, "packed") == 0;
    (void)snprintf(said, FILE_KIND_TEXT, "%s %s: it is %s; %s%s", place, hex, kind->what,
        packed               ? "unpack it with "
        : kind->next == NULL ? "expected "
                             : "",
        packed && unpacker == tar ? tar
        : kind->next == NULL      ? expected
                                  : kind->next);
    return true;
}

bool file_kind_check(
    const char *path, int descriptor, file_kind_use use, const char *expected, fault *f)
{
    uint8_t bytes[FILE_KIND_BYTES];
    char said[FILE_KIND_TEXT];
    const ssize_t count = pread(descriptor, bytes, sizeof bytes, 0);
    return count <= 0 || !file_kind_say(bytes, (size_t)count, use, path, expected, said) ||
           fault_set(f, CODE_DATA, "%s: %s", path, said);
}

bool file_kind_check_folder(const char *path, fault *f)
{
    char first[256] = "";
    DIR *dir = opendir(path);
    for (const struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;)
        if (entry->d_name[0] != '.' && unpacker_of(entry->d_name) != NULL &&
            (first[0] == '\0' || strcmp(entry->d_name, first) < 0))
            (void)snprintf(first, sizeof first, "%s", entry->d_name);
    if (dir != NULL)
        (void)closedir(dir);
    return first[0] == '\0' || fault_set(f, CODE_DATA, "%s: %s is packed; unpack it with %s", path,
                                   first, unpacker_of(first));
}
