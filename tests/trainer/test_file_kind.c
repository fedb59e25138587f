/* Files that are neither texts nor tokens, by their first bytes, are refused by name; texts that
 * begin likewise, and tokens that begin with short magic numbers, are taken. */
#include <strings.h>

#include "support/test_dataset.h"
#include "support/test_folder.h"

enum { T = 8 };

static const dataset_options bytes = {.context = T, .classes = 256};

static const char *put(const char *folder, const char *name, const void *data, size_t size)
{
    const char *path = test_text("%s/%s", folder, name);
    test_file_write(path, data, size);
    return path;
}

/* The beginning of a file that is taken for a text, or for tokens. */
typedef struct beginning {
    const char *name, *bytes;
    size_t count, at;
    const char *said; /* NULL: it is taken */
} beginning;

#define BEGINS(bytes) bytes, sizeof bytes - 1

static const beginning beginnings[] = {
    {"t.txt.gz", BEGINS("\x1f\x8b\x08\x08"), 0,
        "begins with 1f8b0808: it is packed; unpack it with gunzip"},
    {"t.gz", BEGINS("\x1f\x8b\x08\x00"), 0, "unpack it with gunzip"},
    {"gz", BEGINS("\x1f\x8b\x08\x10"), 0, "begins with 1f8b: it is packed; unpack it with gunzip"},
    {"t.tar.gz", BEGINS("\x1f\x8b\x08\x00"), 0, "unpack it with tar xf"},
    {"t.TGZ", BEGINS("\x1f\x8b\x08\x00"), 0, "unpack it with tar xf"},
    {"t.tar.xz",
        BEGINS("\xfd"
               "7zXZ\0"),
        0, "unpack it with tar xf"},
    {"t.zip", BEGINS("PK\3\4\x14\0\0\0"), 0,
        "begins with 504b0304: it is packed; unpack it with unzip"},
    {"empty.zip", BEGINS("PK\5\6\0\0"), 0, "unpack it with unzip"},
    {"x.npz", BEGINS("PK\3\4\x14\0\0\0arr_0.npy"), 0,
        "an archive of NumPy's arrays; NumPy's tofile"},
    {"x.pt", BEGINS("PK\3\4\x14\0\0\0archive/data.pkl"), 0, "it is a file of torch.save"},
    {"old.pt", BEGINS("\x80\2\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8"), 0, "torch.save"},
    {"x.xz",
        BEGINS("\xfd"
               "7zXZ\0"),
        0, "unpack it with unxz"},
    {"x.bz2", BEGINS("BZh91AY&SY\0\1"), 0, "unpack it with bunzip2"},
    {"x.zst", BEGINS("\x28\xb5\x2f\xfd"), 0, "unpack it with unzstd"},
    {"x.lz4", BEGINS("\x04\x22\x4d\x18"), 0, "unpack it with unlz4"},
    {"x.lzma", BEGINS("\x5d\0\0\x80\0"), 0, "unpack it with unlzma"},
    {"x.lz", BEGINS("LZIP\1"), 0, "unpack it with lunzip"},
    {"x.lzo", BEGINS("\x89LZO\0\r\n"), 0, "unpack it with lzop -d"},
    {"x.Z", BEGINS("\x1f\x9d\x90"), 0, "unpack it with uncompress"},
    {"x.zlib", BEGINS("\x78\x9c\xed"), 0, "it is packed"},
    {"x.7z", BEGINS("7z\xbc\xaf\x27\x1c"), 0, "unpack it with 7z x"},
    {"x.rar", BEGINS("Rar!\x1a\7\1\0"), 0, "unpack it with unrar x"},
    {"x.cab", BEGINS("MSCF\0\0\0\0"), 0, "unpack it with cabextract"},
    {"x.deb", BEGINS("!<arch>\ndebian-binary"), 0, "unpack it with ar x"},
    {"x.tar",
        BEGINS("ustar\0"
               "00"),
        257, "has at byte 257 7573746172: it is packed; unpack it with tar xf"},
    {"x.npy", BEGINS("\x93NUMPY\1\0"), 0,
        "begins with 934e554d5059: it is an array of NumPy; NumPy's tofile writes its numbers "
        "alone"},
    {"x.pkl", BEGINS("\x80\4\x95\x0a"), 0, "it is pickled by Python"},
    {"x.pickle", BEGINS("\x80\2}q\0"), 0, "it is pickled by Python"},
    {"x.safetensors", BEGINS("\x40\0\0\0\0\0\0\0{\"a\":"), 0, "it is a safetensors file; --import"},
    {"x.gguf", BEGINS("GGUF\3\0\0\0"), 0, "it is a GGUF file"},
    {"last.ckpt", BEGINS("CLPRCKPT\1\0"), 0, "it is a checkpoint; --resume"},
    {"tokens", BEGINS("\x88\xd8\x34\1\1\0\0\0"), 0, "llm.c; give it a name that ends with .bin"},
    {"tokens32", BEGINS("\xa1\xd9\x34\1\7\0\0\0"), 0, "llm.c; give it a name that ends with .bin"},
    {"labels", BEGINS("\0\0\x08\1\0\0\0\5"), 0, "it is an IDX file"},
    {"x.parquet", BEGINS("PAR1\x15\4"), 0,
        "begins with 50415231: it is a Parquet file; expected a text, or tokens in NAME.bin"},
    {"x.arrow", BEGINS("ARROW1\0\0"), 0, "it is an Arrow file"},
    {"x.arrows", BEGINS("\xff\xff\xff\xff\x10\1\0\0"), 0, "it is an Arrow stream"},
    {"x.feather", BEGINS("FEA1\0\0"), 0, "it is a Feather file"},
    {"x.orc", BEGINS("ORC\x0a\1"), 0, "it is an ORC file"},
    {"x.avro", BEGINS("Obj\1\4"), 0, "it is an Avro file"},
    {"x.h5", BEGINS("\x89HDF\r\n\x1a\n"), 0, "it is an HDF5 file"},
    {"x.mat", BEGINS("MATLAB 5.0 MAT-file, Platform"), 0, "it is a MATLAB file"},
    {"x.db", BEGINS("SQLite format 3\0"), 0, "it is an SQLite database"},
    {"x.pdf", BEGINS("%PDF-1.7\n"), 0, "it is a PDF document; pdftotext"},
    {"x.rtf", BEGINS("{\\rtf1\\ansi"), 0, "it is an RTF document"},
    {"x.doc", BEGINS("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"), 0, "it is an Office document"},
    {"x.png", BEGINS("\x89PNG\r\n\x1a\n"), 0, "it is a PNG image"},
    {"x.jpg", BEGINS("\xff\xd8\xff\xe0"), 0, "it is a JPEG image"},
    {"x.gif", BEGINS("GIF89a\1\0"), 0, "it is a GIF image"},
    {"x.bmp", BEGINS("BM\x36\0\0\0"), 0, "it is a BMP image"},
    {"x.tif", BEGINS("II*\0\x08"), 0, "it is a TIFF image"},
    {"x.tiff", BEGINS("MM\0*\0"), 0, "it is a TIFF image"},
    {"x.webp", BEGINS("RIFF\x24\0\0\0WEBPVP8"), 0, "it is a WebP image"},
    {"x.wav", BEGINS("RIFF\x24\0\0\0WAVE"), 0, "it is a RIFF file"},
    {"x.jp2", BEGINS("\0\0\0\x0cjP  "), 0, "it is a JPEG 2000 image"},
    {"x.mp4",
        BEGINS("\0\0\0\x20"
               "ftypisom"),
        0, "it is an MP4"},
    {"x.ogg", BEGINS("OggS\0\2"), 0, "it is an Ogg file"},
    {"x.flac", BEGINS("fLaC\0\0"), 0, "it is a FLAC file"},
    {"x.mp3", BEGINS("ID3\3\0"), 0, "it is an MP3 file"},
    {"x.mkv", BEGINS("\x1a\x45\xdf\xa3"), 0, "it is a Matroska file"},
    {"x.so", BEGINS("\177ELF\2\1"), 0, "it is a program"},
    {"x.dylib", BEGINS("\xcf\xfa\xed\xfe"), 0, "it is a program"},
    {"x.class", BEGINS("\xca\xfe\xba\xbe"), 0, "it is a program"},
    {"x.wasm", BEGINS("\0asm\1\0\0\0"), 0, "it is a program"},
    {"x.exe", BEGINS("MZ\x90\0\3"), 0, "it is a program"},
    {"lfs.txt", BEGINS("version https://git-lfs.github.com/spec/v1\noid"), 0,
        "it is a pointer of Git LFS; git lfs pull"},
    {"utf16",
        BEGINS("\xff\xfe"
               "a\0b\0"),
        0, "it is in UTF-16; iconv -f UTF-16 -t UTF-8"},
    {"utf16be", BEGINS("\xfe\xff\0a\0b"), 0, "it is in UTF-16"},
    {"utf32", BEGINS("\xff\xfe\0\0a\0\0\0"), 0, "it is in UTF-32"},
    {"utf32be", BEGINS("\0\0\xfe\xff\0\0\0a"), 0, "it is in UTF-32"},
    /* in a file of tokens only long numbers count */
    {"a.bin", BEGINS("\x93NUMPY\1\0"), 0, "it is an array of NumPy"},
    {"b.bin", BEGINS("PK\3\4\x14\0\0\0archive/data.pkl"), 0, "it is a file of torch.save"},
    {"c.bin", BEGINS("\x1f\x8b\x08\x08"), 0, "unpack it with gunzip"},
    {"d.bin", BEGINS("\x40\0\0\0\0\0\0\0{\"a\":"), 0, "it is a safetensors file"},
    {"e.bin", BEGINS("\x89PNG\r\n\x1a\n"), 0, "it is a PNG image"},
    {"f.BIN", BEGINS("\177ELF\2\1"), 0, "it is a program; expected tokens"},
    {"g.bin", BEGINS("SQLite format 3\0"), 0, "it is an SQLite database"},
    {"h.bin", BEGINS("\x28\xb5\x2f\xfd"), 0, "unpack it with unzstd"},
    {"i.bin", BEGINS("\x1f\x8b\x07\x08"), 0, NULL},
    {"j.bin", BEGINS("\x78\x9c"), 0, NULL},
    {"k.bin", BEGINS("\x80\4\x95\x0a"), 0, NULL},
    {"l.bin", BEGINS("BM\x36\0"), 0, NULL},
    {"m.bin", BEGINS("MZ\x90\0"), 0, NULL},
    {"n.bin", BEGINS("RIFF\x24\0"), 0, NULL},
    {"o.bin", BEGINS("ID3\3"), 0, NULL},
    {"p.bin", BEGINS("\0\0\x08\1"), 0, NULL},
};

/* Behind the beginning: bytes as packed files have, tokens below 50257. */
static void other_kinds(NO_ROW)
{
    enum { SIZE = 2000 };
    const char *folder = test_folder();
    for (size_t i = 0; i < COUNT_OF(beginnings); i++) {
        const beginning *b = &beginnings[i];
        uint8_t file[SIZE];
        for (size_t k = 0; k < SIZE; k++)
            file[k] = (uint8_t)(k < b->at ? 'x' : (k * 2654435761u >> 24) % 196);
        memcpy(file + b->at, b->bytes, b->count);
        const char *path = put(folder, b->name, file, SIZE);
        const bool tokens = strcasecmp(path + strlen(path) - 4, ".bin") == 0;
        const dataset_options wanted = {.context = T, .classes = tokens ? 50257 : 256};
        if (b->said == NULL)
            (void)open_well(path, &wanted);
        else
            (void)expect_failure(path, &wanted, CODE_DATA, path, b->said);
        if (tokens)
            continue;
        /* whatever the model's vocabulary is, and as sentences */
        const dataset_options others[] = {
            {.context = T, .classes = 50257}, {.context = T, .classes = 1000, .labels = 2}};
        for (int k = 0; k < 2; k++)
            (void)expect_failure(path, &others[k], CODE_DATA, path, b->said);
    }
}

static void hear(void *user, const char *note)
{
    char *heard = user;
    (void)snprintf(heard + strlen(heard), TEST_PATH - strlen(heard), "%s\n", note);
}

/* Texts that begin like files of other kinds, or have rare characters; notes where bytes are 0. */
static void texts(NO_ROW)
{
    static const beginning rows[] = {{"1", BEGINS("BM is a company")}, {"2", BEGINS("MZ")},
        {"3", BEGINS("GIF89a is a format")}, {"4", BEGINS("RIFF, WEBP")}, {"5", BEGINS("OggS")},
        {"6", BEGINS("PAR1")}, {"7", BEGINS("ORC")}, {"8", BEGINS("ID3")}, {"9", BEGINS("PK")},
        {"10", BEGINS("BZh91AY&SY")}, {"11", BEGINS("LZIP")}, {"12", BEGINS("MSCF")},
        {"13", BEGINS("\xef\xbb\xbfof UTF-8")},
        {"14", BEGINS("Gr\xc3\xbc\xc3\x9f"
                      "e")},
        {"15", BEGINS("Gr\xfc\xdf"
                      "e, of Latin-1")},
        {"16", BEGINS("\x1b[1mbold\x1b[0m")}, {"17", BEGINS("a\r\n\tb\f\v\b\a")},
        {"18", BEGINS("x\x9c")}, {"19", BEGINS("7zip")}, {"20", BEGINS("<!DOCTYPE html>")},
        {"21", BEGINS("{\"text\": 1}")}, {"22", BEGINS("ftypftyp")}, {"23", BEGINS("ustar")},
        {"24", BEGINS("%!PS")}, {"t.TXT", BEGINS("a")}, {"train.binary", BEGINS("a")},
        {"25", BEGINS("a\0b"), 0, "1 of its bytes are 0: it may be no text"},
        {"26", BEGINS("\0\0\0\0"), 0, "4 of its bytes are 0"}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[600], heard[TEST_PATH] = "";
        memset(text, 'e', sizeof text);
        memcpy(text, rows[i].bytes, rows[i].count);
        const char *path = put(test_folder(), rows[i].name, text, sizeof text);
        dataset_options wanted = bytes;
        wanted.hear = hear;
        wanted.hear_user = heard;
        assert_true(dataset_is_text(open_well(path, &wanted)));
        if (rows[i].said == NULL)
            assert_string_equal(heard, "");
        else
            test_says(heard, rows[i].said);
    }
}

/* Wide characters without a mark, and texts that are named as tokens. */
static void wrong_names(NO_ROW)
{
    const char *folder = test_folder();
    char wide[2][400], text[400], umlauts[400];
    memset(wide, 0, sizeof wide);
    for (size_t i = 0; i < 400; i++) {
        text[i] = (char)(i % 7 == 0 ? '\n' : 'a' + i % 26);
        umlauts[i] = "\xc3\xbc"[i % 2];
        if (i % 2 == 0)
            wide[0][i] = wide[1][i + 1] = text[i];
    }
    for (int i = 0; i < 2; i++) {
        const char *path = put(folder, test_text("%d.txt", i), wide[i], 400);
        (void)expect_failure(path, &bytes, CODE_DATA, path, "every second byte is 0, as in a text");
    }
    memcpy(wide[0] + 20, "\x19\x20", 2); /* a quotation mark */
    const char *path = put(folder, "quote.txt", wide[0], 400);
    (void)expect_failure(path, &bytes, CODE_DATA, path, "every second byte is 0");
    const dataset_options gpt2 = {.context = T, .classes = 50257};
    const char *const texts[] = {text, umlauts};
    for (int i = 0; i < 2; i++) {
        path = put(folder, test_text("%d.bin", i), texts[i], 400);
        (void)expect_failure(path, &gpt2, CODE_DATA, path,
            "it is a text, whose name must not end with .bin; expected tokens");
    }
}

/* What else reads files that the user names. */
static void others(NO_ROW)
{
    static const struct {
        const char *name, *bytes;
        size_t count;
        const char *said;
    } rows[] = {
        {"images.tar.gz", BEGINS("\x1f\x8b\x08\x00"), "it is packed; unpack it with tar xf"},
        {"images.zip", BEGINS("PK\3\4"), "it is packed; unpack it with unzip"},
        {"images.npz", BEGINS("PK\3\4...x_train.npy"), "an archive of NumPy's arrays"},
        {"train.parquet", BEGINS("PAR1\x15\4"), "a Parquet file; expected a folder of images"},
        {"image.png", BEGINS("\x89PNG"), "it is a PNG image; expected a folder of images"},
        {"train-images-idx3-ubyte", BEGINS("\0\0\x08\3"), "it is an IDX file"},
        {"file", BEGINS("text"), "is no folder; name the one that has the files"}};
    const char *folder = test_folder();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *path = put(folder, rows[i].name, rows[i].bytes, rows[i].count);
        (void)expect_failure(path, NULL, CODE_DATA, path, rows[i].said);
    }
    static const char *const named[][2] = {{"a.tar.gz", "tar xf"}, {"a.tgz", "tar xf"},
        {"a.tar.bz2", "tar xf"}, {"a.txz", "tar xf"}, {"a.tar.zst", "tar xf"}, {"a.gz", "gunzip"},
        {"a.bz2", "bunzip2"}, {"a.xz", "unxz"}, {"a.zst", "unzstd"}, {"a.zip", "unzip"},
        {"a.7z", "7z x"}, {"a.RAR", "unrar x"}};
    for (size_t i = 0; i < COUNT_OF(named); i++) {
        const char *inner = test_folder();
        (void)put(inner, named[i][0], "", 0);
        (void)expect_failure(inner, NULL, CODE_DATA,
            test_text("%s is packed; unpack it with %s", named[i][0], named[i][1]), inner);
        (void)expect_failure(inner, &bytes, CODE_DATA,
            test_text("%s is packed; unpack it with %s", named[i][0], named[i][1]), inner);
    }
    const char *cifar = test_folder();
    (void)put(cifar, "data_batch_1.bin", BEGINS("\x1f\x8b\x08\x00"));
    (void)expect_failure(
        cifar, NULL, CODE_DATA, "data_batch_1.bin: begins with 1f8b0800", "gunzip");
    const char *idx = test_folder();
    (void)put(idx, "train-images-idx3-ubyte", BEGINS("\x93NUMPY\1\0........"));
    (void)expect_failure(
        idx, NULL, CODE_DATA, "begins with 934e554d5059", "it is an array of NumPy");
}

int main(void)
{
    test_list list = {0};
    ADD(&list, other_kinds);
    ADD(&list, texts);
    ADD(&list, wrong_names);
    ADD(&list, others);
    return test_run_on_host("file_kind", &list);
}
