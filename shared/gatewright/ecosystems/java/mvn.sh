#!/bin/sh
# Stands in the place of mvn: starts the real one, and emits the tests of its reports.
folder=${0%/*}
folder=${folder%/*}
. "$folder/order.sh"
PATH=${PATH#"$folder/bin:"}
export PATH

work=$(mktemp -d) || exit 98
quiet=
for word in "$@"; do
    case $word in -q | --quiet) quiet=1 ;; --version | -v | --help | -h) exec mvn "$@" ;; esac
done

emit() {
    printf '{"token":"%s","kind":%s}\n' "$token" "$1" >>"$pipe"
}

emit '"begin","framework":"surefire"'
if [ "$purpose" = control ]; then
    # Only the planted class is run, alone.
    class=$(sed -n 's/.*::\([^.]*\)\..*/\1/p' "$folder/only" | sort -u | paste -s -d , -)
    set -- "$@" "-Dtest=$class" -DfailIfNoTests=false -Dsurefire.failIfNoSpecifiedTests=false -DfailIfNoSpecifiedTests=false
fi
touch "$work/before"
mvn "$@" >"$work/out"
status=$?
cat "$work/out"

# Its own summaries, one for each module: the totals of the reports must agree.
sed 's/\x1b\[[0-9;]*m//g' "$work/out" | awk '
    /Tests run: [0-9]+, Failures: [0-9]+, Errors: [0-9]+, Skipped: [0-9]+ *$/ {
        sub(/.*Tests run: /, "")
        split($0, number, /[^0-9]+/)
        run += number[1]; bad += number[2] + number[3]; skipped += number[4]
    }
    END { printf "%d %d %d\n", run, bad, skipped }
' >"$work/summary"

find . -type f \( -path '*/target/surefire-reports/TEST-*.xml' -o -path '*/target/failsafe-reports/TEST-*.xml' \) -newer "$work/before" \
    | sort >"$work/reports"
while IFS= read -r report; do
    module=${report%/target/*}
    # What tests wrote stands in sections of its own, which are no markup; each element gets a line.
    awk 'BEGIN { RS = "<!\\[CDATA\\[" } { at = index($0, "]]>"); print (NR == 1 ? $0 : (at ? substr($0, at + 3) : "")) }' "$report" \
        | tr '\n' ' ' | sed 's/</\n</g' | sed "s|^<testcase |&module=\"$module\" |"
done <"$work/reports" >"$work/cases"

: >"$work/files"
sed -n 's/^<testcase module="\([^"]*\)".* classname="\([^"$(]*\).*/\1 \2/p' "$work/cases" | sort -u | while read -r module class; do
    path=$(printf %s "$class" | tr . /)
    for each in src/test/java/"$path".java src/test/kotlin/"$path".kt src/test/groovy/"$path".groovy src/test/scala/"$path".scala; do
        [ ! -f "$module/$each" ] || printf '%s %s\t%s\n' "$module" "$class" "${module#.}/$each" | sed 's|\t/|\t|' >>"$work/files"
    done
done

awk -v token="$token" -v files="$work/files" -v summary="$work/summary" -v quiet="$quiet" -v status="$status" '
    function emit_record(text) { printf "{\"token\":\"%s\",\"kind\":%s}\n", token, text }
    function attribute(line, name) {
        if (!match(line, " " name "=\"[^\"]*\"")) return ""
        line = substr(line, RSTART + length(name) + 3, RLENGTH - length(name) - 4)
        gsub(/&lt;/, "<", line); gsub(/&gt;/, ">", line); gsub(/&quot;/, "\"", line); gsub(/&apos;/, "\x27", line)
        gsub(/&#[0-9]+;/, "?", line); gsub(/&amp;/, "\\&", line)
        return line
    }
    function close_case() {
        if (id == "") return
        total++
        if (what == "failed") bad++
        if (what == "skipped") skipped++
        number = ++seen[id]
        if (number > 1) id = id " ... #" number
        gsub(/[\\"]/, "\\\\&", id)
        gsub(/[[:cntrl:]]/, "?", id)
        id = substr(id, 1, 1500)
        emit_record("\"collected\",\"id\":\"" id "\"")
        emit_record("\"test\",\"id\":\"" id "\",\"outcome\":\"" what "\"")
        id = ""
    }
    BEGIN { while ((getline line < files) > 0) { split(line, part, "\t"); file[part[1]] = part[2] } }
    /^<testcase / {
        close_case()
        class = attribute($0, "classname")
        sub(/\(.*/, "", class)
        own = class
        sub(/\$.*/, "", own)
        key = attribute($0, "module") " " own
        short = class
        sub(/^.*\./, "", short)
        module = attribute($0, "module")
        sub(/^\.\/?/, "", module)
        id = ((key in file) ? file[key] : (module == "" ? "" : module "/") "pom.xml") "::" short "." attribute($0, "name")
        what = "passed"
    }
    /^<(failure|error|rerunFailure|rerunError)[ \/>]/ { what = "failed" }
    /^<skipped[ \/>]/ { what = "skipped" }
    /^<\/testcase/ { close_case() }
    END {
        close_case()
        getline line < summary
        if (quiet || line == total + 0 " " bad + 0 " " skipped + 0) emit_record("\"end\",\"status\":" (bad ? 1 : 0))
    }
' "$work/cases" >>"$pipe"
rm -rf "$work"
exit "$status"
