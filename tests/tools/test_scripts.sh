#!/bin/sh
# The scripts of the README where they cannot do their work: one line says the next step.
#   test_scripts.sh SOURCE_DIR
# With $CLPRUNE_TEST_LONG it also lets tools/demo.sh do its work, in a copy of the sources: it builds, and trains with few
# images, generated and in IDX files.
#
# tools/test.sh says each of its three steps and how long all take. Without dpkg, apt-get, sudo, network or a writable
# checkout one line has the next step. tools/demo.sh takes paths in options from the folder of the call, refuses some
# options, gives others to one run, and has no plot without a test. POCL_AFFINITY is set where all cores are allowed,
# whatever the variables of OpenMP.
export LC_ALL=C # a decimal point in every locale
source=$1
folder=$(mktemp -d) || exit 2
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
chmod 755 "$folder"
failures=0

# A machine where only $1... are commands; dpkg-query and id are ours: nothing is installed, no root.
machine() {
    rm -rf "$folder/bin"
    mkdir "$folder/bin"
    for command in bash env dirname grep; do
        ln -s "$(command -v $command)" "$folder/bin/$command"
    done
    printf '#!/bin/sh\nexit 1\n' >"$folder/bin/dpkg-query"
    printf '#!/bin/sh\necho 1000\n' >"$folder/bin/id"
    for command in "$@"; do
        printf '#!/bin/sh\necho %s "$@" >>%s/calls\ncase "%s $1" in $FAIL) exit 1 ;; esac\n[ %s != sudo ] || "$@"\n' \
            "$command" "$folder" "$command" "$command" >"$folder/bin/$command"
    done
    find "$folder/bin" -type f -exec chmod +x {} + # no links: those are the system's
    : >"$folder/calls"
}

# says CODE WORDS COMMAND...: the exit code, and one line on stderr that has the words (a pattern).
says() {
    code=$1 words=$2
    shift 2
    "$@" >"$folder/out" 2>"$folder/err"
    got=$?
    [ $got = "$code" ] && grep -q "$words" "$folder/err" && [ "$(wc -l <"$folder/err")" = 1 ] && return
    echo "FAILED: exit code $got, expected $code and one line with '$words': $*"
    cat "$folder/out" "$folder/err"
    failures=$((failures + 1))
}

installs() {
    env -i PATH="$folder/bin" FAIL="$1" "$folder/bin/bash" "$source/tools/install-packages.sh" extra
}

machine
rm "$folder/bin/dpkg-query"
says 0 'no dpkg-query.*install what is missing: gcc .*libcmocka-dev.* extra$' installs none
machine
says 1 'no apt-get.*install these yourself: gcc .*libcmocka-dev.* extra$' installs none
machine apt-get
says 1 'not root, and no sudo; run as root.*: apt-get install gcc .* extra$' installs none
machine apt-get sudo
says 1 'sudo is refused; run as root.*: apt-get install gcc ' installs 'sudo true'
says 1 'apt-get update failed; check the network' installs 'apt-get update'
says 1 'apt-get install failed; run as root.*: apt-get install gcc ' installs 'apt-get install'
machine apt-get sudo
installs none >/dev/null || failures=$((failures + 1))
grep -q '^apt-get install -y .*libclblast-dev.* extra$' "$folder/calls" || {
    echo "FAILED: nothing is installed"
    failures=$((failures + 1))
}

# A checkout that may only be read, as a user who is not root.
mkdir -p "$folder/checkout/tools"
cp "$source"/tools/*.sh "$folder/checkout/tools"
chmod -R a-w,a+rX "$folder/checkout"
user=env
[ "$(id -u)" != 0 ] || user="setpriv --reuid 65534 --regid 65534 --clear-groups"
for script in test demo; do
    # shellcheck disable=SC2086 # words
    says 1 "^$script: cannot write to .*/checkout; copy it to a folder of yours: cp -r" \
        $user "$folder/checkout/tools/$script.sh"
done

# tools/demo.sh: paths in options are from the folder of the call; threads of PoCL have cores of their own if all cores
# are allowed.
machine apt-get sudo cmake gnuplot
chmod -R u+w "$folder/checkout"
mkdir -p "$folder/checkout/build/release/bin" "$folder/call/data"
touch "$folder/call/my.keep"
cat >"$folder/checkout/build/release/bin/resmlp-train" <<'TRAINER'
#!/bin/sh
echo "affinity ${POCL_AFFINITY:-none}"
echo "$*" >>"$RUNS"
top1=50
case " $* " in *" --steps "*) top1= ;; esac
while [ $# -gt 0 ]; do
    case $1 in
    --data) [ -d "$2" ] || exit 4 ;;
    --keep-file) [ -f "$2" ] || exit 4 ;;
    --summary-json)
        mkdir -p "${2%/*}" && echo "\"top1\": ${top1:-null}" >"$2"
        printf 'epoch,step,lr,train_loss,test_loss,top1\n1,2,0,1,2,%s\n' $top1 >"${2%/*}/log.csv"
        ;;
    esac
    shift
done
TRAINER
chmod +x "$folder/checkout/build/release/bin/resmlp-train"
export RUNS="$folder/runs"
# demo AFFINITY COMMAND...: its three runs have POCL_AFFINITY=AFFINITY where COMMAND starts the demo.
demo() {
    affinity=$1
    shift
    (cd "$folder/call" && PATH="$folder/bin:$PATH" FAIL=none \
        env -u POCL_AFFINITY "$@" ../checkout/tools/demo.sh --data data --keep-file my.keep) >"$folder/out" 2>&1 &&
        [ "$(grep -c ',50.00,' "$folder/checkout/demo/table.csv")" = 3 ] &&
        [ "$(grep -cx "affinity $affinity" "$folder/out")" = 3 ] && return
    echo "FAILED: the demo with paths from another folder, started by $*; expected POCL_AFFINITY $affinity"
    cat "$folder/out"
    failures=$((failures + 1))
}
demo 0 env POCL_AFFINITY=0
# PoCL aborts with it if a core is not allowed.
core=$(sed -n 's/^Cpus_allowed_list:[^0-9]*\([0-9]*\).*/\1/p' /proc/self/status)
# nproc prints what OpenMP's variables say, not the cores that are allowed.
allowed=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc) all=$(nproc --all)
if [ "$allowed" = "$all" ]; then
    demo 1 env
    demo 1 env OMP_NUM_THREADS=$((all + 1))
    demo 1 env OMP_THREAD_LIMIT=1
fi
[ "$all" = 1 ] || demo none env OMP_NUM_THREADS="$all" taskset -c "$core"
# So do the other scripts that decide on it.
condition=$(grep 'export POCL_AFFINITY' "$source/tools/demo.sh")
for script in $(cd "$source" && grep -rl --include='*.sh' 'export POCL_AFFINITY' tools examples); do
    grep -qxF "$condition" "$source/$script" || {
        echo "FAILED: $script decides on POCL_AFFINITY in another way than tools/demo.sh"
        failures=$((failures + 1))
    }
done

# Options of pruning are for the pruned run and those of codes for the compact one, in any form that the trainer takes;
# without a test there is no accuracy, and no plot.
: >"$RUNS"
: >"$folder/calls"
touch "$folder/checkout/demo/accuracy.png"
(cd "$folder/call" && PATH="$folder/bin:$PATH" FAIL=none ../checkout/tools/demo.sh --block 4x4 --lr 1 --normalise half --val=fp16 \
    --steps 2 --norm l1 --group=32 --rou nearest) >"$folder/out" 2>&1 && [ "$(wc -l <"$RUNS")" = 3 ] &&
    grep -q -- ' --lr 1 --normalise half --steps 2 --activations pruned .* --block 16 --block 4x4 --val=fp16 --norm l1$' "$RUNS" &&
    grep -q -- ' --lr 1 --normalise half --steps 2 --activations compact --code-bits 4 --group=32 --rou nearest$' "$RUNS" &&
    grep -q -- ' --lr 1 --normalise half --steps 2 --activations dense$' "$RUNS" &&
    [ "$(grep -cE '^(dense|pruned-50|compact),,' "$folder/checkout/demo/table.csv")" = 3 ] &&
    ! grep -q '^gnuplot' "$folder/calls" &&
    grep -q 'no demo/accuracy.png: no epoch ended with a test$' "$folder/out" && [ ! -e "$folder/checkout/demo/accuracy.png" ] || {
    echo "FAILED: the demo of options for one run, and --steps"
    cat "$RUNS" "$folder/calls" "$folder/out" "$folder/checkout/demo/table.csv"
    failures=$((failures + 1))
}
# Options that make no sense in it are refused before it installs anything.
: >"$folder/calls"
for option in --output-dir --output-dir=x --out --activations --sparsity=0.5 --summary-json --export --tensorboard --plan \
    --plan-csv --list-devices --resume --test-only --version; do
    says 2 "^demo: ${option%%=*} is not for the demo, " "$folder/checkout/tools/demo.sh" $option x
done
for option in --block --group; do
    says 2 "^demo: $option needs a value\$" "$folder/checkout/tools/demo.sh" $option
done
[ ! -s "$folder/calls" ] || { echo "FAILED: a refused demo does: $(cat "$folder/calls")"; failures=$((failures + 1)); }

# tools/test.sh asks ctest for the tests that its comment says, says where it is and how long all takes, and installs
# lintian for --long only.
machine apt-get apt-cache sudo cmake ctest
cat >>"$folder/bin/ctest" <<'CTEST'
case " $* " in *" -N "*) echo "Total Tests: 123" ;; esac
CTEST
# asks WORDS ARGUMENT...: arguments of ctest; `takes` is the time that is said.
asks() {
    words=$1
    shift
    : >"$folder/calls"
    PATH="$folder/bin:$PATH" FAIL="${unknown:-none}" "$folder/checkout/tools/test.sh" "$@" >"$folder/out" 2>&1
    grep -q "^ctest .*$words" "$folder/calls" && [ "$(grep -cE '^test.sh, after [0-9]+:[0-9][0-9]: ([123] of 3|done)' "$folder/out")" = 4 ] &&
        grep -q ': 1 of 3, packages$' "$folder/out" && grep -q ': 2 of 3, build .*3 minutes' "$folder/out" &&
        grep -q ": 3 of 3, 123 of the test programs.*$takes" "$folder/out" && grep -q ': done$' "$folder/out" && return
    echo "FAILED: expected ctest with '$words' and steps of 3, '$takes', from tools/test.sh $*"
    cat "$folder/calls" "$folder/out"
    failures=$((failures + 1))
}
for script in test demo; do
    last=$(sed -n '1d; /^#/!q; s/^# *//p' "$source/tools/$script.sh" | tail -n 1)
    [ "$("$source/tools/$script.sh" --help | tail -n 1)" = "$last" ] || {
        echo "FAILED: tools/$script.sh --help does not end with '$last'"
        failures=$((failures + 1))
    }
done
takes='40 minutes on two cores'
asks ' -LE slow|long$'
asks ' -L unit$' -L unit
grep lintian "$folder/calls" && failures=$((failures + 1))
takes='all of --long: hours'
asks ' -L long -R deb$' --long -R deb
grep -q 'apt-get install .*lintian.*python3-torch zsh fish' "$folder/calls" && grep -q 'apt-get install .*oclgrind' "$folder/calls" || {
    echo "FAILED: --long does not install what it needs"
    cat "$folder/calls"
    failures=$((failures + 1))
}
unknown='apt-cache show' asks ' -L long$' --long # a Debian without Oclgrind
grep 'apt-get install .*oclgrind' "$folder/calls" && failures=$((failures + 1))
if ! command -v oclgrind >/dev/null && ! grep -q ': without Oclgrind: ' "$folder/out"; then
    echo "FAILED: --long does not say that Oclgrind is missing"
    failures=$((failures + 1))
fi

# tests/long/debian13.sh says why it is skipped, and takes packages from apt's mirror.
debian13() {
    env TMPDIR="$folder" APT_CONFIG="$folder/apt.conf" PATH="$folder/bin:$PATH" FAIL="$1" "$source/tests/long/debian13.sh"
}
machine
says 77 '^debian13: only root can ' debian13 none
machine debootstrap wget setpriv
printf '#!/bin/sh\necho 0\n' >"$folder/bin/id"
says 77 '^debian13: this machine lets root mount nothing' debian13 'setpriv --pdeathsig'
says 77 '^debian13: no mirror has Debian 13: .*http://deb.debian.org/debian; check the network$' debian13 'wget -q'
# takes_mirror ADDRESS: that of $folder/apt; our setpriv says what would run.
takes_mirror() {
    : >"$folder/calls"
    debian13 debootstrap >"$folder/out" 2>&1
    grep -q "^wget .* $1/dists/trixie/Release$" "$folder/calls" &&
        grep -q "^setpriv .* debootstrap .* trixie .*/system $1/*$" "$folder/calls" && return
    echo "FAILED: tests/long/debian13.sh does not take $1"
    cat "$folder/calls" "$folder/out"
    failures=$((failures + 1))
}
mkdir -p "$folder/apt/parts"
cat >"$folder/apt.conf" <<CONF
Dir::Etc::sourcelist "$folder/apt/sources.list";
Dir::Etc::sourceparts "$folder/apt/parts";
CONF
: >"$folder/apt/sources.list"
takes_mirror http://deb.debian.org/debian
if command -v apt-get >/dev/null; then
    echo 'deb [arch=amd64] http://one.example/debian bookworm main' >"$folder/apt/sources.list"
    takes_mirror http://one.example/debian
    printf 'Types: deb\nURIs: http://two.example/debian/\nSuites: bookworm\nComponents: main\n' \
        >"$folder/apt/parts/debian.sources"
    echo 'deb http://one.example/debian-security bookworm-security main' >"$folder/apt/sources.list"
    takes_mirror http://two.example/debian
fi

if [ -n "${CLPRUNE_TEST_LONG:-}" ]; then
    mkdir "$folder/demo"
    tar -C "$source" --exclude=./build --exclude=./demo --exclude=./.git -cf - . | tar -C "$folder/demo" -xf -
    "$folder/demo/tools/demo.sh" --epochs 1 --train-limit 128 --test-limit 64 --batch-size 32 >"$folder/out" 2>&1 ||
        echo "exit code $?" >>"$folder/out"
    cd "$folder/demo/demo" && [ "$(grep -cE '^(dense|pruned-50|compact),[0-9]+[.][0-9]+,[1-9][0-9.]*,[1-9][0-9.]*$' table.csv)" = 3 ] &&
        [ -s dense/log.csv ] && [ -s pruned-50/log.csv ] && [ -s compact/log.csv ] &&
        [ -s accuracy.png ] && ! grep '^exit code' "$folder/out" || {
        echo "FAILED: the demo"
        tail -n 40 "$folder/out"
        failures=$((failures + 1))
    }
    cat "$folder/demo/demo/table.csv"
    # With data: 32 images of MNIST's form, in a folder beside the call.
    mkdir "$folder/mnist"
    for split in train t10k; do
        { printf '\0\0\10\3\0\0\0\40\0\0\0\34\0\0\0\34' && head -c 25088 /dev/zero | tr '\0' 1; } \
            >"$folder/mnist/$split-images-idx3-ubyte"
        { printf '\0\0\10\1\0\0\0\40' && head -c 32 /dev/zero; } >"$folder/mnist/$split-labels-idx1-ubyte"
    done
    cd "$folder" && demo/tools/demo.sh --data mnist --epochs 1 --batch-size 16 >"$folder/out" 2>&1 || echo "exit code $?" >>"$folder/out"
    [ "$(grep -cE '^(dense|pruned-50|compact),[0-9]+[.][0-9]+,[1-9][0-9.]*,[1-9][0-9.]*$' demo/demo/table.csv)" = 3 ] &&
        grep -q '"dataset": "IDX' demo/demo/dense/summary.json && ! grep '^exit code' "$folder/out" || {
        echo "FAILED: the demo with --data"
        tail -n 40 "$folder/out"
        grep '"dataset"' demo/demo/dense/summary.json
        failures=$((failures + 1))
    }
fi

[ $failures -eq 0 ]
