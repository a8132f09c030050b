#!/bin/sh
# The one program that sshd runs in a worker. What the launcher asks for is in SSH_ORIGINAL_COMMAND:
#
#     run EPOCH ID              and from the second line on a command, which sh runs in a process
#                               group of its own: its output, and the code of its first process.
#                               Ended by a signal it is over when its whole group is
#     signal EPOCH ID NUMBER    for the process group of a session; 255 also where it has not begun
#     end EPOCH ID              0 once this session runs no more and never will; 1 if it ended by
#                               itself with 255, which the launcher cannot tell from a cut
#     fence EPOCH               the same for all sessions; older launchers are refused from now on
#
# The launcher holds stdin open: its end is the end of the connection, and then the session ends too.
# 255 means refused. A session writes itself down first and looks then whether it may run; who ends
# it forbids it first and looks then whether it is written down: one of the two sees the other.
set -uf
edl=${0%/*/*}
run=$edl/run

refuse() {
    echo "edl: $*" >&2
    exit 255
}

write() { # text, file: in one step
    echo "$1" >"$run/new.$$" && mv "$run/new.$$" "$2"
}

waited=0
kill_group() { # 1: a minute is over, and some of it hangs in the kernel, or is dead and not waited for
    kill -KILL "-$1" 2>/dev/null
    while kill -0 "-$1" 2>/dev/null; do
        [ "$waited" -lt 600 ] || return 1
        sleep 0.1
        waited=$((waited + 1))
    done
}

end_group() {
    kill -TERM "-$1" || return 0
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        kill -0 "-$1" || return 0
        sleep 1
    done
    kill -KILL "-$1"
}

# What had the signal that ended its session is waited for; what had none gets TERM after a second.
end_rest() {
    waited=0
    while kill -0 "-$1" 2>/dev/null; do
        [ "$waited" -ne 10 ] || [ -e "$run/told/$id" ] || kill -TERM "-$1" 2>/dev/null
        [ "$waited" -lt 310 ] || kill -KILL "-$1" 2>/dev/null
        [ "$waited" -lt 360 ] || return 0 # it hangs in the kernel, or is dead and not waited for
        sleep 0.1
        waited=$((waited + 1))
    done
}

signal_session() {
    [ -e "$run/sessions/$id" ] || exit 255 # it has not begun: the launcher asks again
    # The launcher and PID 1 of a worker that leaves send TERM at the same moment, and one is enough.
    case "$1 $(cat "$run/told/$id" 2>/dev/null)" in "15 "*leaving*) return ;; esac
    case $1 in 1 | 2 | 3 | 9 | 15) echo "$1" 2>/dev/null >>"$run/told/$id" ;; esac
    kill "-$1" "-$(cat "$run/sessions/$id")"
}

# Who runs on in the background can be signalled and ended until the last one of the group is gone.
forget() {
    while kill -0 "-$1" 2>/dev/null; do sleep 1; done
    rm -f "$run/sessions/$id" "$run/told/$id"
}

may_run() {
    [ ! -e "$run/over/$id" ] && [ ! -e "$run/leaving" ] && [ "$(cat "$run/epoch")" = "$epoch" ]
}

run_session() {
    ulimit -c 0
    echo 0 >/proc/self/coredump_filter # a removed Horovod worker always aborts
    exec 3<&0 4>&2
    {
        cat <&3
        forbid
        [ ! -e "$run/sessions/$id" ] || end_group "$(cat "$run/sessions/$id")"
    } >/dev/null 2>&1 4>&- &
    watcher=$!
    exec 3<&- 2>/dev/null # or the shell tells of every signal
    # Not in the background, where a shell has SIGINT and SIGQUIT ignored by all that it starts. Its
    # stderr is 4, and nothing is said of it here: a shell tells of a signal where this line sends stderr.
    # The shell itself would say so where nobody reads it.
    trap '[ -e "$run/sessions/$id" ] || echo "edl: no process can be started" >&4' EXIT
    EDL_SESSION=$id setsid sh "$0" start "$epoch" "$id" "$body" </dev/null
    code=$?
    trap 'exit "$code"' EXIT # a shell that can start no process any more would end with its own
    exec 4>&-
    pid=$(cat "$run/sessions/$id") || exit "$code" # it has not begun
    if [ "$code" -ge 128 ] || [ -e "$run/told/$id" ]; then end_rest "$pid"; fi
    kill "$watcher" 2>/dev/null
    [ "$code" -ne 255 ] || write 255 "$run/over/$id"
    if kill -0 "-$pid" 2>/dev/null; then
        {
            exec </dev/null >/dev/null 2>&1 # a function's own redirection keeps what it replaces
            forget "$pid"
        } &
    else
        forget "$pid"
    fi
    exit "$code"
}

# The session's own process: what it becomes has the environment and the folder of the container.
start_session() {
    write "$$" "$run/sessions/$id" || refuse "cannot write in $run"
    may_run || {
        rm -f "$run/sessions/$id" # it has not begun, and its refusal is no end of its command
        refuse "the worker takes no process any more"
    }
    cd "$(cat "$run/folder")" || exit 255
    # One that cannot be set, as UID where sh is bash, costs itself alone: `command` keeps what fails
    # in the file from ending this shell.
    [ -r "$run/environment" ] || refuse "cannot read $run/environment" # `.` ends a shell in silence
    alias export='command export'
    . "$run/environment" 2>/dev/null
    exec sh -c "$4"
}

forbid() {
    [ -e "$run/over/$id" ] || true >"$run/over/$id" # `:` would end this shell where that cannot be made
}

end_session() {
    forbid
    forbidden=$?
    [ ! -e "$run/sessions/$id" ] || kill_group "$(cat "$run/sessions/$id")"
    [ "$forbidden" -eq 0 ] || refuse "cannot write in $run" # the launcher asks again
    [ ! -s "$run/over/$id" ]
}

# Who runs may be what fills the disk. Where the epoch is not written nothing is fenced off.
fence() {
    write "$epoch" "$run/epoch" || {
        kill_sessions
        write "$epoch" "$run/epoch" || refuse "cannot write in $run"
    }
    kill_sessions
}

kill_sessions() {
    set +f
    for file in "$run"/sessions/*; do
        [ ! -e "$file" ] || kill -KILL "-$(cat "$file")" 2>/dev/null
    done
    for file in "$run"/sessions/*; do
        [ ! -e "$file" ] || kill_group "$(cat "$file")" || rm -f "$file"
    done
}

if [ "${1-}" = start ]; then
    epoch=$2 id=$3
    exec 2>&4 4>&- # see run_session
    start_session "$@"
fi
[ -n "${SSH_ORIGINAL_COMMAND-}" ] || refuse "only the launcher of this job starts processes here"
newline='
'
head=${SSH_ORIGINAL_COMMAND%%"$newline"*}
body=${SSH_ORIGINAL_COMMAND#*"$newline"}
unset SSH_ORIGINAL_COMMAND
# shellcheck disable=SC2086 (words)
set -- $head
verb=$1 epoch=${2-} id=${3-}
case $epoch in '' | *[!0-9]*) refuse "no epoch" ;; esac
case $id in *[!0-9a-f]*) refuse "no session" ;; esac
[ "$epoch" -ge "$(cat "$run/epoch")" ] || refuse "launcher $epoch has been replaced"
case $verb in
    run) run_session ;;
    signal) signal_session "$4" ;;
    end) end_session ;;
    fence) fence ;;
    *) refuse "no verb $verb" ;;
esac
