#!/bin/sh
# PID 1 of a worker that is reached by ssh: sshd, and beside it the template's own command.
#
#     sh worker.sh PORT EPOCH GRACE REFUSAL -- [command [argument...]]
#
# EPOCH is that of the oldest launcher that is obeyed, GRACE the seconds from SIGTERM to SIGKILL;
# REFUSAL is where an mpirun looks in each rank for the program that starts others.
# The image has sshd, setsid and what every base image has: cat, chmod, mkdir, mv, rm, sh, sleep.
# Variables of ours are called edl_...: what the container has set is handed on as it is.
set -u
edl_folder=${0%/*/*}
edl_run=$edl_folder/run
edl_ending='TERM INT HUP QUIT USR1 USR2 PWR 37' # 37: RTMIN+3, which systemd's images want
edl_port=$1 edl_epoch=$2 edl_grace=$3 edl_refusal=$4 edl_daemon= edl_command= edl_told=' '
shift 5

fail() {
    echo "edl: $*" >&2
    exit 78
}

prepare() {
    mkdir -p "$edl_run/sessions" "$edl_run/over" "$edl_run/told" && echo "$edl_epoch" >"$edl_run/epoch" && pwd >"$edl_run/folder" || return 1
    # sshd gives sessions nothing of the container's environment, and takes no key of another user,
    # which a Secret's files are where this is not root.
    (umask 077 && export -p >"$edl_run/environment" && cat "$edl_folder/keys/host_key" >"$edl_run/host_key")
}

place_ranks() {
    mkdir -p "$edl_run/ranks" || return 1
    for edl_part in sockets parting waking sitecustomize; do
        cat "$edl_folder/src/launcher..ranks..$edl_part.py" >"$edl_run/ranks/$edl_part.py" || return 1
    done
}

refuse_mpirun() {
    {
        echo '#!/bin/sh'
        echo 'echo "edl: a worker starts no processes in others, only the launcher does" >&2'
        echo 'exit 255'
    } >"$edl_refusal" && chmod 755 "$edl_refusal"
}

has_sessions() { # in a trap, a bare `return` would mean what was before it
    for file in "$edl_run"/sessions/*; do
        [ -e "$file" ] && kill -0 "-$(cat "$file")" 2>/dev/null && return 0
    done
    return 1
}

# TERM goes once, and to nobody who has had it from the launcher: a second one breaks off what saves
# on the first. Who has had another signal alone gets it, as without ssh.
signal_sessions() {
    for file in "$edl_run"/sessions/*; do
        [ -e "$file" ] || continue
        [ "$1" = KILL ] || note_term "${file##*/}" || continue
        kill "-$1" "-$(cat "$file")" 2>/dev/null
    done
}

note_term() { # 1: it has had it
    case $edl_told in *" $1 "*) return 1 ;; esac
    case $(cat "$edl_run/told/$1" 2>/dev/null) in *15*) return 1 ;; esac
    edl_told="$edl_told$1 " # the file may be one that cannot be written
    echo "15 leaving" 2>/dev/null >>"$edl_run/told/$1" || true
}

# Not in the background, where a shell has SIGINT and SIGQUIT ignored by all that it starts: the first
# setsid leads a process group, so that the second one has to fork, and comes back.
start_command() {
    exec 3>&1
    edl_command=$(setsid setsid sh -c 'echo $$; exec "$@" >&3 3>&-' sh "$@" </dev/null)
    exec 3>&-
}

# On SIGTERM, or what the image wants in its place. Sessions may end by themselves until 10 s before the end of the grace period; then the
# template's own command has what is left.
leave() {
    trap '' $edl_ending
    true >"$edl_run/leaving" # `:` would end this shell where that cannot be made
    left=$((edl_grace - 1))
    while [ "$left" -gt 2 ] && has_sessions; do
        [ "$left" -gt 9 ] || signal_sessions TERM
        sleep 1
        left=$((left - 1))
    done
    signal_sessions KILL
    [ -z "$edl_command" ] || kill -TERM "-$edl_command" 2>/dev/null
    while [ "$left" -gt 0 ] && [ -n "$edl_command" ] && kill -0 "-$edl_command" 2>/dev/null; do
        sleep 1
        left=$((left - 1))
    done
    kill "$edl_daemon" 2>/dev/null
    exit 0
}

edl_sshd=$(command -v sshd || echo /usr/sbin/sshd) # it starts itself anew, by its whole path
echo edl 2>/dev/null >/proc/self/comm # a session that ends all that is called sh means its own
[ -x "$edl_sshd" ] || fail "launcherAttachMode ssh: no sshd in the worker's image"
command -v setsid >/dev/null || fail "launcherAttachMode ssh: no setsid in the worker's image"
prepare || fail "cannot write in $edl_run"
place_ranks || echo "edl: broken rings are left to Horovod" >&2
[ -e "$edl_refusal" ] || refuse_mpirun || echo "edl: mpirun cannot be used" >&2
mkdir -p /run/sshd 2>/dev/null # Debian's sshd wants it; only root can make it
trap leave $edl_ending
# From OpenSSH 9.8 on sshd refuses who has often connected in vain, as a launcher has whose ssh were killed.
edl_penalties='PerSourcePenalties no'
"$edl_sshd" -t -f /dev/null -h "$edl_run/host_key" -o "$edl_penalties" >/dev/null 2>&1 || edl_penalties=
"$edl_sshd" -D -e -f /dev/null -p "$edl_port" -h "$edl_run/host_key" \
    -o "AuthorizedKeysFile $edl_folder/keys/authorized_keys" -o "StrictModes no" \
    -o "PasswordAuthentication no" -o "KbdInteractiveAuthentication no" -o "UsePAM no" \
    -o "PermitRootLogin prohibit-password" -o "PermitUserRC no" -o "DisableForwarding yes" \
    -o "PidFile none" -o "MaxStartups 1000" -o "LogLevel ERROR" -o "UseDNS no" \
    -o "ClientAliveInterval 15" -o "ClientAliveCountMax 8" ${edl_penalties:+-o "$edl_penalties"} \
    -o "ForceCommand exec sh $edl_folder/src/launcher..ssh..session.sh" &
edl_daemon=$!
[ $# -eq 0 ] || start_command "$@"
wait "$edl_daemon"
fail "sshd has ended with $?"
