#!/bin/sh
# Stands in the place of meson: for `meson test` it lists the tests, starts the real one, and reports each outcome.
folder=${0%/*}
folder=${folder%/*}
. "$folder/order.sh"
PATH=${PATH#"$folder/bin:"}
export PATH

[ "$1" = test ] || exec meson "$@"
build=.
before=
for word in "$@"; do
    case $word in --list | --help | -h | --version) exec meson "$@" ;; -C?*) build=${word#-C} ;; esac
    [ "$before" != -C ] || build=$word
    before=$word
done
work=$(mktemp -d) || exit 98
log=log-$seed

emit() {
    printf '{"token":"%s","kind":%s}\n' "$token" "$1" >>"$pipe"
}

emit '"begin","framework":"meson test","version":"'"$(meson --version)"'"'
# It builds before it lists. If the listing fails, the run fails too and reports it.
meson "$@" --list >"$work/built" 2>&1
meson "$@" --no-rebuild --list 2>/dev/null >"$work/names"
# Called by its own name, whatever suites it is in; its file is not reported, so that of the project stands for it.
awk '{ name = $0; sub(/^.* \/ /, "", name); print "meson.build::" name "\t" name "\t" $0 }' "$work/names" >"$work/list"
awk -F '\t' 'FNR == NR { wanted[$0]; next } ($1 in wanted) { print $2 }' "$folder/only" "$work/list" | sort -u >"$work/chosen"

status=0
if [ "$purpose" = all ]; then
    meson "$@" --logbase "$log"
    status=$?
elif [ -s "$work/chosen" ]; then
    set -- "$@" --logbase "$log"
    while IFS= read -r each; do set -- "$@" "$each"; done <"$work/chosen"
    meson "$@"
    status=$?
fi
# Without a log no test was begun: what is to be tested could not be built.
begun=1
cat "$build/meson-logs/$log.json" >"$work/report" 2>/dev/null || begun=
rm -f "$build/meson-logs/$log".*

# One object a line; a quote inside what a test wrote has a backslash before it. A test that is listed, was to be run and has no
# outcome did not come to its end.
awk -F '\t' -v token="$token" -v purpose="$purpose" -v begun="$begun" -v list="$work/list" -v only="$folder/only" '
    function emit_record(kind, id, more) {
        gsub(/[\\"]/, "\\\\&", id)
        gsub(/[[:cntrl:]]/, "?", id)
        printf "{\"token\":\"%s\",\"kind\":\"%s\",\"id\":\"%s\"%s}\n", token, kind, substr(id, 1, 1500), more
    }
    BEGIN {
        means["OK"] = "passed"; means["SKIP"] = "skipped"; means["EXPECTEDFAIL"] = "skipped"
        while ((getline line < only) > 0) wanted[line]
        while ((getline line < list) > 0) { split(line, part, "\t"); id[++count] = part[1]; called[count] = part[3] }
    }
    match($0, /^\{"name": "/) {
        rest = substr($0, RLENGTH + 1)
        name = ""
        while (match(rest, /^([^"\\]|\\.)/)) { name = name substr(rest, 1, RLENGTH); rest = substr(rest, RLENGTH + 1) }
        gsub(/\\"/, "\"", name); gsub(/\\\\/, "\\", name)
        if (!match(rest, /", "result": "[A-Z ]+", "starttime"/)) next
        result = substr(rest, RSTART + 14)
        sub(/".*/, "", result)
        outcome[name] = result in means ? means[result] : "failed"
    }
    END {
        for (at = 1; at <= count; at++) {
            if (!begun || (purpose != "all" && !(id[at] in wanted))) { emit_record("collected", id[at], ""); continue }
            what = called[at] in outcome ? outcome[called[at]] : "failed"
            if (!(id[at] in worst) || what == "failed") worst[id[at]] = what
        }
        for (each in worst) { emit_record("collected", each, ""); emit_record("test", each, ",\"outcome\":\"" worst[each] "\"") }
    }
' "$work/report" >>"$pipe"
emit '"end","status":'"$status"
rm -rf "$work"
exit "$status"
