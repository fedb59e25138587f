#!/bin/sh
# Hosts made of network namespaces, on one machine: each has a name and a link of limited rate to a switch.
#
#     netns.sh up HOSTS [RATE]          makes them: node1, node2, ...; RATE of each link as tc takes it (1gbit)
#     netns.sh run RANKS COMMAND...     runs COMMAND under mpirun, without ssh: rank 0 on node1, the next on node2, ...
#     netns.sh enter HOST COMMAND...    runs COMMAND on one host, as ssh does
#     netns.sh unplug HOST              takes its link from the switch; nobody is told
#     netns.sh plug HOST                puts it back
#     netns.sh down                     ends what runs on the hosts, and removes them
#
# All share the files of the machine. `run` ends with mpirun's exit code, and passes SIGINT, SIGTERM and SIGHUP on to it as
# SIGTERM. An interrupted `up` removes what it made. MPIRUN is the program (mpirun: Open MPI or MPICH), MPIRUN_OPTIONS are
# further words for it. CLPRUNE_NETNS (node) is how names begin: another one makes other hosts. Needs root.
export LC_ALL=C
unset CDPATH # with it, cd prints, and may go elsewhere
set -u
name=${CLPRUNE_NETNS:-node}
switch=$name-switch
self=$(cd "$(dirname "$0")" && pwd)/$(basename "$0")

die() {
    echo "netns.sh: $*" >&2
    exit 2
}

hosts() {
    ip netns list 2>/dev/null | awk -v name="$name" '$1 ~ "^" name "[0-9]+$" { print $1 }' | sort -V
}

# limit NAMESPACE DEVICE RATE
limit() {
    tc -n "$1" qdisc add dev "$2" root tbf rate "$3" burst 256kb latency 50ms
}

# add HOST NUMBER RATE
add() {
    ip netns add "$1" &&
        ip -n "$1" link add eth0 type veth peer name "port$2" netns "$switch" &&
        ip -n "$1" address add "10.98.$(($2 / 250)).$(($2 % 250))/16" dev eth0 &&
        ip -n "$1" link set lo up &&
        ip -n "$1" link set eth0 up &&
        ip -n "$switch" link set "port$2" master bridge up &&
        limit "$1" eth0 "$3" &&
        limit "$switch" "port$2" "$3"
}

up() {
    [ -z "$(hosts)" ] || die "there are hosts: netns.sh down removes them"
    trap 'down; exit 1' INT TERM HUP
    ip netns add "$switch" && ip -n "$switch" link add bridge type bridge && ip -n "$switch" link set bridge up &&
        for number in $(seq "$1"); do
            add "$name$number" "$number" "$2" || break
        done
    [ "$(hosts | wc -l)" = "$1" ] && limited=$(tc -n "$name$1" qdisc show dev eth0) && [ -z "${limited##*tbf*}" ] || {
        down
        die "could not make $1 hosts with links of $2"
    }
}

# end SIGNAL: to all on the hosts
end() {
    for host in $(hosts); do
        # shellcheck disable=SC2046 # words
        kill "-$1" $(ip netns pids "$host") 2>/dev/null
    done
}

down() {
    end KILL
    for host in $(hosts) $switch; do
        ip netns delete "$host" 2>/dev/null
    done
    return 0
}

# enter HOST COMMAND...: HOST may be an address.
enter() {
    case $1 in
    10.98.*) number=${1#10.98.} && host=$name$((${number%.*} * 250 + ${number#*.})) ;;
    *) host=$1 ;;
    esac
    shift
    exec ip netns exec "$host" unshare -u sh -c "echo $host >/proc/sys/kernel/hostname; $*"
}

# run RANKS COMMAND...
run() {
    ranks=$1
    shift
    list=$(hosts | awk -v ranks="$ranks" '{ n = NR } END {
        for (i = 1; i <= n; ++i)
            printf "%s10.98.%d.%d:%d", (i > 1 ? "," : ""), i / 250, i % 250, int((ranks + n - 1) / n) }')
    [ -n "$list" ] || die "there are no hosts: netns.sh up makes them"
    mpirun=${MPIRUN:-mpirun}
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    if "$mpirun" --version 2>&1 | grep -q 'Open MPI\|OpenRTE'; then
        export OMPI_MCA_plm_rsh_agent="$self enter" OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader,tcp
        export OMPI_MCA_btl_tcp_if_include=eth0 OMPI_MCA_oob_tcp_if_include=eth0
        set -- --bind-to none --map-by node --host "$list" ${MPIRUN_OPTIONS:-} -n "$ranks" "$@"
    else
        export UCX_TLS=tcp,self FI_PROVIDER=tcp # no memory shared by hosts
        set -- -launcher ssh -launcher-exec "$self" -iface eth0 -hosts "$list" ${MPIRUN_OPTIONS:-} -n "$ranks" "$@"
    fi
    # shellcheck disable=SC2016 # $0 of the inner shell
    ip netns exec "${name}1" unshare -u sh -c 'echo "$0" >/proc/sys/kernel/hostname; exec "$@"' "${name}1" "$mpirun" "$@" &
    child=$!
    trap 'kill -TERM $child' INT TERM HUP
    wait $child
    code=$?
    while kill -0 $child 2>/dev/null; do # a signal ends `wait`, not mpirun
        wait $child
        code=$?
    done
    exit $code
}

command=${1:-}
[ $# = 0 ] || shift
[ "$command" != -x ] || command=enter # MPICH calls it as ssh
case $command:$# in
up:1 | up:2 | unplug:1 | plug:1 | down:0 | run:[2-9] | run:[1-9]?* | enter:[2-9] | enter:[1-9]?*) ;;
*) die "up HOSTS [RATE] | run RANKS COMMAND... | enter HOST COMMAND... | unplug HOST | plug HOST | down" ;;
esac
[ "$(id -u)" = 0 ] || die "needs root: namespaces and links are made"
case $command in
up) up "$1" "${2:-1gbit}" ;;
unplug) ip -n "$switch" link set "port${1#"$name"}" down ;;
plug) ip -n "$switch" link set "port${1#"$name"}" up ;;
*) "$command" "$@" ;;
esac
