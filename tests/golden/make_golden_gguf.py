#!/usr/bin/env python3
"""Make golden_gguf.inc: of each quantised type of GGUF a block of random bytes, and its elements as the package gguf
(PyPI) decodes them, with numpy.

    python3 make_golden_gguf.py            write the file beside this script
    python3 make_golden_gguf.py --check    compute again and compare with the file
"""

import argparse
import pathlib
import struct
import sys

import gguf
import numpy

# The places of the fp16 scales and minima in a block.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}
WIDTH = 100


def rows(words):
    line = ""
    for word in words:
        if len(line) + len(word) + 1 > WIDTH:
            yield line
            line = ""
        line += word + ","
    yield line


def block_of(random, name):
    kind = gguf.GGMLQuantizationType[name]
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    block = bytearray(random.randint(0, 256, size, dtype=numpy.uint8).tobytes())
    for at in HALVES[name]:
        block[at:at + 2] = struct.pack("<e", random.uniform(-0.1, 0.1))
    values = gguf.quants.dequantize(numpy.frombuffer(bytes(block), numpy.uint8), kind).astype("<f4")
    assert values.size == elements
    return (f'{{"{name}", {int(kind)}, {elements}, {size},\n{{' + "\n".join(rows(f"{b:#04x}" for b in block)) + "},\n{" +
            "\n".join(rows(f"{b:#010x}" for b in values.view("<u4").ravel())) + "}},\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    random = numpy.random.RandomState(1)
    text = "/* Made by make_golden_gguf.py: name, type, elements, bytes, a block, its elements as bits of fp32. */\n"
    text += "".join(block_of(random, name) for name in HALVES)
    path = pathlib.Path(__file__).with_name("golden_gguf.inc")
    if not check:
        path.write_text(text)
    elif path.read_text() != text:
        sys.exit(f"{path.name} is another")


main()
