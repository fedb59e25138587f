#!/bin/sh
# Compares the results of two builds of resmlp-train, bit for bit.
#
#     same_bits.sh OLD NEW
#
# Both programs run a list of short trainings. For each one, parameters, optimizer moments, position
# and losses in last.ckpt and log.csv must be equal, and saved activations and peak memory must not
# grow. Times are left out. Prints a table; exits with 1 if anything differs. Needs python3.
export LC_ALL=C # a decimal point in every locale
set -u
old=$1 new=$2
case $old in /*) ;; *) old=$PWD/$old ;; esac
case $new in /*) ;; *) new=$PWD/$new ;; esac
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 2

# compare.py OLD NEW: "same|differs HASH saved peak"
cat >compare.py <<'CODE'
import hashlib, struct, sys

SIZES = {1: 1, 2: 8, 3: 8, 4: 4}  # bytes of an element, by the type of a record


def records(path):
    data = open(path, "rb").read()
    at, found = 16, {}
    while struct.unpack_from("<I", data, at)[0] != 0xFFFFFFFF:
        length, kind, rows, cols = struct.unpack_from("<IIQQ", data, at)
        at += 24
        name = data[at:at + length].decode()
        at += (length + 7) // 8 * 8
        size = rows * cols * SIZES[kind]
        found[name] = data[at:at + size]
        at += (size + 7) // 8 * 8
    return found


def results(folder):
    """The name and bits of every result, and the bytes of saved activations and of the peak."""
    found, out = records(folder + "/last.ckpt"), []
    for name in sorted(found):
        if name.startswith(("param/", "state")):
            out.append((name, found[name]))
    position = struct.unpack_from("<10Q", found["position"])
    out.append(("position", struct.pack("<6Q", *position[:6])))
    out.append(("sums", found["sums"][:8]))
    saved = position[7], position[6]
    for row in open(folder + "/log.csv").read().split("\n")[1:-1]:
        out.append(("log", ",".join(row.split(",")[:6]).encode()))
    return out, saved


(a, (saved_a, peak_a)), (b, (saved_b, peak_b)) = results(sys.argv[1]), results(sys.argv[2])
digest = hashlib.sha256(b"".join(name.encode() + bits for name, bits in b)).hexdigest()[:16]
wrong = ["results"] * (len(a) != len(b))
wrong += [x[0] for x, y in zip(a, b) if x != y][:1]
wrong += ["saved bytes"] * (saved_b > saved_a) + ["peak"] * (peak_b > peak_a)
print("%-8s %s %10d %10d %10d  %s" % ("differs" if wrong else "same", digest, saved_b, peak_a,
      peak_b, ", ".join(wrong)))
sys.exit(bool(wrong))
CODE

printf '%-28s %-8s %-16s %10s %10s %10s\n' run "" sha256 saved 'old peak' 'new peak'
differences=0

judge() {
    printf '%-28s ' "$1"
    python3 compare.py "$2" "$3" || differences=$((differences + 1))
}

# run NAME "OLD OPTIONS" "NEW OPTIONS": NAME tells the runs apart; "=" stands for the same options.
small="--image-size 16 --patch-size 8 --train-limit 80 --test-limit 40 --batch-size 32 --epochs 1"
run() {
    name=$1 before=$2 after=$3
    [ "$after" = = ] && after=$before
    rm -rf a b
    if ! "$old" $small --quiet --output-dir a $before ||
        ! "$new" $small --quiet --output-dir b $after; then
        echo "$name: failed"
        differences=$((differences + 1))
    else
        judge "$name" a b
    fi
}

# resume NAME "OPTIONS": both go on from a checkpoint that they wrote within an epoch.
resume() {
    name=$1
    rm -rf part_a part_b a b
    if ! "$old" $small --quiet --epochs 2 --steps 2 --output-dir part_a $2 ||
        ! "$new" $small --quiet --epochs 2 --steps 2 --output-dir part_b $2 ||
        ! "$old" --quiet --resume part_a/last.ckpt --output-dir a ||
        ! "$new" --quiet --resume part_b/last.ckpt --output-dir b; then
        echo "$name: failed"
        differences=$((differences + 1))
    else
        judge "$name" a b
    fi
}

paper="--activations paper" pruned="--activations paper --criterion sampled"
# The preset of the sampled criterion has a name of its own since it has been told from the paper's.
new_pruned=$pruned
"$new" --activations ? 2>&1 | grep -q ' pruned ' && new_pruned="--activations pruned"
# Likewise compact that prunes.
compact_of() { "$1" --activations ? 2>&1 | grep -o 'compact-pruned' || echo compact; }
compact="--activations $(compact_of "$old") --sparsity 0.5"
new_compact="--activations $(compact_of "$new") --sparsity 0.5"
cat >rules <<'RULES'
blocks.* mlp_channels.act pruned sparsity=0.75 values=int8
blocks.0 ls1   dense
blocks.2 mlp_channels.fc1  quantised bits=8
blocks.3 norm2 dense
blocks.3 mlp_channels.fc1 dense
blocks.3 mlp_channels.act pruned sparsity=0.5 block=4x4
blocks.3 mlp_channels.fc2 dense
blocks.3 ls2 pruned sparsity=0.25
blocks.5 ls2 dense
RULES

# Sampled blocks of runs that NEW begins are drawn from another stream than OLD's, so these runs go on
# from a checkpoint of OLD.
run dense "" =
run "paper" "$paper --criterion largest" =
run "paper, int8, bitmap" "$paper --criterion largest --values int8 --indices bitmap --block 4x4" =
run "pruned, largest" "$pruned --criterion largest" "$new_pruned --criterion largest"
run exact "--activations exact --epochs 2" =
run "exact, batch 96" "--activations exact --train-limit 101 --batch-size 96" =
run exact-tokens "--activations exact-tokens --optimizer lamb --clip-norm 1" =
run "compact, largest" "$compact --criterion largest" "$new_compact --criterion largest"
resume "resumed dense" ""
resume "resumed paper" "$paper --criterion largest"
resume "resumed sampled" "$pruned"
resume "resumed int8, bitmap" "$pruned --values int8 --indices bitmap --block 4x4"
resume "resumed compact, fp32" "$compact"
resume "resumed int8, 4 bits" "$compact --values int8 --gelu-code 4 --optimizer sgd"
resume "resumed keep file" "$compact --keep-file rules"
# Programs read the one variable or, before there was it, the other.
CLPRUNE_KERNELS=vector CLPRUNE_DEBUG=kernels=vector run "vector" "$paper --criterion largest" =
CLPRUNE_KERNELS=tiled CLPRUNE_DEBUG=kernels=tiled \
    run "tiled" "$compact --values fp16 --criterion largest" "$new_compact --values fp16 --criterion largest"
run "tiny on 32 px" "--image-size 32 --patch-size 4 --train-limit 16 --batch-size 8 --test-limit 8" =

echo "$differences differences"
[ $differences -eq 0 ]
