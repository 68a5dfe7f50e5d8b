# Cargo starts each test binary through this: it lists the binary's tests, runs them, and reports each outcome.
# A process of its own, so that code under test that ends its process early cannot end this one.
folder=${0%/*}
. "$folder/order.sh"

# Documentation tests are no binaries of libtest, and what `cargo run` starts is no test.
case $1 in */deps/*) ;; *) exec "$@" ;; esac
program=$1
shift
work=$(mktemp -d) || exit 98

name=${program##*/}
name=${name%-*}
# A library and a program of one package have the same name; cargo runs the library first, and nextest reports which it is.
case ${NEXTEST_BINARY_ID-} in
    '')
        names=${TMPDIR:-/tmp}/.runs-$seed
        echo "$PWD $name" >>"$names"
        count=$(grep -c -x -F "$PWD $name" "$names")
        ;;
    *::*) count=2 ;;
    *) count=1 ;;
esac

# The file that the binary is made of, which the ids of its tests begin with.
file_of_binary() {
    dashed=$(printf %s "$1" | tr _ -)
    for each in "tests/$1.rs" "tests/$dashed.rs" "tests/$1/main.rs" "tests/$dashed/main.rs" "src/bin/$1.rs" "src/bin/$dashed.rs" \
        "examples/$1.rs" "examples/$dashed.rs" "benches/$1.rs" "benches/$dashed.rs"; do
        if [ -f "$each" ]; then echo "$each"; return; fi
    done
    if [ -f src/lib.rs ] && [ "$count" -le 1 ]; then echo src/lib.rs; elif [ -f src/main.rs ]; then echo src/main.rs; else echo "src/$1"; fi
}
crate=$(pwd -P)/$(file_of_binary "$name")
crate=${crate#"$workspace"/}

emit() {
    printf '{"token":"%s","kind":%s}\n' "$token" "$1" >>"$pipe"
}

# cargo nextest asks each binary for its tests, and then for those that are ignored; each test has a process of its own.
case ${NEXTEST_TEST_PHASE-} in list | run) . "$folder/nextest.sh" ;; esac

emit '"begin","framework":"libtest"'
"$program" "$@" --list >"$work/list" 2>/dev/null </dev/null
sed -n 's/: test$//p' "$work/list" >"$work/names"
awk -v crate="$crate::" '
    FNR == NR { wanted[$0]; next }
    (crate $0) in wanted
' "$folder/only" "$work/names" >"$work/chosen"

status=0
if [ "$purpose" = all ] || { [ "$purpose" = control ] && ! [ -s "$folder/only" ]; }; then
    cp "$work/names" "$work/chosen"
    "$program" "$@" --logfile "$work/log"
    status=$?
elif [ -s "$work/chosen" ]; then
    set -- "$@" --logfile "$work/log" --exact
    while IFS= read -r each; do set -- "$@" "$each"; done <"$work/chosen"
    "$program" "$@"
    status=$?
fi
touch "$work/log"

# A test that is listed, was to be run and has no outcome: its process went away before it.
awk -v token="$token" -v crate="$crate::" -v names="$work/names" -v chosen="$work/chosen" '
    function emit_record(kind, name, more) {
        gsub(/[\\"]/, "\\\\&", name)
        gsub(/[[:cntrl:]]/, "?", name)
        printf "{\"token\":\"%s\",\"kind\":\"%s\",\"id\":\"%s%s\"%s}\n", token, kind, crate, substr(name, 1, 1500), more
    }
    function outcome(name, what) { emit_record("test", name, ",\"outcome\":\"" what "\"") }
    BEGIN {
        words["ok"] = "passed"; words["failed"] = "failed"; words["ignored"] = "skipped"
        while ((getline name < names) > 0) emit_record("collected", name, "")
    }
    # ``ignored: why NAME``
    /^ignored: / { outcome($NF, "skipped"); ended[$NF]; next }
    {
        at = index($0, " ")
        name = substr($0, at + 1)
        if (substr($0, 1, at - 1) in words) { outcome(name, words[substr($0, 1, at - 1)]); ended[name] }
    }
    END { while ((getline name < chosen) > 0) if (!(name in ended)) outcome(name, "failed") }
' "$work/log" >>"$pipe"
emit '"end","status":'"$status"
rm -rf "$work"
exit "$status"
