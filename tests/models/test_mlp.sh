#!/bin/sh
# clprune-mlp learns the digits that it draws, dense and compact alike, and compact keeps at most a third of dense's bytes.
# It reads MNIST's four files, and refuses a folder whose files are missing, cut off or of another size, by name.
#
#     test_mlp.sh path/to/clprune-mlp
. "$(dirname "$0")/../support/program.sh"
program=$(whole "$1")
cd "$folder" || exit 1

# refuse FILE: the program ends with code 4 and one line that names FILE.
refuse() {
    ends 4 "^clprune-mlp: mnist/$1 is " "$program" mnist
}

# ---- files of MNIST's form: black images, of class 0 in training and of class 1 in the test ----
mkdir mnist
{ printf '\0\0\10\3\0\0\352\140\0\0\0\34\0\0\0\34' && head -c $((60000 * 784)) /dev/zero; } >mnist/train-images-idx3-ubyte
{ printf '\0\0\10\1\0\0\352\140' && head -c 60000 /dev/zero; } >mnist/train-labels-idx1-ubyte
{ printf '\0\0\10\3\0\0\47\20\0\0\0\34\0\0\0\34' && head -c $((10000 * 784)) /dev/zero; } >mnist/t10k-images-idx3-ubyte
refuse t10k-labels-idx1-ubyte
{ printf '\0\0\10\1\0\0\47\20' && head -c 10000 /dev/zero | tr '\0' '\1'; } >labels
head -c 10007 labels >mnist/t10k-labels-idx1-ubyte
refuse t10k-labels-idx1-ubyte
mv mnist/train-images-idx3-ubyte images
{ printf '\0\0\10\3\0\0\352\140\0\0\0\34\0\0\0\35' && tail -c +17 images; } >mnist/train-images-idx3-ubyte
refuse train-images-idx3-ubyte
mv images mnist/train-images-idx3-ubyte
mv labels mnist/t10k-labels-idx1-ubyte
if "$program" mnist >out 2>err; then
    [ "$(grep -c 'train .*accuracy 100.00 %$' out)" -ge 10 ] && [ "$(grep -c 'test .*accuracy 0.00 %$' out)" = 2 ] ||
        fail "MNIST's files are read wrongly: $(cat out)"
elif grep -q 'OpenCL platform\|OpenCL device' err; then
    no_device
else
    fail "MNIST's files: exit code $?: $(cat err)"
fi

# ---- drawn digits ----
"$program" >out 2>err || fail "exit code $?: $(cat err)"
cat out
for arm in dense compact; do
    # the loss of the first 10000 digits, and that of the test
    grep "^$arm " out | awk 'NR == 1 { first = $4 } { last = $4; accuracy = $6 }
        END { exit !(NR == 7 && $2 == "test" && last < first / 2 && accuracy > 85) }' || fail "$arm does not learn"
done
awk '/^compact *test/ { compact = $6 } /^dense *test/ { dense = $6 }
    END { exit !(compact > dense - 1 && compact < dense + 1) }' out || fail "compact ends elsewhere than dense"
# 100 digits of 784 pixels and twice 256 features, 4 bytes each; or the 256 before GELU in 4 bits, with 4 bytes for each 64;
# and 10 classes beside both.
grep -qx 'kept of a batch: dense 522400 bytes, compact 18400 (3.5 %)' out || fail "other bytes are kept"

[ $failures = 0 ]
