#!/bin/sh
# Stands in the place of ctest: lists its tests, starts the real one with a report, and reports each outcome.
folder=${0%/*}
folder=${folder%/*}
. "$folder/order.sh"
PATH=${PATH#"$folder/bin:"}
export PATH

# What only looks, or does something else, tests nothing.
for word in "$@"; do
    case $word in
        -N | --show-only* | --version | --help* | -S* | -D* | -M* | -T* | --build-and-test | --print-labels) exec ctest "$@" ;;
    esac
done
work=$(mktemp -d) || exit 98

emit() {
    printf '{"token":"%s","kind":%s}\n' "$token" "$1" >>"$pipe"
}

version=$(ctest --version | sed -n '1s/[^0-9]*\([0-9.]*\).*/\1/p')
emit '"begin","framework":"ctest","version":"'"$version"'"'

# Number, id and name of each test; an id begins with the file that declares it. The listing has one value a line.
ctest "$@" --show-only=json-v1 2>/dev/null | awk -v top="$workspace/" '
    function value(line) { sub(/^[^:]*: /, "", line); sub(/,$/, "", line); return line }
    function text(line) {
        sub(/^"/, "", line); sub(/"$/, "", line)
        gsub(/\\\//, "/", line); gsub(/\\"/, "\"", line); gsub(/\\\\/, "\\", line)
        return line
    }
    /^    "files" : *$/ { files = 1; next }
    files && /^      "/ { line = $0; sub(/^ */, "", line); sub(/,$/, "", line); file[count++] = text(line); next }
    /^    "nodes" : *$/ { files = 0; nodes = 1; next }
    nodes && /^      \{/ { node++ }
    nodes && /^        "file" : / { of[node - 1] = value($0) }
    /^  "tests" : *$/ { nodes = 0; tests = 1; next }
    tests && /^    \{/ { number++; trace = ""; next }
    tests && /^      "backtrace" : / { trace = value($0); next }
    tests && /^      "name" : / {
        name = text(value($0))
        path = trace != "" && (trace in of) ? file[of[trace]] : ""
        if (index(path, top) == 1) path = substr(path, length(top) + 1)
        else path = "CMakeLists.txt"
        if (index(path, "\t") || index(name, "\t")) next
        printf "%d\t%s\t%s\n", number, path "::" name, name
    }
' >"$work/list"

awk -F '\t' 'FNR == NR { wanted[$0]; next } ($2 in wanted) { printf ",%d", $1 }' "$folder/only" "$work/list" >"$work/numbers"
status=0
if [ "$purpose" = all ]; then
    ctest "$@" --output-junit "$work/report.xml"
    status=$?
elif [ -s "$work/numbers" ]; then
    ctest "$@" --output-junit "$work/report.xml" -I ",0,$(cat "$work/numbers")"
    status=$?
fi
touch "$work/report.xml"

# A test that is listed, was to be run and has no outcome did not come to its end.
awk -F '\t' -v token="$token" -v purpose="$purpose" -v list="$work/list" -v only="$folder/only" '
    function emit_record(kind, id, more) {
        gsub(/[\\"]/, "\\\\&", id)
        gsub(/[[:cntrl:]]/, "?", id)
        printf "{\"token\":\"%s\",\"kind\":\"%s\",\"id\":\"%s\"%s}\n", token, kind, substr(id, 1, 1500), more
    }
    function attribute(line, name) {
        if (!match(line, " " name "=\"[^\"]*\"")) return ""
        line = substr(line, RSTART + length(name) + 3, RLENGTH - length(name) - 4)
        gsub(/&lt;/, "<", line); gsub(/&gt;/, ">", line); gsub(/&quot;/, "\"", line); gsub(/&apos;/, "\x27", line)
        gsub(/&amp;/, "\\&", line)
        return line
    }
    function close_case() {
        if (name == "") return
        # Tests of one name, in several folders, come in their order.
        outcome[name, ++seen[name]] = what
        name = ""
    }
    BEGIN {
        while ((getline line < only) > 0) wanted[line]
        while ((getline line < list) > 0) { split(line, part, "\t"); id[++count] = part[2]; called[count] = part[3] }
    }
    /^\t<testcase / {
        close_case()
        name = attribute($0, "name")
        state = attribute($0, "status")
        what = state == "run" ? "passed" : state == "disabled" ? "skipped" : "failed"
        next
    }
    /^\t\t<skipped message="SKIP_/ { what = "skipped" }
    /^\t\t<failure/ { what = "failed" }
    END {
        close_case()
        for (at = 1; at <= count; at++) {
            emit_record("collected", id[at], "")
            if (purpose != "all" && !(id[at] in wanted)) continue
            key = called[at] SUBSEP (++used[called[at]])
            emit_record("test", id[at], ",\"outcome\":\"" ((key in outcome) ? outcome[key] : "failed") "\"")
        }
    }
' "$work/report.xml" >>"$pipe"
emit '"end","status":'"$status"
rm -rf "$work"
exit "$status"
