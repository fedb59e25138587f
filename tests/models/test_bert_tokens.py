"""examples/bert/tokens.py: labels have the same numbers in all files; bert-train reads what it writes.

Words are numbered by their characters: no tokenizer is needed. With transformers the program itself runs, too.
"""
import array
import contextlib
import importlib.util
import io
import os
import subprocess
import sys
import tempfile
import unittest

source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
spec = importlib.util.spec_from_file_location("tokens", os.path.join(source, "examples", "bert", "tokens.py"))
tokens = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tokens)
bert_train = os.path.abspath(sys.argv.pop(1))


def tokenize(texts):
    return [[1 + sum(map(ord, word)) % 900 for word in text.split()] for text in texts]


def read(path):
    """The labels of a file, in the order of their sentences' tokens."""
    with open(path, "rb") as file:
        numbers = array.array("H", file.read())
    if sys.byteorder == "big":
        numbers.byteswap()
    found, at = [], 0
    while at < len(numbers):
        end = at + 2 + numbers[at + 1]
        found.append((tuple(numbers[at + 2:end]), numbers[at]))
        at = end
    return dict(found)


class Tokens(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)

    def convert(self, text, out, labels=None):
        """What is printed, and each sentence's label."""
        with open("lines", "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            tokens.convert(tokenize, "lines", out, labels)
        numbers = read(out)
        return printed.getvalue(), lambda sentence: numbers[tuple(tokenize([sentence])[0])]

    def refused(self, text, out, labels=None):
        with self.assertRaises(SystemExit) as caught, contextlib.redirect_stderr(io.StringIO()):
            self.convert(text, out, labels)
        self.assertIsInstance(caught.exception.code, str)
        return caught.exception.code

    # what the file has: sentence and label; what is said
    FILES = [
        ("words", "bad\tb\nfine\tf\ngood\tg\n", dict(b=0, f=1, g=2), "labels: bad 0, fine 1, good 2; --classes 3"),
        ("no newline at the end", "bad\tb\ngood\tg", dict(b=0, g=1), ""),
        ("a mark of UTF-8", "\ufeffbad\tb\nbad\tc\nfine\tf\n", dict(b=0, c=0, f=1), ""),
        ("marks within", "\ufeffbad\tb\n\ufeffbad\tc\nfine\tf\n", dict(b=0, c=0, f=1), ""),
        ("CRLF", "bad\tb\r\nfine\tf\r\n", dict(b=0, f=1), ""),
        ("CR", "bad\tb\rfine\tf\r", dict(b=0, f=1), ""),
        ("empty lines", "\nbad\tb\n\n  \nfine\tf\n\n", dict(b=0, f=1), "4 empty lines are left out"),
        ("spaces round labels", " bad \tb\nbad\tc\nfine \tf\n", dict(b=0, c=0, f=1), ""),
        ("spaces in labels", "very bad\tb\nbad\tc\n", dict(b=1, c=0), ""),
        ("case", "Bad\tb\nbad\tc\n", dict(b=0, c=1), "differ in the case of letters alone"),
        ("other letters", "schlecht\tb\ngrün\tc\n", dict(b=1, c=0), ""),
        ("tabs in sentences", "bad\tb\tc\nfine\td\n", {"b c": 0, "d": 1}, ""),
        ("numbers", "0\ta\n1\tb\n2\tc\n9\td\n10\te\n11\tf\n", dict(a=0, b=1, c=2, d=9, e=10, f=11), "--classes 12"),
        ("two numbers", "1\tb\n0\ta\n", dict(a=0, b=1), "labels: 0, 1; --classes 2"),
        ("numbers without 0", "1\ta\n5\tb\n", dict(a=1, b=5), "--classes 6"),
        ("one number", "1\ta\n", dict(a=1), "--classes 2"),
        ("negative numbers", "1\tb\n-1\ta\n", dict(a=0, b=1), "labels: -1 0, 1"),
        ("large numbers", "1000\tb\n999\ta\n", dict(a=0, b=1), ""),
        ("fractions", "10.5\tc\n2.5\tb\n-3\ta\n", dict(a=0, b=1, c=2), ""),
        ("zeros before", "10\tb\n02\ta\n", dict(a=0, b=1), ""),
        ("numbers and words", "10\ta\n2\tb\nx\tc\n", dict(a=0, b=1, c=2), ""),
        ("a header", "label\tsentence\n0\ta\n1\tb\n", dict(a=0, b=1), "line 1 is left out: it names columns 1 and 2"),
        ("a header of words", "Label\tText\nbad\ta\nfine\tb\n", dict(a=0, b=1), "line 1 is left out"),
        ("GLUE's header", "sentence\tlabel\na\t0\nb\t1\n", dict(a=0, b=1), "it names columns 2 and 1, label and sentence"),
        ("GLUE's header, CRLF, a mark", "\ufeffsentence\tlabel\r\na\t0\r\nb\t1\r\n", dict(a=0, b=1), "columns 2 and 1"),
        ("three columns", "id\tlabel\ttext\n7\t0\ta\n8\t1\tb\n", dict(a=0, b=1), "columns 2 and 3"),
        ("an unknown header", "polarity\tphrases\n0\ta\n1\tb\n", dict(a=0, b=1), "line 1 is left out"),
        ("a header behind empty lines", "\n\nlabel\tsentence\n0\ta\n1\tb\n", dict(a=0, b=1), "line 3 is left out"),
        ("label without a known column", "class\twords\nbad\ta\nfine\tb\n", dict(a=0, b=1), "line 1 is left out"),
        ("a label named label", "label\ta\nlabel\tb\nother\tc\n", dict(a=0, b=0, c=1), ""),
        ("a label of one letter", "y\ta\nn\tb\n", dict(a=1, b=0), ""),
        ("a word and numbers", "x\ta\n1\tb\ny\tc\n", dict(a=1, b=0, c=2), ""),
    ]

    def test_files(self):
        for i, (what, text, labels, said) in enumerate(self.FILES):
            with self.subTest(what):
                os.mkdir(str(i))
                printed, label = self.convert(text, f"{i}/train.bin")
                self.assertEqual({sentence: label(sentence) for sentence in labels}, labels)
                self.assertEqual(len(read(f"{i}/train.bin")), len(labels))
                self.assertIn(said, printed)
                self.assertEqual("note" in printed, any(part in said for part in ("left out", "columns", "differ")))

    REFUSED = [
        ("no tab", "bad\tb\nworse\n", "line 2 has no tab, expected LABEL<TAB>SENTENCE"),
        ("no label", "bad\tb\n\tc\n", "line 2 has no label"),
        ("no tokens", "bad\tb\nfine\t\n", "line 2 has no tokens"),
        ("empty", "", "it has no lines"),
        ("only a header", "label\tsentence\n", "it has no lines"),
        ("UTF-16", "bad\tb\n".encode("utf-16"), "it is no text in UTF-8"),
        ("Latin-1", "schön\tb\n".encode("latin-1"), "it is no text in UTF-8"),
        ("packed", b"\x1f\x8b\x08\x00abc\t", "it is no text in UTF-8"),
        ("a column too few", "id\tlabel\ttext\n1\t0\n", "line 2 has 1 tab"),
        ("labels behind sentences", "".join(f"sentence {i}\t{i % 2}\n" for i in range(1001)),
         "1001 labels, expected at most 1000; lines are LABEL<TAB>SENTENCE"),
    ]

    def test_refused(self):
        for what, text, said in self.REFUSED:
            with self.subTest(what):
                self.assertIn(said, self.refused(text, "a.bin"))
                self.assertFalse(os.path.exists("a.bin"))

    # training file, tests, the file with its labels if not found by name
    PAIRS = [("train.bin", "val.bin", None), ("x_train_1.bin", "x_val_1.bin", None), ("train.bin", "valid.bin", None),
             ("train.bin", "validation.bin", None), ("train.bin", "test.bin", None), ("train.bin", "dev.bin", None),
             ("Train.bin", "Val.bin", None), ("TRAIN.BIN", "VAL.BIN", None), ("a.bin", "b.bin", "a.labels"),
             ("train.bin", "held/out.bin", "train.labels"), ("train", "val", None)]

    def test_pairs(self):
        for i, (train, tests, labels) in enumerate(self.PAIRS):
            with self.subTest(tests):
                os.makedirs(f"{i}/held")
                train, tests = f"{i}/{train}", f"{i}/{tests}"
                labels = labels and f"{i}/{labels}"
                self.convert("bad\tb\nfine\tf\ngood\tg\n", train)
                printed, label = self.convert("good\tg\nfine\tf\n", tests, labels)
                self.assertEqual((label("f"), label("g")), (1, 2))
                self.assertNotIn("note", printed)
                for name in train, tests:
                    with open(tokens.stem(name) + ".labels") as file:
                        self.assertEqual(file.read(), "0\tbad\n1\tfine\n2\tgood\n")
                said = self.refused("good\tg\nfine\tf\nworse\tw\n", tests, labels)
                self.assertRegex(said, "line 3 has the label 'worse', .*labels has bad, fine, good")

    def test_numbers_anew(self):
        self.convert("bad\tb\nfine\tf\ngood\tg\n", "a.bin")
        printed, label = self.convert("good\tg\nfine\tf\n", "other.bin")
        self.assertEqual((label("f"), label("g")), (0, 1))
        self.assertIn("other.bin: its labels have other numbers than in a.labels; --labels a.labels takes those", printed)
        printed, _ = self.convert("good\tg\nworse\tf\n", "third.bin")
        self.assertIn("third.bin: its labels have other numbers than in a.labels", printed)
        for text in ("bad\tb\nfine\tf\ngood\tg\n", "0\ta\n1\tb\n"):
            self.assertNotIn("a.labels", self.convert(text, "same.bin")[0])

    def test_wrong_labels(self):
        for text in ("bad\n", "0\tbad\n0\tgood\n", "0\tbad\n1\tbad\n", "x\tbad\n", "\t\n"):
            with open("wrong", "w") as file:
                file.write(text)
            self.assertTrue(self.refused("bad\tb\n", "a.bin", "wrong").startswith("wrong: "))
        self.assertIn("no.labels", self.refused("bad\tb\n", "a.bin", "no.labels"))

    def test_trained(self):
        """Tests that lack a label are right to 100 %; numbered by themselves they would all be wrong."""
        train = "".join(f"{label}\t{word} {i}\n" for i in range(40) for label, word in (("bad", "b"), ("fine", "f"), ("good", "g")))
        self.convert(train, "train.bin")
        self.convert("".join(line + "\n" for line in train.splitlines() if "bad" not in line), "val.bin")
        run = [bert_train, "--data", "train.bin", "--classes", "3", "--context", "16", "--batch-size", "8", "--epochs", "4"]
        done = subprocess.run(run, capture_output=True, text=True)
        if done.returncode == 3:
            self.skipTest("no OpenCL device")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1 of 3 classes have no test sample, 0 among them", done.stderr)
        self.assertIn("tests: val.bin", done.stdout)
        self.assertRegex(done.stdout, r"epoch 4/4 .* top-1 100\.00 %")
        self.convert("good\tg\nfine\tf\n", "alone.bin")
        for ending in ".bin", ".labels":
            os.replace("alone" + ending, "val" + ending)
        done = subprocess.run(run, capture_output=True, text=True)
        self.assertEqual(done.returncode, 4)
        self.assertIn("val.bin: its .labels has other numbers for labels than that of train.bin", done.stderr)

    def test_program(self):
        try:
            import transformers
        except ImportError:
            self.skipTest("no transformers")
        with open("vocab.txt", "w") as file:
            file.write("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad"]))
        transformers.BertTokenizer("vocab.txt").save_pretrained("tokenizer")
        for name, text in ("train", "0\tbad bad\n1\tgood\n"), ("val", "1\tgood good good\n"):
            with open(name + ".tsv", "w") as file:
                file.write(text)
            subprocess.run([sys.executable, tokens.__file__, "tokenizer", "4", name + ".tsv", name + ".bin"], check=True,
                           capture_output=True)
        self.assertEqual(sorted(read("train.bin").items()), [((2, 5, 3), 1), ((2, 6, 6, 3), 0)])
        self.assertEqual(read("val.bin"), {(2, 5, 5, 3): 1})


if __name__ == "__main__":
    unittest.main()
