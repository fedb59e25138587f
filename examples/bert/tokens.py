#!/usr/bin/env python3
"""Lines LABEL<TAB>SENTENCE as sentences for bert-train, in random order, and NAME.labels, the numbers of the labels.

Labels that are whole numbers below 1000 keep them; other numbers are numbered in their order, words in that of their
characters. A file for tests has the numbers of its training file: those of --labels, or of train.labels for val.bin.
"""
import argparse
import array
import os
import random
import re
import sys

MOST_LABELS = 1000  # of bert-train
LABEL_COLUMNS = {"label", "labels", "class", "category", "target", "sentiment", "gold_label"}
TEXT_COLUMNS = {"sentence", "text", "review", "question", "phrase", "utterance", "content", "tweet", "title"}
NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?$")


def note(text):
    print(f"tokens.py: note: {text}", file=sys.stderr)


def columns(rows):
    """(whether the first row is a header, where label and sentence are), of (line, fields)."""
    names = [name.strip().lower() for name in rows[0][1]] if rows else []
    label = [i for i, name in enumerate(names) if name in LABEL_COLUMNS]
    text = [i for i, name in enumerate(names) if name in TEXT_COLUMNS]
    if label and text:
        return True, label[0], text[0]
    others = [fields[0].strip() for _, fields in rows[1:]]
    alone = label[:1] == [0] and names[0] not in {other.lower() for other in others}
    words = bool(others) and not NUMBER.match(names[0]) and all(NUMBER.match(other) for other in others)
    return alone or words, 0, 1


def read_lines(path):
    """(line, label, sentence) of each."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            lines = [line.rstrip("\n").lstrip("\ufeff") for line in file]  # a mark also where files were joined
    except UnicodeDecodeError:
        sys.exit(f"{path}: it is no text in UTF-8; iconv converts texts")
    rows = [(n, line.split("\t")) for n, line in enumerate(lines, 1) if line.strip()]
    if empty := len(lines) - len(rows):
        note(f"{path}: {empty} empty lines are left out")
    header, label, text = columns(rows)
    if header:
        note(f"{path}: line {rows[0][0]} is left out: it names columns {label + 1} and {text + 1}, "
             f"{rows[0][1][label].strip()} and {rows[0][1][text].strip()}")
        rows = rows[1:]
    found = []
    for n, fields in rows:
        if len(fields) <= max(label, text):
            sys.exit(f"{path}: line {n} has {len(fields) - 1 or 'no'} tab, expected LABEL<TAB>SENTENCE")
        sentence = fields[text] if header else "\t".join(fields[1:])
        if not (name := fields[label].strip()):
            sys.exit(f"{path}: line {n} has no label, expected LABEL<TAB>SENTENCE")
        found.append((n, name, sentence))
    if not found:
        sys.exit(f"{path}: it has no lines, expected LABEL<TAB>SENTENCE")
    return found


def number_labels(labels):
    labels = set(labels)
    if all(label.isascii() and label.isdigit() and str(int(label)) == label and int(label) < MOST_LABELS for label in labels):
        return {label: int(label) for label in sorted(labels, key=int)}
    numbers = all(NUMBER.match(label) for label in labels)
    return {label: i for i, label in enumerate(sorted(labels, key=lambda label: (float(label) if numbers else 0, label)))}


def read_labels(path):
    try:
        with open(path, encoding="utf-8-sig") as file:
            pairs = [line.rstrip("\n").split("\t") for line in file]
        numbers = {label: int(number) for number, label in pairs}
    except (OSError, ValueError) as error:
        sys.exit(f"{path}: {error}; expected lines NUMBER<TAB>LABEL, as tokens.py writes them")
    if len(set(numbers.values())) < len(pairs):
        sys.exit(f"{path}: a number or a label is there twice")
    return numbers


def stem(path):
    return path[:-4] if path.lower().endswith(".bin") else path


def labels_of_training(out):
    """The labels of the file that bert-train reads with this one for tests; None without one."""
    folder, name = os.path.split(stem(out))
    for word in "validation", "valid", "val", "dev", "test":
        at = name.lower().rfind(word)
        for train in ("train", "Train", "TRAIN") if at >= 0 else ():
            path = os.path.join(folder, name[:at] + train + name[at + len(word):] + ".labels")
            if os.path.exists(path):
                return path
    return None


def note_others(numbers, out):
    """Names a file beside this one that has other numbers for some of the labels."""
    folder = os.path.dirname(out)
    for name in sorted(os.listdir(folder or ".")):
        path = os.path.join(folder, name)
        if name.endswith(".labels") and path != stem(out) + ".labels":
            theirs = read_labels(path)
            if any(theirs.get(label, number) != number for label, number in numbers.items()):
                note(f"{out}: its labels have other numbers than in {path}; --labels {path} takes those")


def numbers_for(lines, found, out, given):
    """The number of each label, and where it is from."""
    source = given or labels_of_training(out)
    if source is None:
        numbers = number_labels(label for _, label, _ in found)
        if len(numbers) > MOST_LABELS:
            sys.exit(f"{lines}: {len(numbers)} labels, expected at most {MOST_LABELS}; lines are LABEL<TAB>SENTENCE")
        if len({label.casefold() for label in numbers}) < len(numbers):
            note(f"{lines}: some labels differ in the case of letters alone")
        note_others(numbers, out)
        return numbers
    numbers = read_labels(source)
    for n, label, _ in found:
        if label not in numbers:
            sys.exit(f"{lines}: line {n} has the label '{label}', {source} has " + ", ".join(list(numbers)[:20]))
    return numbers


def convert(tokenize, lines, out, given=None):
    found = read_lines(lines)
    numbers = numbers_for(lines, found, out, given)
    random.Random(1).shuffle(found)
    ids = tokenize([sentence for _, _, sentence in found])
    for (n, _, _), tokens in zip(found, ids):
        if not tokens:
            sys.exit(f"{lines}: line {n} has no tokens")
    values = array.array("H", [v for (_, label, _), tokens in zip(found, ids) for v in (numbers[label], len(tokens), *tokens)])
    if sys.byteorder == "big":
        values.byteswap()
    with open(stem(out) + ".labels", "w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{number}\t{label}\n" for label, number in numbers.items())
    with open(out, "wb") as file:
        values.tofile(file)
    shown = ", ".join(label if label == str(number) else f"{label} {number}" for label, number in list(numbers.items())[:20])
    print(f"{out}: {len(found)} sentences; {len(numbers)} labels: {shown}{', ...' if len(numbers) > 20 else ''}; "
          f"--classes {max(2, 1 + max(numbers.values()))}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer", help="a folder that transformers' save_pretrained wrote")
    parser.add_argument("most", type=int, help="tokens of a sentence, at most")
    parser.add_argument("lines", help="the file of lines")
    parser.add_argument("out", metavar="NAME.bin")
    parser.add_argument("--labels", metavar="FILE", help="take the numbers of this file, NAME.labels of another one")
    args = parser.parse_args()
    import transformers
    tokenizer = transformers.AutoTokenizer.from_pretrained(args.tokenizer)
    convert(lambda texts: tokenizer(texts, truncation=True, max_length=args.most)["input_ids"], args.lines, args.out, args.labels)


if __name__ == "__main__":
    main()
