#!/bin/sh
# go test starts each test binary through this, in the folder of its package: it lists the binary's tests, runs them, and reports
# what became of each. A process of its own, so that code under test that ends its process early cannot end this one.
folder=${0%/*}/..
. "$folder/order.sh"

# What `go run` starts is no test.
case $1 in *.test) ;; *) exec "$@" ;; esac
program=$1
shift
work=$(mktemp -d) || exit 98
here=$(pwd -P)
here=${here#"$workspace"}
here=${here#/}
verbose= filtered=0
for word in "$@"; do
    case $word in
        -test.v | -test.v=*) verbose=1 ;;
        -test.run=* | -test.skip=* | -test.failfast*) filtered=1 ;;
    esac
done

emit() {
    printf '{"token":"%s","kind":%s}\n' "$token" "$1" >>"$pipe"
}

# Before 1.20, Go does not mark its own lines: tests can print the same lines there.
marking=test2json
"$program" -test.list '^$' -test.v=test2json >/dev/null 2>&1 </dev/null || marking=true

run() {
    "$program" "$@" -test.v="$marking" >"$work/out"
    status=$?
    # What go test prints of a package that passes is a summary.
    if [ "$verbose" ] || [ "$status" -ne 0 ]; then
        case " $* " in *" -test.v=test2json "*) cat "$work/out" ;; *) tr -d '\026' <"$work/out" ;; esac
    fi
}

emit '"begin","framework":"go test"'
"$program" -test.list . 2>/dev/null </dev/null | grep -E '^(Test|Example|Fuzz)' >"$work/names"
# Each name with its id, which begins with the file that it stands in.
grep -H -E '^func (Test|Example|Fuzz)' ./*_test.go 2>/dev/null | awk -v here="${here:+$here/}" -v names="$work/names" '
    { at = index($0, ":func "); name = substr($0, at + 6); sub(/[^A-Za-z0-9_].*/, "", name); file[name] = substr($0, 3, at - 3) }
    END { while ((getline name < names) > 0) print name, here (name in file ? file[name] : "_test.go") "::" name }
' >"$work/ids"
awk 'FNR == NR { wanted[$0]; next } ($2 in wanted) { print $1 }' "$folder/only" "$work/ids" >"$work/chosen"

status=0
: >"$work/out"
if [ "$purpose" = all ]; then
    chosen=$work/names
    run "$@"
else
    chosen=$work/chosen
    if [ -s "$chosen" ]; then run "$@" "-test.run=^($(paste -s -d '|' "$chosen"))\$"; fi
fi

# A test that is listed, was to be run and has no outcome: its process went away before it. Where the command chooses among the
# tests, those that it began count.
if [ "$marking" = true ]; then
    awk '/^(--- |=== RUN )/ { $0 = "\026" $0 } { print }' "$work/out" >"$work/marked"
else
    mv "$work/out" "$work/marked"
fi
awk -v token="$token" -v ids="$work/ids" -v chosen="$chosen" -v filtered="$filtered" '
    function emit_record(kind, name, more) {
        printf "{\"token\":\"%s\",\"kind\":\"%s\",\"id\":\"%s\"%s}\n", token, kind, substr(id[name], 1, 1500), more
    }
    function outcome(name, what) { emit_record("test", name, ",\"outcome\":\"" what "\"") }
    BEGIN {
        words["PASS:"] = "passed"; words["FAIL:"] = "failed"; words["SKIP:"] = "skipped"
        while ((getline line < ids) > 0) {
            name = line
            sub(/ .*/, "", name)
            sub(/^[^ ]* /, "", line)
            gsub(/[\\"]/, "\\\\&", line)
            id[name] = line
            if (!filtered) emit_record("collected", name, "")
        }
    }
    substr($0, 1, 5) == "\026--- " && ($2 in words) && ($3 in id) { outcome($3, words[$2]); ended[$3] }
    /^\026=== RUN / && ($3 in id) { begun[$3] }
    END {
        if (filtered) for (name in begun) emit_record("collected", name, "")
        while ((getline name < chosen) > 0) if (!(name in ended) && (name in begun || !filtered)) outcome(name, "failed")
    }
' "$work/marked" >>"$pipe"
emit '"end","status":'"$status"
rm -rf "$work"
exit "$status"
