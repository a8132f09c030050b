#!/bin/sh
# The one program that sshd runs in a worker. What the launcher asks for is in SSH_ORIGINAL_COMMAND:
#
#     run EPOCH ID              and from the second line on a command, which sh runs in a process
#                               group of its own: its output, and the code of its first process
#     signal EPOCH ID NUMBER    for the process group of a session
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

kill_group() {
    kill -KILL "-$1" 2>/dev/null
    while kill -0 "-$1" 2>/dev/null; do sleep 0.1; done
}

end_group() {
    kill -TERM "-$1" || kill -TERM "$1" # which has not become a group yet
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        kill -0 "-$1" || return 0
        sleep 1
    done
    kill -KILL "-$1"
}

may_run() {
    [ ! -e "$run/over/$id" ] && [ ! -e "$run/leaving" ] && [ "$(cat "$run/epoch")" = "$epoch" ]
}

run_session() {
    ulimit -c 0
    echo 0 >/proc/self/coredump_filter # a removed Horovod worker always aborts
    exec 3<&0
    EDL_SESSION=$id setsid sh "$0" start "$epoch" "$id" "$body" </dev/null 3<&- &
    pid=$!
    {
        cat <&3
        end_group "$pid"
    } >/dev/null 2>&1 &
    watcher=$!
    exec 3<&-
    wait "$pid" 2>/dev/null # or bash tells of every signal
    code=$?
    kill "$watcher" 2>/dev/null
    [ "$code" -ne 255 ] || write 255 "$run/over/$id"
    rm -f "$run/sessions/$id"
    exit "$code"
}

# The session's own process: what it becomes has the environment and the folder of the container.
start_session() {
    write "$$" "$run/sessions/$id"
    may_run || refuse "the worker takes no process any more"
    cd "$(cat "$run/folder")" || exit 255
    . "$run/environment"
    exec sh -c "$4"
}

end_session() {
    [ -e "$run/over/$id" ] || : >"$run/over/$id"
    [ ! -e "$run/sessions/$id" ] || kill_group "$(cat "$run/sessions/$id")"
    [ ! -s "$run/over/$id" ]
}

fence() {
    write "$epoch" "$run/epoch"
    set +f
    for file in "$run"/sessions/*; do
        [ ! -e "$file" ] || kill_group "$(cat "$file")"
    done
}

if [ "${1-}" = start ]; then
    epoch=$2 id=$3
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
    signal) kill "-$4" "-$(cat "$run/sessions/$id")" ;;
    end) end_session ;;
    fence) fence ;;
    *) refuse "no verb $verb" ;;
esac
