#!/usr/bin/env bash
# tools/paper.sh: its tables from plans and matrices beside the papers' values, and what it makes of trained runs.
#   test_paper.sh SOURCE_DIR PROGRAMS
#
# Trained runs are those of a trainer that learns at once: each number of its log follows from its options, so a cell of a
# CSV that belongs to another run shows. A figure that fails does not stop the others; Ctrl-C stops them.
export LC_ALL=C # a decimal point in every locale
paper=$(realpath "$1")/tools/paper.sh
programs=$(realpath "$2")
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 2
failures=0
fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# same FILE: its text is that of stdin
same() { diff "$1" - || fail "$1"; }

# Tables.
"$paper" table1 table2 table3 pool-memory --programs "$programs" --output-dir tables >tables.out 2>&1 || {
    cat tables.out
    fail "tables"
}
# near FILE OURS PAPER TOLERANCE ROWS: of columns, relative to the paper's
near() {
    awk -F, -v ours="$2" -v paper="$3" -v tolerance="$4" -v rows="$5" '
        NR > 1 && $paper != "" { n++; d = $ours / $paper - 1; if (d < -tolerance || d > tolerance) { print; bad = 1 } }
        END { exit bad || n != rows }' "$1" || fail "$1: column $2 is not near column $3 in $5 rows"
}
near tables/table2.csv 3 4 0 48
near tables/table3.csv 4 5 0.04 9
[ "$(grep -c '^total,1801.0,1798.4$' tables/table1.csv)" = 1 ] || fail "total of table1"
grep -q '^pooled 2,365.9,42.0,519.2,24.0,29$' tables/pool-memory.csv || fail "pool-memory"

# A trainer whose epochs have the loss EPOCH + sparsity, and whose accuracy is 60 - 10 sparsity - block / 100 - batch / 1000
# + cell; seed 2 has one point more.
mkdir bin
cat >bin/resmlp-train <<'TRAINER'
#!/usr/bin/env bash
echo "$*" >>"$FOLDER/calls"
sparsity=0 block=0 cell=0 batch=1 seed=1 epochs=1 dir='' summary=''
while [ $# -gt 0 ]; do
    case $1 in
    --sparsity) sparsity=$2 ;; --block) block=$2 ;; --pool) cell=$2 ;; --batch-size) batch=$2 ;;
    --seed) seed=$2 ;; --epochs) epochs=$2 ;; --output-dir) dir=$2 ;; --summary-json) summary=$2 ;;
    esac
    shift
done
[ "$block" != "${FAIL-}" ] || exit 1
[ "$block" != "${INTERRUPT-}" ] || exit 130
mkdir -p "$dir"
echo epoch,step,lr,train_loss,test_loss,top1,images_per_second >"$dir/log.csv"
for e in $(seq "$epochs"); do
    awk -v e="$e" -v s="$sparsity" -v n="$batch" 'BEGIN { print e ",1,0," e + s ",1,1," 1000 * e / n }' >>"$dir/log.csv"
done
awk -v s="$sparsity" -v b="$block" -v n="$batch" -v c="$cell" -v seed="$seed" 'BEGIN {
    printf "{\n\"train_images\": 2000,\n\"top1\": %g,\n\"gradient_check\": {\n\"conv1.weight\": {\n\"cosine\": %g,\n\"norm\": 1 },\n",
        60 - 10 * s - b / 100 - n / 1000 + c + seed - 1, 1 / (1 + c)
    print "\"bn1.weight\": {\n\"cosine\": 1,\n\"norm\": 1\n}\n}\n}" }' >"$summary"
TRAINER
chmod +x bin/resmlp-train
ln -s resmlp-train bin/resnet-train
export FOLDER=$folder
: >calls
trained() { "$paper" "$@" --programs bin --output-dir out -- --extra 7 >out.txt 2>&1; }

trained fig7 fig8 fig9 fig10 fig11 table4 pool-cosines pool-epochs || {
    cat out.txt
    fail "trained figures"
}
grep -qv -- '--extra 7' calls && fail "an option after -- does not come to all runs"
[ "$(wc -l <calls)" = $((62 + 4 + 16 + 2 + 9)) ] || fail "$(wc -l <calls) runs"
grep -q '^b128-s90,6,6.9$' out/fig7.csv && grep -q '^dense,1,1$' out/fig7.csv && [ "$(wc -l <out/fig7.csv)" = 43 ] || fail fig7
grep -q '^16,70,53.31,-7.16,2$' out/fig8.csv && grep -q '^0,0,60.47,0.00,2$' out/fig8.csv && [ "$(wc -l <out/fig8.csv)" = 32 ] ||
    fail fig8
grep -q '^tokens-s80,2,2.8$' out/fig9.csv && [ "$(wc -l <out/fig9.csv)" = 17 ] || fail fig9
# the median of six epochs is the third
same out/fig10.csv <<'CSV'
batch,seconds,seconds_half_pruned
16,10.67,10.67
32,21.33,21.33
64,42.67,42.67
128,85.33,85.33
CSV
grep -q '^batch64-half,4,4.5$' out/fig11.csv && [ "$(wc -l <out/fig11.csv)" = 49 ] || fail fig11
same out/table4.csv <<'CSV'
batch,dense_percent,half_pruned_percent,paper_dense,paper_half
16,60.48,55.32,82,82
32,60.47,55.31,89,89
64,60.44,55.28,91,90
128,60.37,55.21,90,90
CSV
same out/pool-cosines.csv <<'CSV'
convolution,pooled_2,pooled_4
conv1.weight,0.333333,0.2
CSV
same out/pool-epochs.csv <<'CSV'
epochs,dense_percent,pooled_2_percent,pooled_4_percent
4,59.87,61.87,63.87
6,59.87,61.87,63.87
8,59.87,61.87,63.87
CSV
if command -v gnuplot >/dev/null; then
    for figure in fig7 fig8 fig9 fig10 fig11 table4 pool-cosines pool-epochs ../tables/table1 ../tables/table2; do
        [ -s "out/$figure.png" ] || fail "no $figure.png"
    done
fi

# A figure that fails, and Ctrl-C; the others are made, or not.
rm -rf out
FAIL=16 trained fig9 fig7 && fail "a failed figure is no failure"
grep -q '^paper: failed: fig9$' out.txt && [ -s out/fig7.csv ] || fail "a failed figure stops others"
FAIL=0 trained table1 && fail "a plan that fails is no failure"
rm -rf out
INTERRUPT=16 trained fig9 fig7
[ $? = 130 ] && [ ! -e out/fig7.csv ] || fail "Ctrl-C goes on"

# refused WORDS ARGUMENT...: exit code 2, and one line that has the words
refused() {
    local words=$1 code=0
    shift
    "$paper" "$@" --programs bin --output-dir out >refused.txt 2>&1 || code=$?
    [ $code = 2 ] && [ "$(wc -l <refused.txt)" = 1 ] && grep -q "$words" refused.txt || {
        cat refused.txt
        fail "exit code $code of: $*"
    }
}
refused 'no figure fig6; there are: table1 ' fig6
refused 'no option --fast' fig7 --fast
refused 'no folder nowhere' fig7 --data nowhere
refused 'full needs --data' fig7 --full
refused 'data needs a folder' fig7 --data ''
[ $failures = 0 ]
