#!/bin/sh
# Texts as tokens beside Hugging Face's tokenizers and SentencePiece: small vocabularies that they train on pages of this
# repository, in GGUF files, and each FILE; on words, numbers, contractions, white space, scripts, emoji, random characters
# and random bytes. Texts that a vocabulary has no tokens for are counted: tokenizers leaves them out.
#
#     vocabularies.sh BIN [FILE.gguf...]
#
# PYTHON (python3) has tokenizers, sentencepiece and gguf. Exit status 0 if all tokens are the same.
. "$(dirname "$0")/../support/program.sh"
set -e
here=$(whole "$(dirname "$0")")
bin=$(whole "${1:?usage: vocabularies.sh BIN [FILE.gguf...]}")
shift
for file in "$@"; do
    shift
    set -- "$@" "$(whole "$file")"
done
cd "$folder"
"${PYTHON:-python3}" - "$bin/test_vocabulary" "$here/../.." "$@" <<'END'
import glob
import json
import os
import random
import subprocess
import sys
import unicodedata

import gguf
import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

program, root, files = sys.argv[1], sys.argv[2], sys.argv[3:]
pages = "\n".join(open(page, encoding="utf-8").read() for page in sorted(glob.glob(root + "/**/*.md", recursive=True)))
bad = 0


def cut(numbers):
    """Of Llama 3 and Qwen 2, with so many digits."""
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + numbers + r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"),
        "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


WORDS = pre_tokenizers.ByteLevel(add_prefix_space=False)
# of Mistral Nemo and Small
CAPITAL, SMALL = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
TEKKEN = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(
    rf"[^\r\n\p{{L}}\p{{N}}]?{CAPITAL}*{SMALL}+|[^\r\n\p{{L}}\p{{N}}]?{CAPITAL}+{SMALL}*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"), "isolated"),
    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
# llama.cpp's four expressions, of which each cuts what the one before left
DEFAULT = pre_tokenizers.Sequence(
    [pre_tokenizers.Split(Regex(p), "isolated") for p in (
        r"[\p{P}\$\+<=>\^~\|]+", r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+", r"\p{N}+", r"[0-9][0-9][0-9]")] +
    [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
WAYS = {"gpt-2": WORDS, "smollm": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), WORDS]),
        "llama-bpe": cut("{1,3}"), "qwen2": cut(""), "deepseek-r1-qwen": cut(""), "tekken": TEKKEN,
        "default": DEFAULT}

WHOLE = ("llama-bpe", "tekken")  # a word that is a token needs no merges


def texts():
    rng = random.Random(1)
    known = [c for c in map(chr, range(1, 0x30000)) if unicodedata.category(c) not in ("Cs", "Cn", "Co")]
    some = ["", "a", " ", "   ", "\n\n", "   a", "a   ", "a  5", "5  5", "\r\n\r\nx", " \n x", "\tif x:\n\t\treturn 1", "end   ", "\ufeffBOM",
            "I'm HE'LL we'Ve don'T 'sup '\u017f x'\u017f it''s", "12345 1234567 \u00bd \u00b2 \u2167 \u0663\u0664 3.14 1,000,000 007", "na\u00efve fa\u00e7ade",
            "e\u0301 a\u0308", "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8\u3001\u4e2d\u6587\u3002", "\ud55c\uad6d\uc5b4", "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440!",
            "\u0645\u0631\u062d\u0628\u0627", "\u0939\u093f\u0928\u094d\u0926\u0940", "\U0001f389\U0001f468\u200d\U0001f469\u200d\U0001f467\U0001f3f3\ufe0f\u200d\U0001f308x\U0001f44d\U0001f3fd",
            "a\u00a0b\u3000c\u2003d\u2028e\u2029f\x85g\u180eh\u200bi", "!!!???...---===>>><<< $100 + \u20ac50", "<|im_start|>user\nHi<|im_end|>\n<s>x</s><unk>", "\uff21\uff11",
            "\U0001d4d0\U0001d7d8\U00010348", "x" * 300, " " * 300, "ab" * 500, "\n" * 50, "\U0001f642" * 99, "1" * 100, "end.\n\n  x\n \n\n y\t\n"]
    pools = ["abcdefgh ", "abAB '/\u01c5\u02b0\u05d0\u0301\n", "  \n\t\r", "0123456789 .,", "'sStTrReEvVmMlLdD ", "".join(some), known]
    for i in range(2000):
        some.append("".join(rng.choice(pools[i % 7]) for _ in range(rng.randrange(1, 60))))
        some.append("".join(rng.choice(rng.choice(pools)) for _ in range(rng.randrange(1, 60))))
        some.append(bytes(rng.randrange(1, 256) for _ in range(30)).decode("utf-8", "replace"))
    return some + [pages]


def compare(name, path, encode, which, special=False):
    """What `encode` gives, and this program."""
    global bad
    with open("texts", "wb") as file:
        for text in which:
            file.write(b"%d\n" % len(text.encode()) + text.encode())
    run = subprocess.run([program, path, "texts"] + ["special"] * special, capture_output=True, text=True)
    lines, wrong, refused = run.stdout.split("\n")[:-1], 0, 0
    for text, line in zip(which, lines):
        refused += line.startswith("!")
        if not line.startswith("!") and encode(text) != [int(token) for token in line.split()]:
            wrong += 1
            if wrong <= 3:
                print(f"{name}: {text[:80]!r}: {encode(text)[:20]}, here {line[:100]}")
    if run.returncode or len(lines) != len(which) or refused > len(which) / 2:
        wrong += 1
        print(f"{name}: {len(lines)} lines, {run.stderr.strip()}")
    bad += wrong
    print(f"{name}: {len(which)} texts, {refused} of them without tokens, {wrong} others", flush=True)


def write(path, tokens, kinds, values, model):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(model)
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    for key, value in values.items():
        getattr(writer, "add_" + key)(value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def bytes_level(pre, tokens, merges, added=()):
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges, ignore_merges=pre in WHOLE))
    tokenizer.pre_tokenizer = WAYS[pre]
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t in added])
    return lambda text: tokenizer.encode(text).ids


def trained(pre):
    """A byte-level vocabulary of 1000 tokens, one of the user's and a special one."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = WAYS[pre]
    tokenizer.train_from_iterator(pages.split("\n\n"), trainers.BpeTrainer(
        vocab_size=1000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    model = json.loads(tokenizer.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get) + ["<tool>", "<tool>>", "<|im_end|>"]
    merges = [tuple(m) for m in model["merges"]]
    kinds = [1] * (len(tokens) - 3) + [4, 4, 3]
    write(pre + ".gguf", tokens, kinds, dict(tokenizer_pre=pre, token_merges=[" ".join(m) for m in merges]), "gpt2")
    which = texts() + ["<tool>", "a<tool>>b<tool> c<tool", "<|im_end|> a<|im_end|>"]
    compare(pre, pre + ".gguf", bytes_level(pre, tokens, merges, ["<tool>", "<tool>>"]), which)
    compare(pre + ", special tokens", pre + ".gguf", bytes_level(pre, tokens, merges, tokens[-3:]), which, True)
    if pre != "default":  # the same in a folder
        os.makedirs(pre)
        tokenizer.add_tokens([AddedToken(t, normalized=False) for t in tokens[-3:-1]])
        tokenizer.add_special_tokens(tokens[-1:])
        saved = json.loads(tokenizer.to_str())
        saved["model"]["ignore_merges"] = pre in WHOLE
        json.dump(saved, open(pre + "/tokenizer.json", "w"))
        loaded = Tokenizer.from_file(pre + "/tokenizer.json")
        compare(pre + ", tokenizer.json", pre, lambda text: loaded.encode(text).ids, which, True)


def pieces(prefix):
    """SentencePiece's, which writes a space for U+2581."""
    with open("pages", "w", encoding="utf-8") as file:
        file.write(pages)
    sentencepiece.SentencePieceTrainer.train(
        input="pages", model_prefix="pieces", vocab_size=1000, model_type="bpe", byte_fallback=True, add_dummy_prefix=prefix,
        normalization_rule_name="identity", remove_extra_whitespaces=False, user_defined_symbols=["<tool>"], minloglevel=2)
    p = sentencepiece.SentencePieceProcessor(model_file="pieces.model")
    count = p.vocab_size()
    kinds = [2 if p.is_unknown(i) else 3 if p.is_control(i) else 6 if p.is_byte(i) else 4 if i == p.piece_to_id("<tool>") else 1
             for i in range(count)]
    write("pieces.gguf", [p.id_to_piece(i) for i in range(count)], kinds,
          dict(token_scores=[p.get_score(i) for i in range(count)], add_space_prefix=prefix), "llama")
    which = [t for t in texts() if "\u2581" not in t and "<tool>" not in t]
    compare(f"SentencePiece, {'a' if prefix else 'no'} space before", "pieces.gguf", lambda text: p.encode(text), which)


for way in WAYS:
    trained(way)
for first in (True, False):
    pieces(first)
for path in files:
    fields = gguf.GGUFReader(path).fields

    def listed(key):
        field = fields["tokenizer.ggml." + key]
        return [bytes(field.parts[i]).decode() for i in field.data]
    if listed("model") != ["gpt2"]:
        sys.exit(f"{path}: its vocabulary is not of byte-level BPE")
    compare(path.split("/")[-1], path, bytes_level(listed("pre")[0], listed("tokens"), [tuple(m.split(" ")) for m in listed("merges")]), texts())
sys.exit(bad > 0)
END
