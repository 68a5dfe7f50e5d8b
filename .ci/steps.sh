# Functions that run the steps of CI; .ci/run sources them. A failed step does not stop later steps. Each step reports its
# duration, and is killed with its child processes after its time limit. `failed` lists the failed steps.
failed=()
declare -A begun=()
logs=$(mktemp -d)
unpacked=
running=

clean_up() { # Kill running steps and remove temporary files, also after a signal.
    [ -z "$running" ] || kill "$running"
    [ ${#begun[@]} -eq 0 ] || kill "${begun[@]}"
    rm -rf "$logs" ${unpacked:+"$unpacked"}
} 2>/dev/null
trap clean_up EXIT
trap 'exit 130' INT TERM

report() { # report NAME EXIT_CODE SECONDS
    case $2 in
        0) echo "=== $1: done in $3 s" && return ;;
        124 | 137) echo "=== $1: FAILED: exceeded its time limit after $3 s" ;;
        *) echo "=== $1: FAILED after $3 s" ;;
    esac
    failed+=("$1")
}

verdict() { # verdict LINES: print the last LINES of output of each failed step; succeed if none failed
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
    timeout 5 tail --pid="$copying" -f /dev/null # limited, because an orphaned process may keep the output open
    report "$name" "$code" $((SECONDS - started))
}

begin() { # begin NAME BOUND COMMAND...: run in parallel with the next steps; `finish` prints the output
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

finish() { # finish NAME: wait for the step that `begin` started, and return its exit code
    local code seconds
    wait "${begun[$1]}"
    unset "begun[$1]"
    echo "=== $1"
    cat "$logs/$1"
    read -r code seconds <"$logs/$1.end"
    report "$1" "$code" "$seconds"
    return "$code"
}
