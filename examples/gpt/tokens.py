#!/usr/bin/env python3
"""Lines of JSON as tokens for gpt-train: NAME.bin, and NAME.mask, which leaves out all but answers.

    tokens.py MODEL LINES.jsonl NAME.bin

MODEL is a folder of transformers with a tokenizer. A line is {"messages": [{"role": ..., "content": ...}, ...]}, of
which what the assistant says is learnt; or {"prompt": ..., "completion": ...} (or "instruction" and "output"), put into
the template if the model has one; or {"text": ...}, all of which is learnt. Each begins with the token that begins a
text, if the tokenizer puts one there, and ends with the one that ends it. A sequence of gpt-train may hold several,
which then see each other; --packing apart takes LINES.jsonl itself.
"""
import argparse
import json
import sys

import numpy

ANSWERS = {"completion", "response", "output", "answer"}
PROMPTS = {"prompt", "instruction", "question", "input"}


def fail(text):
    sys.exit(f"tokens.py: {text}")


def encode(tokenizer, text):
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def begin(tokenizer):
    """The token that this tokenizer puts before a text, if it does."""
    return [token for token in tokenizer("")["input_ids"][:1] if token == tokenizer.bos_token_id != tokenizer.eos_token_id]


def of_messages(tokenizer, messages):
    """(tokens, mask): each message's are what the template adds for it."""
    tokens, mask, after = [], [], ""
    for i, message in enumerate(messages):
        learnt = message["role"] == "assistant"
        before = tokenizer.apply_chat_template(messages[:i], tokenize=False, add_generation_prompt=True) if i else ""
        earlier, after = after, tokenizer.apply_chat_template(messages[:i + 1], tokenize=False)
        if not after.startswith(earlier) or learnt and not after.startswith(before):
            fail("the chat template of this model changes earlier messages; give gpt-train the lines themselves, or prompt and completion")
        start = len(encode(tokenizer, before)) if learnt else len(tokens)
        all_tokens = encode(tokenizer, after)
        mask += [0] * (start - len(tokens)) + [int(learnt)] * (len(all_tokens) - start)
        tokens = all_tokens
    return tokens, mask


def of_line(tokenizer, line):
    if "messages" in line:
        if not tokenizer.chat_template:
            fail("this model has no chat template; give prompt and completion")
        return of_messages(tokenizer, line["messages"])
    if "text" in line:
        tokens, first = encode(tokenizer, line["text"]), begin(tokenizer)
        return first + tokens, [0] * len(first) + [1] * len(tokens)
    prompt, answer = PROMPTS & set(line), ANSWERS & set(line)
    if len(answer) != 1 or not prompt:
        fail(f"a line has {sorted(line)}, expected messages, text, or a prompt and a completion")
    prompt = "\n".join(line[key] for key in sorted(prompt, reverse=True) if line[key])
    answer = line[answer.pop()]
    if tokenizer.chat_template:
        return of_messages(tokenizer, [{"role": "user", "content": prompt}, {"role": "assistant", "content": answer}])
    first, second = begin(tokenizer) + encode(tokenizer, prompt), encode(tokenizer, answer)
    return first + second, [0] * len(first) + [1] * len(second)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("model", "lines", "out"):
        parser.add_argument(name)
    options = parser.parse_args()
    if not options.out.endswith(".bin"):
        fail(f"{options.out}: its name does not end with .bin")
    from transformers import AutoConfig, AutoTokenizer
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    vocabulary = AutoConfig.from_pretrained(options.model).vocab_size
    tokens, mask, samples = [], [], 0
    with open(options.lines, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                sample, learnt = of_line(tokenizer, json.loads(line))
            except (ValueError, KeyError, TypeError) as error:
                fail(f"{options.lines}: line {number}: {error}")
            ends = tokenizer.eos_token_id
            if ends is not None and (not sample or sample[-1] != ends):
                sample, learnt = sample + [ends], learnt + learnt[-1:]
            tokens += sample
            mask += learnt
            samples += 1
    if not tokens or max(tokens) >= vocabulary:
        fail(f"{options.lines}: no tokens" if not tokens else f"token {max(tokens)}; the model has {vocabulary}")
    numpy.array(tokens, numpy.uint16 if vocabulary <= 1 << 16 else numpy.uint32).tofile(options.out)
    numpy.array(mask, numpy.uint8).tofile(options.out[:-4] + ".mask")
    print(f"{samples} samples, {len(tokens)} tokens, {sum(mask)} of them to be learnt")


if __name__ == "__main__":
    main()
