#!/usr/bin/env python3
"""Times one training step in turns: ours in fp32 and bf16 with each way of keeping activations, and PyTorch's (torch_step.py).

    steps.py resmlp_s12|resnet18|resnet50|vgg11|mixer_s16|deit_small|gpt_nano BIN OUT [ROUNDS [NAME...]]

224 px, batch 32; gpt_nano: 256 bytes, batch 16. BIN is the folder of our programs. A first round fills the caches and is not counted;
neither is the first step of each run. OUT/ARCH.csv gets a row for each variant: the median over the rounds, the median
of its ratios to PyTorch's fastest in bf16 of the same round, MiB saved for the backward pass, the step of each round, and
the peak of the process's resident memory in MiB, of the last round. With 0 rounds the file keeps its times, and gets peaks.
NAMEs are the variants to run, all unless given. steps/steps.gp draws the files. Needs PyTorch 2; both programs use all
cores of the process. POCL_AFFINITY=1 keeps PoCL's threads on cores of their own; $CPU names the machine in the file."""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
KEEP = {  # name: options
    "dense": ["--activations", "dense"],
    "pruned": ["--activations", "pruned", "--sparsity", "0.7", "--block", "16"],
    "pooled": ["--activations", "pooled", "--pool", "2"],
    "exact": ["--activations", "exact"],
    "dense-stored": ["--activations", "dense", "--store", "bf16"],
    "exact-stored": ["--activations", "exact", "--store", "bf16"],
    "compact": ["--activations", "compact", "--code-bits", "4"],
    "compact-plus": ["--activations", "compact-plus", "--code-bits", "4"],
    "least": ["--activations", "least", "--code-bits", "4"],
}
PEER = {
    "torch fp32": [],
    "torch bf16": ["--bf16"],
    "torch bf16 compiled": ["--bf16", "--compile"],
    "torch bf16 checkpoint": ["--bf16", "--checkpoint"],
}
STEPS = 4
TRANSFORMERS = ("deit_small", "gpt_nano")
CNNS = ("resnet18", "resnet50", "vgg11")


def run_command(command):
    """What it prints, and the peak of its resident memory in MiB."""
    with tempfile.TemporaryFile("w+") as out:
        child = subprocess.Popen(command, stdout=out)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            raise subprocess.CalledProcessError(child.returncode, command)
        out.seek(0)
        return out.read(), usage.ru_maxrss / 1024


def batch(arch):
    return "16" if arch == "gpt_nano" else "32"


def peer(arch, options):
    out, peak = run_command([sys.executable, HERE / "torch_step.py", "--arch", arch, "--steps", str(STEPS), *options]
                       + ["--batch-size", batch(arch)] + ["--channels-last"] * (arch in CNNS))
    result = json.loads(out.splitlines()[-1])
    return result["step_ms"], result.get("saved_mib"), result["peer"], peak


def ours(arch, binaries, options, precision, work):
    optimizer = "sgd" if arch in CNNS else "adamw"
    summary = work / "summary.json"
    program = next(name for name in ("resmlp", "resnet", "vgg", "mixer", "gpt", "deit") if arch.startswith(name))
    program = "vit" if program == "deit" else program
    data = [] if arch == "gpt_nano" else ["--image-size", "224", "--classes", "1000"]
    _, peak = run_command([pathlib.Path(binaries) / f"{program}-train", "--arch", arch, *data,
                    "--batch-size", batch(arch), "--steps", str(STEPS + 1), "--test-limit", "1", "--optimizer", optimizer,
                    "--precision", precision, "--output-dir", work / "run", "--overwrite", "--summary-json", summary,
                    "--quiet", *options])
    result = json.loads(summary.read_text())
    return result["step_ms"], result["saved_activation_bytes"] / 1048576, "clprune", peak


def add_peaks(path, peaks):
    """The file with a last column peak_mib: of `peaks`, else what it had."""
    lines = path.read_text().splitlines()
    with open(path, "w") as file:
        for line in lines:
            cells = line.split(",")
            if line.startswith("name,"):
                line = ",".join(cells[:5] + ["peak_mib"])
            elif cells[0] in peaks:
                line = ",".join(cells[:5] + [f"{peaks[cells[0]]:.0f}"])
            print(line, file=file)


def main():
    arch, binaries, out = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 3
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        run = {name: lambda options=options: peer(arch, options) for name, options in PEER.items()}
        for name, options in KEEP.items():
            if name == "pooled" and arch not in CNNS or name == "compact-plus" and arch not in TRANSFORMERS:
                continue
            for precision in ("bf16",) if name.endswith("stored") else ("fp32", "bf16"):
                run[f"{name} {precision}"] = lambda options=options, precision=precision: ours(
                    arch, binaries, options, precision, work)
        names = sys.argv[5:] or list(run)
        times, saved, peaks, version = {name: [] for name in names}, {}, {}, ""
        for turn in range(max(rounds, 1) + 1):
            for name in names:
                ms, mib, program, peaks[name] = run[name]()
                saved[name] = mib
                version = program if "PyTorch" in program else version
                if turn > 0:
                    times[name].append(ms)
            print(f"round {turn} of {rounds}", file=sys.stderr, flush=True)
    path = out / f"{arch}.csv"
    if rounds == 0:
        add_peaks(path, peaks)
        return print(path.read_text())
    fastest = [min(each) for each in zip(*(times[name] for name in times if name.startswith("torch bf16")))]
    with open(path, "w") as file:
        size = "256 bytes" if arch == "gpt_nano" else "224 px"
        print(f"# {arch}, {size}, batch {batch(arch)}; {version}; {os.environ.get('CPU', 'CPU not named')}; {rounds} rounds", file=file)
        print("name,step_ms,to_torch_bf16,saved_mib,rounds_ms,peak_mib", file=file)
        for name, values in times.items():
            ratio = f"{statistics.median(v / f for v, f in zip(values, fastest)):.3f}" if fastest else ""
            mib = "" if saved[name] is None else f"{saved[name]:.1f}"
            print(f"{name},{statistics.median(values):.0f},{ratio},{mib},{' '.join(f'{v:.0f}' for v in values)},{peaks[name]:.0f}", file=file)
    print(path.read_text())


if __name__ == "__main__":
    main()
