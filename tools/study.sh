#!/usr/bin/env bash
# Trains each arm of a study with each seed, and compares the arms in a table and a plot.
#
#     tools/study.sh STUDY TRAINER OUT [OPTION...]
#     tools/study.sh --help
#
# STUDY is a file of lines:
#
#     title TEXT           of the plot
#     options WORD...      of the trainer, for all runs
#     seeds N...           1 2 3 unless given
#     arm NAME WORD...     options of an arm; the others are compared with the first arm
#     only NAME N...       seeds of one arm, in place of all
#
# Empty lines and what follows a # are skipped. A word that begins with @/ is a path from the folder of STUDY.
# TRAINER is resmlp-train or resnet-train; - makes no runs, only table and plot of finished ones. OPTIONs
# come last and win: --data DIR, --test-every 1. Without --test-every, a run tests only after its last epoch.
#
# A run has the folder OUT/NAME-SEED. Finished runs are not made again, interrupted ones continue from their
# checkpoint, those with --steps from the start. Several processes may work on one OUT: each takes runs that
# no other has. A run that fails or crashes is reported, and the others go on. If the trainer refuses an option (exit code
# 2) or the data (4) in the first run of an arm, the arm's other seeds are not tried. SIGINT, SIGTERM and SIGHUP end
# the study: the trainer finishes its step and saves a checkpoint.
#
# The command line of a run is in study.options. With other options than a finished or interrupted run, or than one that another
# process makes, the study ends: start with those, remove the run's folder, or take another OUT. These may differ: --data,
# --device, --best, --skip-broken, --checkpoint-every, --checkpoint-minutes, --check-finite, --export, --adapters, --memory-report, --tensorboard, --quiet, and how a path is written.
# With - for TRAINER, only the options of STUDY are compared, and files by their names without folders; runs without
# study.options are taken as they are.
# A data set may move, but not change: the study ends if dataset, classes, train_images or test_images in the summary.json
# of finished runs differ. Arms with --data, --classes, --train-limit or --test-limit of their own may differ from others.
#
# At its end, and at each start with finished runs, OUT gets:
#
#     runs.csv     a row for each finished run
#     table.csv    a row for each arm: mean and standard deviation over its seeds, the largest peak_bytes, and
#                  the difference from the first arm, seed by seed; a run without a value, such as top1 after
#                  --steps, does not count in its mean
#     study.png    accuracy over the bytes kept, and training loss over epochs (if gnuplot is installed)
#
# Exit codes: 0 all runs are finished; 1 some are not; 2 the study or the command line is wrong, or runs do not fit together;
# 130, 143 and 129 after SIGINT, SIGTERM and SIGHUP.
export LC_ALL=C # a decimal point in every locale
unset CDPATH # with it, cd prints, and may go elsewhere
set -euo pipefail
case ${1-} in -h | --help) sed -n '1d; /^#/!q; s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
[ $# -ge 3 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
wrong() { echo "study: $*" >&2; exit 2; }
[ -f "$1" ] || wrong "no file $1"
[ "$2" = - ] || { [ -f "$2" ] && [ -x "$2" ]; } || wrong "no program $2"
study=$(realpath -- "$1")
train=$2
[ "$2" = - ] || train=$(realpath -- "$2")
case $3 in -*) out=./$3 ;; *) out=$3 ;; esac
shift 3
home=$(dirname "$study")
plot=$(cd "$(dirname "$0")" && pwd)/study.gp

title=$(basename "$study" .study)
common=()
seeds=(1 2 3)
arms=()
declare -A options only
while IFS= read -r line || [ -n "$line" ]; do
    read -r -a words <<<"${line%$'\r'}" # lines may end as on Windows
    for i in "${!words[@]}"; do # up to a comment
        case ${words[i]} in '#'*) words=("${words[@]:0:i}"); break ;; esac
    done
    [ ${#words[@]} -gt 0 ] || continue
    key=${words[0]}
    [ ${#words[@]} -gt 1 ] || wrong "$study: '$key' says nothing"
    words=("${words[@]:1}")
    case $key in
    title) title="${words[*]}" ;;
    options) common+=("${words[@]}") ;;
    seeds) seeds=("${words[@]}") ;;
    arm)
        name=${words[0]}
        [[ $name =~ ^[A-Za-z0-9][A-Za-z0-9.+_-]*$ ]] ||
            wrong "$study: an arm is called '$name', expected a letter or digit, then letters, digits and .+_-"
        [ -z "${options[$name]+x}" ] || wrong "$study: two arms are called $name"
        arms+=("$name")
        options[$name]="${words[*]:1}"
        ;;
    only) only[${words[0]}]="${words[*]:1}" ;;
    *) wrong "$study: '$key' is no title, options, seeds, arm or only" ;;
    esac
done <"$study"
[ ${#arms[@]} -gt 0 ] || wrong "$study: no arm"
for name in "${!only[@]}"; do
    [ -n "${options[$name]+x}" ] || wrong "$study: 'only $name' is of no arm"
done
for seed in "${seeds[@]}" ${only[@]+"${only[@]}"}; do
    case ${seed// /} in *[!0-9]* | '') wrong "$study: '$seed' is no seed" ;; esac
done
mkdir -p "$out"

# regular FILE...: fails if one is there but is not a regular file, because opening a FIFO could wait for ever.
regular() {
    local file
    for file; do
        [ ! -e "$file" ] || [ -f "$file" ] || {
            echo "study: $file is not a regular file; remove it or take another OUT" >&2
            return 1
        }
    done
}
regular "$out"/{runs.csv,table.csv,study.png,plot.err} || exit 2

# The runs, NAME SEED, seed by seed: arms can then be compared after an interruption.
runs() {
    local seed name
    for seed in $(printf '%s\n' "${seeds[@]}" ${only[@]+"${only[@]}"} | tr ' ' '\n' | sort -nu); do
        for name in "${arms[@]}"; do
            case " ${only[$name]-${seeds[*]}} " in *" $seed "*) echo "$name $seed" ;; esac
        done
    done
}

# set_own NAME SEED: sets `own` to the options of the study for a run.
set_own() {
    read -r -a own <<<"${options[$1]}"
    own=(--test-every 0 ${common[@]+"${common[@]}"} ${own[@]+"${own[@]}"} --seed "$2")
}

# comparable: options, one a line, without those that change no result; files by real path, from the folder of STUDY.
# The trainers take any unique beginning of an option: here of --best, --data, --device, --skip-broken, --checkpoint-every and -minutes, --check-finite,
# --export, --adapters, --memory-report, --tensorboard, --quiet.
comparable() {
    local line path
    grep -vE '^--(bes|da|de|sk|ch|ex|ad|memory-r|ten|q)[a-z-]*([ =]|$)' |
        while IFS= read -r line; do
            case $line in --imp*[\ =]* | --k*[\ =]*) # any beginning of --import and --keep-file
                path=${line#*[ =]}
                path=$(realpath -m -- "${path/#@\//"$home"/}")
                line="${line%%[ =]*} ${path/#"$home"\//@/}"
                ;;
            esac
            printf '%s\n' "$line"
        done
}

# command_line NAME SEED OPTION...: of a run, as study.options has it
command_line() {
    local own
    set_own "$1" "$2"
    printf '%s' "${train##*/}"
    printf '%s\n' "${own[@]}" "${@:3}" | awk '{ printf /^--/ ? "\n%s" : " %s", $0 } END { print "" }' |
        comparable
}

# same_options NAME SEED OPTION...: fails if a run was begun with others, because the table would mix them.
same_options() {
    local dir=$out/$1-$2 difference compared=(cat)
    [ "$train" != - ] || compared=(sed -E '1d; s,^(--(imp|k)[^ =]*[ =]).*/,\1,; /^--seed /q')
    [ -s "$dir/study.options" ] || return 0
    difference=$(diff <(comparable <"$dir/study.options" | "${compared[@]}") <(command_line "$@" | "${compared[@]}") |
        sed -n 's/^</    then/p; s/^>/    now /p') || true
    [ -n "$difference" ] || return 0
    printf "study: %s was begun with other options; %s\n%s\n" "$dir" \
        "start with those ('then'), remove that folder unless a process works on it, or take another OUT" "$difference" >&2
    return 1
}

begun() { [ -s "$1/summary.json" ] || [ -s "$1/last.ckpt" ]; } # otherwise, a run begins anew

# check_options OPTION...: ends if a run was begun with others, or another process makes it with others.
check_options() {
    local name seed dir other=0
    while read -r name seed; do
        dir=$out/$name-$seed
        [ -s "$dir/study.options" ] && { begun "$dir" ||
            { [ -f "$dir/study.lock" ] && ! flock -n "$dir/study.lock" true; }; } || continue
        same_options "$name" "$seed" "$@" || other=1
    done < <(runs)
    [ $other = 0 ] || exit 2
}

# field FILE KEY: the first number or text of a key, nothing if that is null
field() { sed -n 's/.*"'"$2"'": *"\{0,1\}\([^",}]*\).*/\1/p' "$1" | sed 's/^null$//; q'; }

# data SUMMARY: what a summary says of its data, in one line; nothing if it says nothing
data() {
    local dataset
    dataset=$(field "$1" dataset)
    [ -z "$dataset" ] || echo "$dataset: $(field "$1" classes) classes," \
        "$(field "$1" train_images) training images, $(field "$1" test_images) test images"
}

# same_data [NAME SEED SUMMARY]: fails if finished runs, and the given one, were made with different data.
same_data() {
    local name seed summary group have
    local -A first=() expected=()
    while read -r name seed summary; do
        summary=${summary:-$out/$name-$seed/summary.json}
        [ -s "$summary" ] || continue
        have=$(data "$summary")
        [ -n "$have" ] || continue
        group=- # no arm is called so
        [[ " ${options[$name]}" != *' --'@(da|cla|train-|test-l)* ]] || group=$name
        if [ -z "${first[$group]-}" ]; then
            first[$group]=$name-$seed
            expected[$group]=$have
        elif [ "$have" != "${expected[$group]}" ]; then
            printf 'study: %s and %s were made with different data; %s\n    %s has %s\n    %s has %s\n' \
                "$out/${first[$group]}" "$name-$seed" "remove the folder of the wrong one, or take another OUT" \
                "${first[$group]}" "${expected[$group]}" "$name-$seed" "$have" >&2
            return 1
        fi
    done < <(runs && { [ $# = 0 ] || echo "$@"; })
}

report() (
    cd "$out" || exit
    exec 7<. && flock 7 # other processes report, too
    {
        echo "arm,seed,epochs,top1_percent,test_loss,train_loss,saved_activation_bytes,peak_bytes,step_ms,seconds,cpu_seconds"
        runs | while read -r name seed; do
            s=$name-$seed/summary.json
            [ -s "$s" ] || continue
            echo "$name,$seed,$(field "$s" epochs_done),$(field "$s" top1),$(field "$s" test_loss),$(field "$s" train_loss),$(field "$s" saved_activation_bytes),$(field "$s" peak_bytes),$(field "$s" step_ms),$(field "$s" seconds),$(field "$s" cpu_seconds)"
        done
    } >runs.csv
    awk -F, -v first="${arms[0]}" '
        function mean(list, n, i, s) { for (i = 1; i <= n; i++) s += list[i]; return n ? s / n : 0 }
        function deviation(list, n, m, i, s) {
            if (n < 2)
                return ""
            for (i = 1; i <= n; i++)
                s += (list[i] - m) ^ 2
            return sprintf("%.2f", sqrt(s / (n - 1)))
        }
        function average(column, format) {
            return cells[arm, column] ? sprintf(format, sum[arm, column] / cells[arm, column]) : ""
        }
        NR == 1 { next }
        !($1 in count) { order[++arms] = $1 }
        { seed[$1, ++count[$1]] = $2; top1[$1, $2] = $4; if ($8 + 0 > peak[$1] + 0) peak[$1] = $8
          for (i = 1; i <= NF; i++) if ($i != "") { sum[$1, i] += $i; cells[$1, i]++ } }
        END {
            print "arm,runs,top1_mean,top1_sd,difference_mean,difference_sd,test_loss,train_loss,saved_activation_bytes,peak_bytes,step_ms,cpu_seconds"
            for (a = 1; a <= arms; a++) {
                arm = order[a]
                n = pairs = 0
                for (i = 1; i <= count[arm]; i++) {
                    s = seed[arm, i]
                    if (top1[arm, s] == "")
                        continue
                    own[++n] = top1[arm, s]
                    if (top1[first, s] != "")
                        beside[++pairs] = own[n] - top1[first, s]
                }
                d = mean(beside, pairs)
                printf "%s,%d,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s\n", arm, count[arm], average(4, "%.2f"), \
                    deviation(own, n, mean(own, n)), arm == first || !pairs ? "" : sprintf("%+.2f", d), \
                    arm == first ? "" : deviation(beside, pairs, d), average(5, "%.4f"), average(6, "%.4f"), \
                    average(7, "%.0f"), peak[arm], average(9, "%.1f"), average(11, "%.0f")
            }
        }' runs.csv >table.csv
    # shellcheck disable=SC2046 # names without spaces
    if [ "$(wc -l <runs.csv)" -gt 1 ] && command -v gnuplot >/dev/null &&
        regular $(awk -F, 'NR > 1 { print $1 "-" $2 "/log.csv" }' runs.csv); then
        gnuplot -e "title='${title//\'/}'; $(awk -F, '
            NR > 1 && !($1 in number) { number[$1] = ++arms; names = names " " $1 }
            NR > 1 { runs = runs " " $1 "-" $2; of = of " " number[$1] }
            END { printf "arms=\x27%s\x27; runs=\x27%s\x27; of=\x27%s\x27", names, runs, of }' runs.csv)" \
            "$plot" 2>plot.err || cat plot.err >&2
        rm -f plot.err
    fi
)

# SIGINT, SIGTERM and SIGHUP end the study after the trainer, which finishes its step. A terminal, timeout and systemd
# signal all processes of the study; the trainer ignores a second signal within a second.
signals=0 stop='' trainer=''
on_signal() {
    signals=$((signals + 1))
    [ -z "$stop" ] || return 0
    stop=$1
    [ -z "$trainer" ] || kill -$((stop - 128)) "$trainer" 2>/dev/null || :
}

# interruptible COMMAND...: runs a command that ends early after a signal, and returns its exit code.
interruptible() {
    local code=0 seen
    [ -z "$stop" ] || return "$stop"
    (trap - INT && exec "$@") 7>&- & # a plain command in the background ignores SIGINT
    trainer=$!
    [ -z "$stop" ] || kill -$((stop - 128)) "$trainer" 2>/dev/null || : # it came before there was a trainer
    while
        seen=$signals
        wait "$trainer" && code=0 || code=$?
        [ "$seen" != "$signals" ] # a signal ended wait
    do :; done
    trainer=
    return $code
}

# unfinished NAME: succeeds if the arm has no finished run
unfinished() {
    local name seed
    while read -r name seed; do
        [ "$name" != "$1" ] || [ ! -s "$out/$name-$seed/summary.json" ] || return 1
    done < <(runs)
}

# hear_refusal: prints the lines of the trainer's stderr; succeeds if one is an error about --data. It ends after the
# trainer.
hear_refusal() {
    local line code=1
    trap '' INT TERM HUP
    while IFS= read -r line || [ -n "$line" ]; do
        printf '%s\n' "$line" >&2
        [[ ! $line =~ ^[^:]*': --data: ' ]] || code=0
    done
    return $code
}

# train_one NAME SEED OPTION...: succeeds if the run is finished, or another process has it.
train_one() {
    local dir=$out/$1-$2 words own more i code=0 taken= listener refused_data=
    if [ ! -s "$dir/summary.json" ]; then
        # The lock is never removed: on a removed file it would lock nobody out.
        mkdir -p "$dir" && regular "$dir"/{study.lock,study.options,summary.tmp} && exec 7>"$dir/study.lock" || return
        flock -w 1 7 || code=$? # not -n: check_options of another process takes it for a moment
        case $code in
        0) ;;
        1) taken=yes ;;
        *) exec 7>&-; return $code ;; # there are no locks
        esac
        code=0
    fi
    if [ -n "$taken" ] || begun "$dir"; then # since check_options
        # A finished run with other options would be in the table.
        same_options "$@" || { [ -s "$dir/summary.json" ] || report; exit 2; }
    fi
    if [ -n "$taken" ] || [ -s "$dir/summary.json" ]; then # finished meanwhile
        exec 7>&-
        return 0
    fi
    set_own "$1" "$2"
    words=("${own[@]/#@\//"$home"/}" "${@:3}") # quoted: bash 5.2 would replace an & in $home
    if [ -s "$dir/last.ckpt" ] && [[ " ${words[*]}" != *' --ste'* ]]; then # --steps would count from the checkpoint
        more=(--output-dir "$dir" --resume "$dir/last.ckpt")
        for i in "${!words[@]}"; do # without --import, of which any beginning will do: the checkpoint has the weights
            case ${words[i]-} in
            --imp*=*) unset "words[i]" ;;
            --imp*) unset "words[i]" "words[i + 1]" ;;
            esac
        done
    else # of a resumed run, the trainer may refuse the options
        command_line "$@" >"$dir/study.options"
        more=(--output-dir "$dir" --overwrite)
        [[ " ${words[*]}" != *' --test-o'* ]] || more=() # --test-only has no files but the summary
    fi
    echo "== $1-$2"
    exec 8> >(exec 7>&-; hear_refusal)
    listener=$!
    interruptible "$train" "${words[@]}" --summary-json "$dir/summary.tmp" ${more[@]+"${more[@]}"} 2>&8 8>&- || code=$?
    exec 8>&-
    ! wait $listener || refused_data=yes
    # after a signal, the summary is of a part of the run
    if [ $code = 0 ]; then
        same_data "$1" "$2" "$dir/summary.tmp" || { rm -f "$dir/summary.tmp"; report; exit 2; }
        mv "$dir/summary.tmp" "$dir/summary.json"
    fi
    rm -f "$dir/summary.tmp"
    exec 7>&-
    case $code in
    129 | 130 | 143) stop=${stop:-$code} ;; # by a signal
    2 | 4) # of a resumed run, the checkpoint may be the reason; 4 is also a full disk or another run's folder
        [[ " ${more[*]-}" == *' --resume '* ]] || [ "$code$refused_data" = 4 ] || ! unfinished "$1" || refused[$1]=yes
        ;;
    esac
    return $code
}

finished() { runs | while read -r name seed; do [ ! -s "$out/$name-$seed/summary.json" ] || echo; done | wc -l; }

check_options "$@"
same_data || exit 2
failed=() skipped=()
declare -A refused # arms whose options or data the trainer refuses
[ "$train" = - ] || [ "$(finished)" = 0 ] || report
if [ "$train" != - ]; then
    trap 'on_signal 130' INT
    trap 'on_signal 143' TERM
    trap 'on_signal 129' HUP
fi
while [ "$train" != - ] && read -r name seed <&3; do
    if [ -n "${refused[$name]-}" ] && [ ! -s "$out/$name-$seed/summary.json" ]; then
        skipped+=("$name-$seed")
        continue
    fi
    train_one "$name" "$seed" "$@" || failed+=("$name-$seed")
    [ -z "$stop" ] || { report; exit "$stop"; }
done 3< <(runs)
report
cat "$out/table.csv"
[ ${#failed[@]} = 0 ] || echo "study: failed: ${failed[*]}" >&2
[ ${#skipped[@]} = 0 ] ||
    echo "study: not tried, because the trainer refused an earlier seed's options or data: ${skipped[*]}" >&2
[ "$(finished)" = "$(runs | wc -l)" ]
