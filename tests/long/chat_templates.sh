#!/bin/sh
# Conversations as tokens beside transformers' apply_chat_template, token by token and with its mask of what the assistant says:
# each public template of golden/make_chat.py in small vocabularies that tokenizers and SentencePiece train on pages of this
# repository, in folders and GGUF files; and the own template of each FILE. Messages are random: words, white space at both ends,
# scripts, emoji, what a model thinks, nothing. Templates that write a day get that of make_chat.py.
#
#     chat_templates.sh BIN [FILE.gguf...]
#
# PYTHON (python3) has transformers, tokenizers, sentencepiece and gguf. Exit status 0 if all tokens are the same.
. "$(dirname "$0")/../support/program.sh"
set -e
here=$(whole "$(dirname "$0")")
bin=$(whole "${1:?usage: chat_templates.sh BIN [FILE.gguf...]}")
shift
for file in "$@"; do
    shift
    set -- "$@" "$(whole "$file")"
done
cd "$folder"
"${PYTHON:-python3}" "$here/../golden/make_chat.py" | cmp - "$here/../golden/golden_chat.inc"
PYTHONPATH=$here/../golden "${PYTHON:-python3}" - "$bin/test_chat" "$here/../.." "$@" <<'END'
import glob
import json
import os
import random
import subprocess
import sys

import gguf
import sentencepiece
from make_chat import BOS, DAY, EOS, INST, SPECIAL, TEMPLATES, UNTHOUGHT
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

program, root, files = sys.argv[1], sys.argv[2], sys.argv[3:]
pages = "\n".join(open(page, encoding="utf-8").read() for page in sorted(glob.glob(root + "/**/*.md", recursive=True)))
bad = 0


def cut(numbers):
    """Of Llama 3 and Qwen 2, with so many digits."""
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + numbers + r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"),
        "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


WORDS = pre_tokenizers.ByteLevel(add_prefix_space=False)
WAYS = {"smollm": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), WORDS]), "llama-bpe": cut("{1,3}"),
        "qwen2": cut("")}
rng = random.Random(1)


def content(line=False):
    words = pages.split(" ")
    white = ["", "", "", " ", "  ", "\n", "\n\n", "\t", " \n ", "\u00a0", "\u3000", "\x1c"]
    some = ["", "a", "\u65e5\u672c\u8a9e", "\U0001f642", "na\u00efve", "I'm 12345", "<|im_", "[INST", "<<SYS", "''", "\\n", "{{ x }}"]
    at = rng.randrange(len(words) - 20)
    orders = ["/no_think", "/think /no_think", "a /think", "b/no_think\n/system_override c"]
    thought = ["<think>\nHm.\n</think>\n\nYes", "<think>", "No</think>\n", "<tool_response>5</tool_response>"]
    text = rng.choice(white) + rng.choice(some + orders + thought + [" ".join(words[at:at + rng.randrange(1, 20)])] * 8) + rng.choice(white)
    if any(token in text for token in SPECIAL + INST) or "\u2581" in text:
        return content(line)
    return " ".join(text.split("\n")) or "a" if line else text


def conversation(system):
    messages = [("system", content())] if system and rng.randrange(2) else []
    for _ in range(rng.randrange(1, 4)):
        messages += [("user", content()), ("assistant", content())]
    return [{"role": role, "content": text} for role, text in messages]


def constant(text, before, end):
    """A template of this text alone, in which what the assistant says is marked for transformers' mask."""
    def literal(part):
        return "{{ '" + part.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "' }}"
    parts = text.split(before)
    marked = literal(parts[0])
    for part in parts[1:]:
        said, found, after = part.partition(end)
        marked += literal(before) + ("{% generation %}" + literal(said + end) + "{% endgeneration %}" if found else literal(said)) + literal(after)
    return marked


def run(path, name, lines):
    with open("lines", "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    done = subprocess.run([program, path, "lines"] + ["prompts"] * (name == "prompts"), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{path}: {done.stderr}")
    return done.stdout.split("\n")[:-1]


def compare(name, path, tokenizer, system, before, end, eats=False):
    """What transformers gives, and this program. eats: the family's special tokens take the white space behind them, so that the
    mask has the one before an answer, if that begins with white space."""
    global bad
    wrong = refused = learnt = 0
    talks = [conversation(system) for _ in range(150)]
    for messages, line in zip(talks, run(path, "lines", [json.dumps({"messages": messages}) for messages in talks])):
        text = tokenizer.apply_chat_template(messages, tokenize=False, date_string=DAY)
        want = tokenizer.apply_chat_template(messages, tokenize=True, return_dict=True, date_string=DAY)["input_ids"]
        opens = before + UNTHOUGHT * (name.startswith("SmolLM3") and before + UNTHOUGHT in text)
        marks = tokenizer.apply_chat_template(messages, chat_template=constant(text, opens, end), tokenize=True, return_dict=True,
                                              return_assistant_tokens_mask=True)
        assert marks["input_ids"] == want
        marks = [m and not (eats and token == tokenizer.convert_tokens_to_ids("<|assistant|>"))
                 for m, token in zip(marks["assistant_masks"], want)]
        have = [int(token.rstrip("+")) for token in line.split()] if not line.startswith("!") else []
        mask = [int(token.endswith("+")) for token in line.split()]
        refused += line.startswith("!")
        if not line.startswith("!") and (have != want or mask != marks):
            wrong += 1
            if wrong <= 2:
                print(f"{name}: {messages}\n{want}\n{marks}\nhere {line}")
        learnt += sum(marks)
    asks = [content(True) for _ in range(50)]
    for text, line in zip(asks, run(path, "prompts", asks)):
        want = tokenizer.apply_chat_template([{"role": "user", "content": text}], add_generation_prompt=True, tokenize=True,
                                             return_dict=True, date_string=DAY)
        refused += line.startswith("!")
        if not line.startswith("!") and [int(token) for token in line.split()] != want["input_ids"]:
            wrong += 1
            print(f"{name}: {text!r}: {want['input_ids']}, here {line}")
    if refused > 100 or learnt == 0:
        wrong += 1
    bad += wrong
    print(f"{name}: {len(talks) + len(asks)} conversations, {refused} of them without tokens, {learnt} tokens learnt, {wrong} others",
          flush=True)


def special(family):
    return SPECIAL + INST * (family in ("Mistral 0.3", "Mistral Nemo", "Mistral Small"))


def added(tokenizer, family, eats=False):
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False, rstrip=eats and t[:2] == "<|") for t in special(family)])
    if family.startswith(("Qwen3", "SmolLM3")):
        tokenizer.add_tokens([AddedToken(t, normalized=False) for t in ("<think>", "</think>", "<tool_response>")])
    return tokenizer


def trained(pre):
    """Folders, with byte-level vocabularies of 1000 tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = WAYS[pre]
    tokenizer.train_from_iterator(pages.split("\n\n"), trainers.BpeTrainer(
        vocab_size=1000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    plain = tokenizer.to_str()
    for number, (family, system, template, before, end) in enumerate(TEMPLATES):
        if family.startswith("Phi"):  # of SentencePiece alone
            continue
        fast = PreTrainedTokenizerFast(tokenizer_object=added(Tokenizer.from_str(plain), family), bos_token=BOS, eos_token=EOS)
        fast.chat_template = template
        folder = f"{pre}-{number}"
        fast.save_pretrained(folder)
        with open(folder + "/config.json", "w") as file:
            json.dump({"eos_token_id": fast.eos_token_id}, file)
        if number % 2:  # as older versions wrote it
            os.remove(folder + "/chat_template.jinja")
            path = folder + "/tokenizer_config.json"
            config = json.load(open(path))
            json.dump(dict(config, chat_template=template), open(path, "w"))
        compare(f"{family}, {pre}", folder, fast, system, before, end)


def pieces(templates):
    """GGUF files, with SentencePiece's of 1000 tokens, and a space before each text as in Llama 2's tokenizer, or, of Mistral 0.3,
    before the first one alone."""
    with open("pages", "w", encoding="utf-8") as file:
        file.write(pages)
    sentencepiece.SentencePieceTrainer.train(
        input="pages", model_prefix="pieces", vocab_size=1000, model_type="bpe", byte_fallback=True, normalization_rule_name="identity",
        remove_extra_whitespaces=False, control_symbols=special(templates[0][0])[2:], minloglevel=2)
    p = sentencepiece.SentencePieceProcessor(model_file="pieces.model")
    tokens, scores = [p.id_to_piece(i) for i in range(p.vocab_size())], [p.get_score(i) for i in range(p.vocab_size())]
    kinds = [2 if p.is_unknown(i) else 3 if p.is_control(i) else 6 if p.is_byte(i) else 1 for i in range(len(tokens))]
    numbers = {token: i for i, token in enumerate(tokens)}
    merges = [(scores[i], token[:k], token[k:]) for i, token in enumerate(tokens) if kinds[i] == 1
              for k in range(1, len(token)) if token[:k] in numbers and token[k:] in numbers]
    merges = [(a, b) for _, a, b in sorted(merges, key=lambda m: (-m[0], numbers[m[1]], numbers[m[2]]))]
    for family, system, template, before, end in templates:
        eats = family.startswith("Phi")
        tokenizer = Tokenizer(models.BPE(vocab=numbers, merges=merges, byte_fallback=True, unk_token="<unk>", fuse_unk=True))
        if family == "Mistral 0.3":
            tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
        else:
            tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
        fast = PreTrainedTokenizerFast(tokenizer_object=added(tokenizer, family, eats), bos_token=BOS, eos_token=EOS)
        fast.chat_template = template
        writer = gguf.GGUFWriter("pieces.gguf", "llama")
        writer.add_tokenizer_model("llama")
        writer.add_token_list(tokens)
        writer.add_token_types(kinds)
        writer.add_token_scores(scores)
        writer.add_bos_token_id(numbers[BOS])
        writer.add_eos_token_id(numbers[EOS])
        writer.add_chat_template(template)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()
        compare(f"{family}, SentencePiece", "pieces.gguf", fast, system, before, end, eats)


def of_file(path):
    """The template and the vocabulary of a file, byte-level BPE."""
    fields = gguf.GGUFReader(path).fields

    def value(key):
        return fields["tokenizer." + key].contents() if "tokenizer." + key in fields else None
    tokens, kinds = value("ggml.tokens"), value("ggml.token_type")
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=[tuple(m.split(" ")) for m in value("ggml.merges")],
                                     ignore_merges=value("ggml.pre") == "llama-bpe"))
    tokenizer.pre_tokenizer = WAYS[value("ggml.pre")]
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t, kind in zip(tokens, kinds) if kind == 3])
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t, kind in zip(tokens, kinds) if kind == 4])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=tokens[value("ggml.bos_token_id")],
                                   eos_token=tokens[value("ggml.eos_token_id")])
    fast.chat_template = value("chat_template")
    ends = [(before, end) for _, _, _, before, end in TEMPLATES if before in fast.chat_template.replace("\\n", "\n")]
    compare(os.path.basename(path), path, fast, "system" in fast.chat_template, *ends[0])


for way in WAYS:
    trained(way)
for inst in (False, True):
    pieces([row for row in TEMPLATES if (INST[0] in special(row[0])) == inst and not row[0].startswith(("Qwen3", "SmolLM3"))])
for file in files:
    of_file(file)
sys.exit(bad > 0)
END
