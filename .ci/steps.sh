# The steps of CI, for .ci/run to source. Each is run whatever became of those before it, is told with the time that it took, and
# is ended, with all that it started, when it takes longer than its bound. Those that failed are in `failed`.
failed=()
declare -A begun=()
logs=$(mktemp -d)
unpacked=
running=

ended() { # Nothing is left behind, however this ends.
    [ -z "$running" ] || kill "$running"
    [ ${#begun[@]} -eq 0 ] || kill "${begun[@]}"
    rm -rf "$logs" ${unpacked:+"$unpacked"}
} 2>/dev/null
trap ended EXIT
trap 'exit 130' INT TERM

told() { # told NAME EXIT_CODE SECONDS
    case $2 in
        0) echo "=== $1: done in $3 s" && return ;;
        124 | 137) echo "=== $1: FAILED: ended after $3 s, which is longer than it may take" ;;
        *) echo "=== $1: FAILED after $3 s" ;;
    esac
    failed+=("$1")
}

verdict() { # verdict LINES: what failed, with the last LINES of what it wrote, and whether nothing did
    local name
    for name in "${failed[@]}"; do
        echo "--- $name, its last lines:"
        tail -n "$1" "$logs/$name"
    done
    for name in "${failed[@]}"; do
        echo "FAILED: $name"
    done
    [ ${#failed[@]} -eq 0 ]
}

step() { # step NAME BOUND COMMAND...
    local name=$1 bound=$2 started=$SECONDS code=0 output copying
    shift 2
    echo "=== $name"
    exec {output}> >(tee "$logs/$name")
    copying=$!
    timeout --kill-after=30 "$bound" "$@" >&"$output" 2>&1 {output}>&- &
    running=$!
    wait "$running" || code=$?
    running=
    exec {output}>&-
    timeout 5 tail --pid="$copying" -f /dev/null # not for ever: a process that was left behind may hold the output open
    told "$name" "$code" $((SECONDS - started))
}

begin() { # begin NAME BOUND COMMAND...: beside the steps that follow; what it writes is shown where it is finished
    local name=$1 bound=$2
    shift 2
    echo "=== $name: begun"
    {
        trap - EXIT
        trap 'kill $!; exit 143' TERM
        started=$SECONDS code=0
        timeout --kill-after=30 "$bound" "$@" >"$logs/$name" 2>&1 &
        wait $! || code=$?
        echo "$code $((SECONDS - started))" >"$logs/$name.end"
    } &
    begun[$name]=$!
}

finish() { # finish NAME: wait for what was begun; its exit code
    local code seconds
    wait "${begun[$1]}"
    unset "begun[$1]"
    echo "=== $1"
    cat "$logs/$1"
    read -r code seconds <"$logs/$1.end"
    told "$1" "$code" "$seconds"
    return "$code"
}
