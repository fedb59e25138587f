#!/bin/sh
# test_tensorboard_reader.sh PROGRAM: the event files of a training, read by TensorBoard's own EventAccumulator, have
# the numbers of log.csv. Python is $CLPRUNE_PYTHON, python3 or /usr/bin/python3, whichever has the package tensorboard
# first; skipped (77) where none has.
export LC_ALL=C # a decimal point in every locale
program=$1
for python in "${CLPRUNE_PYTHON:-}" python3 /usr/bin/python3; do
    [ -z "$python" ] || ! "$python" -c 'import tensorboard' 2>/dev/null || break
    python=
done
if [ -z "$python" ]; then
    echo "skipped: no python3 with TensorBoard; pip install tensorboard in a virtual environment, CLPRUNE_PYTHON names its python" >&2
    exit 77
fi
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
# The second epoch has no test.
"$program" --image-size 16 --patch-size 8 --train-limit 32 --test-limit 32 --batch-size 16 --epochs 3 --test-every 2 --clip-norm 1 \
    --quiet --output-dir "$folder/run" --tensorboard "$folder/events" || exit 1
"$python" - "$folder" <<'READER'
import csv, math, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

folder = sys.argv[1]
events = EventAccumulator(folder + "/events")
events.Reload()
tags = {"loss/train": "train_loss", "loss/test": "test_loss", "top1/test": "top1", "lr": "lr",
        "speed/images_per_second": "images_per_second", "speed/step_ms": "step_ms",
        "memory/saved_activation_bytes": "saved_activation_bytes", "memory/peak_bytes": "peak_bytes", "gradient/norm": "grad_norm"}
assert sorted(events.Tags()["scalars"]) == sorted(tags), events.Tags()
with open(folder + "/run/log.csv") as log:
    rows = list(csv.DictReader(log))
assert len(rows) == 3, rows
for tag, column in tags.items():
    expected = [(int(row["step"]), float(row[column])) for row in rows if row[column] not in ("", "nan")]
    got = [(event.step, event.value) for event in events.Scalars(tag)]
    assert [step for step, _ in got] == [step for step, _ in expected], (tag, got, expected)
    for (_, a), (_, b) in zip(got, expected):
        assert math.isclose(a, b, rel_tol=1e-5), (tag, got, expected)
assert len(events.Scalars("loss/test")) < 3
print("TensorBoard reads", sum(len(events.Scalars(tag)) for tag in tags), "scalars of", len(rows), "epochs")
READER
