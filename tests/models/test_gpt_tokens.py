"""tokens.py of gpt-train: what is learnt of messages, of prompts with completions and of texts; what is refused.

    test_gpt_tokens.py path/to/tokens.py
"""
import json
import os
import subprocess
import sys
import tempfile

try:
    import numpy
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, PreTrainedTokenizerFast
except ImportError as error:
    print(error)
    sys.exit(77)

WORDS = ["<end>", "<user>", "<assistant>", "what", "is", "this", "a", "cat", "dog"]
TEMPLATE = ("{% for m in messages %}<{{ m.role }}> {{ m.content }} <end> {% endfor %}"
            "{% if add_generation_prompt %}<assistant> {% endif %}")
script = os.path.abspath(sys.argv[1])
failures = 0


def check(good, text):
    global failures
    if not good:
        print("FAILED:", text)
        failures += 1


def run(model, lines):
    with open("lines.jsonl", "w", encoding="utf-8") as file:
        file.write("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n\n")
    return subprocess.run([sys.executable, script, model, "lines.jsonl", "out.bin"], capture_output=True, text=True)


def words(model, lines):
    """(all words, those that are learnt)"""
    done = run(model, lines)
    check(done.returncode == 0, f"{lines}: {done.stderr}")
    tokens, mask = numpy.fromfile("out.bin", numpy.uint16), numpy.fromfile("out.mask", numpy.uint8)
    check(len(tokens) == len(mask), f"{len(tokens)} tokens, a mask of {len(mask)}")
    return (" ".join(WORDS[t] for t in tokens), " ".join(WORDS[t] for t, m in zip(tokens, mask) if m))


def refused(model, line, text):
    done = run(model, [line])
    check(done.returncode != 0 and text in done.stderr and "Traceback" not in done.stderr, f"{line}: {done.stderr}")


def main():
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<end>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    for name, template in (("plain", None), ("chat", TEMPLATE)):
        fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>", unk_token="<end>")
        fast.chat_template = template
        fast.save_pretrained(name)
        LlamaConfig(vocab_size=len(WORDS)).save_pretrained(name)
    asked = {"messages": [{"role": "user", "content": "what is this"}, {"role": "assistant", "content": "a cat"},
                          {"role": "user", "content": "what"}, {"role": "assistant", "content": "cat"}]}
    check(words("chat", [asked]) == ("<user> what is this <end> <assistant> a cat <end> <user> what <end> <assistant> cat <end>",
                                     "a cat <end> cat <end>"), "messages")
    both = ("what is this a dog <end>", "a dog <end>")
    check(words("plain", [{"prompt": "what is this", "completion": "a dog"}]) == both, "a prompt")
    check(words("plain", [{"instruction": "what is", "input": "this", "output": "a dog"}]) == both, "an instruction")
    check(words("chat", [{"prompt": "what", "completion": "cat"}])[1] == "cat <end>", "a prompt in a template")
    check(words("plain", [{"text": "a cat"}, {"text": "a dog"}]) == ("a cat <end> a dog <end>",) * 2, "texts")
    refused("plain", asked, "no chat template")
    refused("plain", {"prompt": "what"}, "expected messages, text, or a prompt and a completion")
    refused("plain", "{", "line 1")
    refused("plain", {"text": 7}, "line 1")
    return failures > 0


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    code = main()
    os.chdir("/")
sys.exit(code)
