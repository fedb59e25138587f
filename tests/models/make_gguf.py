#!/usr/bin/env python3
"""A small random model, as a folder of transformers and as a GGUF file with the layout of llama.cpp's
convert_hf_to_gguf. Needs nothing but Python.

    make_gguf.py FOLDER MODEL [TYPE] [CHANGE...]

MODEL is llama, llama-biases, llama-tied, llama-3 and llama-linear (scaled rotary positions), qwen2, qwen3, smollm3, phi3,
phi3-long, phi2, gemma, gemma2, gemma3, gemma3-all (scaled), olmo2 or gpt2; or pythia or neox, which is sequential, whose GGUF
file nobody reads. FOLDER gets config.json, model.safetensors and model.gguf, both with the same values. TYPE is of the GGUF
file's matrices: F32 (the default), F16, BF16, F64, Q8_0 or Q4_1. A CHANGE of the GGUF file alone is KEY=VALUE (a number or a
text), -KEY, -TENSOR, or +TENSOR, a vector; or TOKEN=TEXT, of a token that controls.
"""

import array
import json
import math
import os
import random
import struct
import sys

WIDTH, BLOCKS, HEADS, KV, HIDDEN, VOCABULARY, CONTEXT = 64, 2, 4, 2, 96, 256, 64
TYPES = {"F32": (0, 1, 4), "F16": (1, 1, 2), "Q4_1": (3, 32, 20), "Q8_0": (8, 32, 34), "F64": (28, 1, 8), "BF16": (30, 1, 2)}


def blocks_of(kind):
    return 4 if kind == "smollm3" else BLOCKS


def head_of(kind):
    """Columns of a head."""
    return 24 if kind.startswith(("qwen3", "gemma")) else WIDTH // HEADS


def tied(kind):
    return kind in ("llama-tied", "smollm3") or kind.startswith("gemma")


LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16}


def llama3_factors():
    """By which llama.cpp divides the frequencies."""
    c = LLAMA3
    for i in range(WIDTH // HEADS // 2):
        turns = c["original_max_position_embeddings"] * 50000.0**(-2 * i / (WIDTH // HEADS)) / (2 * math.pi)
        smooth = (turns - c["low_freq_factor"]) / (c["high_freq_factor"] - c["low_freq_factor"])
        yield c["factor"] if smooth < 0 else 1.0 if smooth > 1 else 1 / ((1 - smooth) / c["factor"] + smooth)


def factors(first, step):
    """Of Phi-3, of which two columns of a head stay."""
    return [first + step * i for i in range(WIDTH // HEADS // 2 - 1)]


def llama(kind):
    """Tensors as (name of transformers, name of GGUF, shape, heads whose halves interleave)."""
    head = head_of(kind)
    yield "model.embed_tokens.weight", "token_embd.weight", (VOCABULARY, WIDTH), 0
    for i in range(blocks_of(kind)):
        there, here = f"model.layers.{i}.", f"blk.{i}."
        rotated = kind.startswith(("llama", "smollm3"))
        if kind.startswith("phi3"):
            yield f"{there}self_attn.qkv_proj.weight", f"{here}attn_qkv.weight", ((HEADS + 2 * KV) * head, WIDTH), 0
            yield f"{there}mlp.gate_up_proj.weight", f"{here}ffn_up.weight", (2 * HIDDEN, WIDTH), 0
        for name, short, rows, heads in (("q", "q", HEADS * head, HEADS), ("k", "k", KV * head, KV), ("v", "v", KV * head, 0),
                                         ("o", "output", WIDTH, 0)):
            heads = heads if rotated else 0
            if kind.startswith("phi3") and name != "o":
                continue
            shape = (WIDTH, HEADS * head) if name == "o" else (rows, WIDTH)
            yield f"{there}self_attn.{name}_proj.weight", f"{here}attn_{short}.weight", shape, heads
            if kind == "llama-biases" or (kind == "qwen2" and name != "o"):
                yield f"{there}self_attn.{name}_proj.bias", f"{here}attn_{short}.bias", (rows,), heads
        for name, heads in (("q_norm", HEADS), ("k_norm", KV)) if kind.startswith(("qwen3", "gemma3", "olmo2")) else ():
            shape = (heads * head if kind == "olmo2" else head,)
            yield f"{there}self_attn.{name}.weight", f"{here}attn_{name}.weight", shape, 0
        for name, shape in (("gate", (HIDDEN, WIDTH)), ("up", (HIDDEN, WIDTH)), ("down", (WIDTH, HIDDEN))):
            if kind.startswith("phi3") and name != "down":
                continue
            yield f"{there}mlp.{name}_proj.weight", f"{here}ffn_{name}.weight", shape, 0
        if kind != "olmo2":
            yield f"{there}input_layernorm.weight", f"{here}attn_norm.weight", (WIDTH,), 0
        second = kind.startswith(("gemma2", "gemma3", "olmo2"))
        yield f"{there}post_attention_layernorm.weight", f"{here}{'post_attention' if second else 'ffn'}_norm.weight", (WIDTH,), 0
        for name, short in (("pre", "ffn_norm"), ("post", "post_ffw_norm"))[kind == "olmo2":] if second else ():
            yield f"{there}{name}_feedforward_layernorm.weight", f"{here}{short}.weight", (WIDTH,), 0
    yield "model.norm.weight", "output_norm.weight", (WIDTH,), 0
    if not tied(kind):
        yield "lm_head.weight", "output.weight", (VOCABULARY, WIDTH), 0


def gpt2(_):
    """The same; matrices of blocks are in x out in transformers, which GGUF turns round: heads is None."""
    yield "transformer.wte.weight", "token_embd.weight", (VOCABULARY, WIDTH), 0
    yield "transformer.wpe.weight", "position_embd.weight", (CONTEXT, WIDTH), 0
    for i in range(BLOCKS):
        there, here = f"transformer.h.{i}.", f"blk.{i}."
        for name, short, rows, cols in (("attn.c_attn", "attn_qkv", WIDTH, 3 * WIDTH), ("attn.c_proj", "attn_output", WIDTH, WIDTH),
                                        ("mlp.c_fc", "ffn_up", WIDTH, 4 * WIDTH), ("mlp.c_proj", "ffn_down", 4 * WIDTH, WIDTH)):
            yield f"{there}{name}.weight", f"{here}{short}.weight", (rows, cols), None
            yield f"{there}{name}.bias", f"{here}{short}.bias", (cols,), 0
        for name, short in (("ln_1", "attn_norm"), ("ln_2", "ffn_norm")):
            yield f"{there}{name}.weight", f"{here}{short}.weight", (WIDTH,), 0
            yield f"{there}{name}.bias", f"{here}{short}.bias", (WIDTH,), 0
    yield "transformer.ln_f.weight", "output_norm.weight", (WIDTH,), 0
    yield "transformer.ln_f.bias", "output_norm.bias", (WIDTH,), 0


def phi2(_):
    """The same; as many key heads as heads, and 4 WIDTH columns in the MLP, as the converter writes of each."""
    yield "model.embed_tokens.weight", "token_embd.weight", (VOCABULARY, WIDTH), 0
    for i in range(BLOCKS):
        there, here = f"model.layers.{i}.", f"blk.{i}."
        for name, short, rows, cols in (("self_attn.q_proj", "attn_q", 1, 1), ("self_attn.k_proj", "attn_k", 1, 1),
                                        ("self_attn.v_proj", "attn_v", 1, 1), ("self_attn.dense", "attn_output", 1, 1),
                                        ("mlp.fc1", "ffn_up", 4, 1), ("mlp.fc2", "ffn_down", 1, 4)):
            rows, cols = rows * WIDTH, cols * WIDTH
            yield f"{there}{name}.weight", f"{here}{short}.weight", (rows, cols), 0
            yield f"{there}{name}.bias", f"{here}{short}.bias", (rows,), 0
        yield f"{there}input_layernorm.weight", f"{here}attn_norm.weight", (WIDTH,), 0
        yield f"{there}input_layernorm.bias", f"{here}attn_norm.bias", (WIDTH,), 0
    for name, short, shape in (("model.final_layernorm", "output_norm", (WIDTH,)), ("lm_head", "output", (VOCABULARY, WIDTH))):
        yield f"{name}.weight", f"{short}.weight", shape, 0
        yield f"{name}.bias", f"{short}.bias", shape[:1], 0


def neox(_):
    """The same, with the names of folders alone."""
    yield "gpt_neox.embed_in.weight", "a", (VOCABULARY, WIDTH), 0
    for i in range(BLOCKS):
        there = f"gpt_neox.layers.{i}."
        for name, rows, cols in (("attention.query_key_value", 3 * WIDTH, WIDTH), ("attention.dense", WIDTH, WIDTH),
                                 ("mlp.dense_h_to_4h", HIDDEN, WIDTH), ("mlp.dense_4h_to_h", WIDTH, HIDDEN)):
            yield f"{there}{name}.weight", f"{i}.{name}", (rows, cols), 0
            yield f"{there}{name}.bias", f"{i}.{name}.b", (rows,), 0
        for name in ("input_layernorm", "post_attention_layernorm"):
            yield f"{there}{name}.weight", f"{i}.{name}", (WIDTH,), 0
            yield f"{there}{name}.bias", f"{i}.{name}.b", (WIDTH,), 0
    yield "gpt_neox.final_layer_norm.weight", "n", (WIDTH,), 0
    yield "gpt_neox.final_layer_norm.bias", "n.b", (WIDTH,), 0
    yield "embed_out.weight", "h", (VOCABULARY, WIDTH), 0


def config_of(kind):
    if kind in ("pythia", "neox"):
        return {"model_type": "gpt_neox", "hidden_size": WIDTH, "num_hidden_layers": BLOCKS, "num_attention_heads": HEADS,
                "intermediate_size": HIDDEN, "vocab_size": VOCABULARY, "max_position_embeddings": CONTEXT, "hidden_act": "gelu",
                "layer_norm_eps": 2.0**-10, "rotary_emb_base": 500, "rotary_pct": 0.25 if kind == "pythia" else 0.5,
                "use_parallel_residual": kind == "pythia", "tie_word_embeddings": False}
    if kind == "gpt2":
        return {"model_type": "gpt2", "n_embd": WIDTH, "n_layer": BLOCKS, "n_head": HEADS, "n_positions": CONTEXT,
                "vocab_size": VOCABULARY, "layer_norm_epsilon": 2.0**-10}
    if kind == "phi2":
        return {"model_type": "phi", "hidden_size": WIDTH, "num_hidden_layers": BLOCKS, "num_attention_heads": HEADS,
                "intermediate_size": 4 * WIDTH, "vocab_size": VOCABULARY, "max_position_embeddings": CONTEXT,
                "hidden_act": "gelu_new", "layer_norm_eps": 2.0**-10, "partial_rotary_factor": 0.4, "rope_theta": 10000.0,
                "tie_word_embeddings": False}
    config = {"model_type": kind.split("-")[0], "head_dim": head_of(kind), "hidden_size": WIDTH,
            "num_hidden_layers": blocks_of(kind), "num_attention_heads": HEADS, "num_key_value_heads": KV,
            "intermediate_size": HIDDEN, "vocab_size": VOCABULARY, "max_position_embeddings": CONTEXT,
            "rms_norm_eps": 2.0**-12, "rope_theta": 50000.0, "tie_word_embeddings": tied(kind),
            "attention_bias": kind == "llama-biases"}
    if kind == "llama-3":
        config["rope_scaling"] = LLAMA3
    if kind == "llama-linear":
        config["rope_scaling"] = {"type": "linear", "factor": 4.0}
    if kind.startswith(("phi3", "smollm3")):
        config["pad_token_id"] = 0
    if kind == "phi3-long":
        config.update({"rope_scaling": {"type": "longrope", "short_factor": factors(1, 0.25), "long_factor": factors(4, 1)},
                       "original_max_position_embeddings": CONTEXT // 2, "partial_rotary_factor": 0.875})
    if kind == "gemma2":
        config.update({"query_pre_attn_scalar": head_of(kind), "attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0,
                       "sliding_window": CONTEXT // 2})
    if kind.startswith("gemma3"):
        config.update({"model_type": "gemma3_text", "query_pre_attn_scalar": head_of(kind), "sliding_window": CONTEXT // 2,
                       "sliding_window_pattern": 2, "rope_local_base_freq": 500.0, "final_logit_softcapping": 3.0})
    if kind == "gemma3-all":
        config.update({"sliding_window_pattern": 1, "rope_scaling": {"rope_type": "linear", "factor": 4.0}})
    return config


def values_of(kind):
    name = "phi2" if kind == "phi2" else config_of(kind)["model_type"].removesuffix("_text")
    values = {"general.architecture": name, "general.alignment": 64, "general.name": "a model", "tokenizer.ggml.tokens":
              [f"<0x{i:02X}>" for i in range(VOCABULARY)], "tokenizer.ggml.scores": [0.0] * VOCABULARY,
              f"{name}.block_count": blocks_of(kind), f"{name}.context_length": CONTEXT,
              f"{name}.embedding_length": WIDTH, f"{name}.attention.head_count": HEADS, f"{name}.feed_forward_length": HIDDEN}
    if kind == "gpt2":
        values.update({"gpt2.feed_forward_length": 4 * WIDTH, "gpt2.attention.layer_norm_epsilon": 2.0**-10})
        return values
    if kind == "phi2":
        values.update({"phi2.feed_forward_length": 4 * WIDTH, "phi2.attention.head_count_kv": HEADS,
                       "phi2.rope.dimension_count": 6, "phi2.attention.layer_norm_epsilon": 2.0**-10})
        return values
    values.update({f"{name}.attention.head_count_kv": KV, f"{name}.attention.layer_norm_rms_epsilon": 2.0**-12,
                   f"{name}.rope.freq_base": 50000.0, f"{name}.vocab_size": VOCABULARY})
    if name in ("llama", "smollm3"):
        values[f"{name}.rope.dimension_count"] = WIDTH // HEADS
    if head_of(kind) == 24:
        values[f"{name}.attention.key_length"] = values[f"{name}.attention.value_length"] = head_of(kind)
    if kind == "llama-linear":
        values.update({"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0})
    if name == "phi3":
        values.update({"phi3.attention.sliding_window": 0, "phi3.rope.scaling.original_context_length": CONTEXT // 2})
    if kind == "phi3-long":
        values.update({"phi3.rope.scaling.attn_factor": math.sqrt(1 + math.log(2) / math.log(CONTEXT // 2)),
                       "phi3.rope.dimension_count": 14})
    if kind == "gemma2":
        values.update({"gemma2.attn_logit_softcapping": 5.0, "gemma2.final_logit_softcapping": 3.0,
                       "gemma2.attention.sliding_window": CONTEXT // 2})
    if kind == "gemma3":
        values.update({"gemma3.attention.sliding_window": CONTEXT // 2, "gemma3.attention.sliding_window_pattern": 2,
                       "gemma3.rope.freq_base_swa": 500.0, "gemma3.final_logit_softcapping": 3.0})
    if kind == "gemma3-all":
        values.update({"gemma3.rope.scaling.type": "linear", "gemma3.rope.scaling.factor": 4.0,
                       "gemma3.final_logit_softcapping": 3.0})
    return values


def order_of(shape, heads):
    """Of each element of the GGUF tensor its place in the one of transformers."""
    if heads is None:
        rows, cols = shape
        return [row * cols + col for col in range(cols) for row in range(rows)]
    cols = shape[1] if len(shape) > 1 else 1
    rows = list(range(shape[0]))
    if heads:
        half = shape[0] // heads // 2
        rows = [(2 * head + part) * half + j for head in range(heads) for j in range(half) for part in range(2)]
    return [row * cols + col for row in rows for col in range(cols)]


def encode(name, values):
    """The bytes of a type, and the values that they mean."""
    if name in ("F32", "F64", "F16"):
        form = f"<{len(values)}{dict(F32='f', F64='d', F16='e')[name]}"
        raw = struct.pack(form, *values)
        return raw, struct.unpack(form, raw)
    if name == "BF16":
        raw = b"".join(struct.pack("<f", value)[2:] for value in values)
        return raw, [struct.unpack("<f", b"\0\0" + raw[i:i + 2])[0] for i in range(0, len(raw), 2)]
    raw, means = bytearray(), []
    for i in range(0, len(values), 32):
        block = values[i:i + 32]
        if name == "Q8_0":
            d = struct.unpack("<e", struct.pack("<e", max(abs(value) for value in block) / 127))[0]
            codes = [max(-128, min(127, round(value / d))) for value in block]
            raw += struct.pack("<e32b", d, *codes)
            means += [d * code for code in codes]
            continue
        m = struct.unpack("<e", struct.pack("<e", min(block)))[0]
        d = struct.unpack("<e", struct.pack("<e", (max(block) - m) / 15))[0]
        codes = [max(0, min(15, round((value - m) / d))) for value in block]
        raw += struct.pack("<2e", d, m) + bytes(codes[j] | codes[j + 16] << 4 for j in range(16))
        means += [d * code + m for code in codes]
    return bytes(raw), means


def text(word):
    return struct.pack("<Q", len(word.encode())) + word.encode()


def value_bytes(value):
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    kind, form = {str: (8, ""), int: (5, "<i"), float: (6, "<f")}[type(value[0])]
    return struct.pack("<IIQ", 9, kind, len(value)) + b"".join(struct.pack(form, v) if form else text(v) for v in value)


def write_gguf(path, values, tensors):
    """tensors: name, shape of PyTorch, type, bytes."""
    alignment = values["general.alignment"]
    head, data = b"", b""
    for key, value in values.items():
        head += text(key) + value_bytes(value)
    for name, shape, kind, raw in tensors:
        head += text(name) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", size) for size in reversed(shape))
        head += struct.pack("<IQ", kind, len(data))
        data += raw + b"\0" * (-len(raw) % alignment)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values)) + head
    with open(path, "wb") as file:
        file.write(head + b"\0" * (-len(head) % alignment) + data)


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, shape, values in tensors:
        raw = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    head = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(head)) + head + data)


def main():
    folder, kind = sys.argv[1:3]
    changes = sys.argv[3:]
    wanted = changes.pop(0) if changes and changes[0] in TYPES else "F32"
    rng = random.Random(1)
    values, here, there = values_of(kind), [], []
    for name, short, shape, heads in ({"gpt2": gpt2, "phi2": phi2, "pythia": neox, "neox": neox}.get(kind, llama))(kind):
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        matrix = len(shape) > 1
        drawn = array.array("f", (rng.gauss(0, 0.1) + (0 if matrix or name.endswith("bias") else 1) for _ in range(count)))
        order = order_of(shape, heads)
        chosen = wanted if matrix else "F32"
        raw, means = encode(chosen, [drawn[i] for i in order])
        for i, mean in zip(order, means):
            drawn[i] = mean
        if kind.startswith("gemma") and not matrix:  # the converter adds 1
            drawn = array.array("f", (value - 1 for value in drawn))
        there.append((name, shape, drawn))
        here.append((short, shape if heads is not None else shape[::-1], TYPES[chosen][0], raw))
    rows = {"rope_freqs": list(llama3_factors()) if kind == "llama-3" else None}
    if kind == "phi3-long":
        rows.update({"rope_factors_short": factors(1, 0.25), "rope_factors_long": factors(4, 1)})
    for name, row in rows.items():
        if row is not None:
            here.append((f"{name}.weight", (len(row),), TYPES["F32"][0], encode("F32", row)[0]))
    for change in changes:
        key, _, value = change.partition("=")
        if change[0] == "+":
            here.append((change[1:], (8,), 0, bytes(32)))
        elif change[0] == "-":
            here = [t for t in here if t[0] != change[1:]]
            values.pop(change[1:], None)
        elif key.isdigit():
            values["tokenizer.ggml.tokens"][int(key)] = value
            values.setdefault("tokenizer.ggml.token_type", [6] * VOCABULARY)[int(key)] = 3
        else:
            values[key] = int(value) if value.isdigit() else float(value) if value[0].isdigit() else value
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/config.json", "w") as file:
        json.dump(config_of(kind), file)
    write_safetensors(f"{folder}/model.safetensors", there)
    write_gguf(f"{folder}/model.gguf", values, here)


main()
