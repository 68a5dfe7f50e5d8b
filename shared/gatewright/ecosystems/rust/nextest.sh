# The part of runner.sh for what cargo nextest starts: lists of tests, of which it is shown those that are to run, and single tests.
# It ends the runner.

# emit_records KIND MORE: one record for each name of the standard input.
emit_records() {
    awk -v token="$token" -v crate="$crate::" -v kind="$1" -v more="$2" '{
        name = $0
        gsub(/[\\"]/, "\\\\&", name)
        gsub(/[[:cntrl:]]/, "?", name)
        printf "{\"token\":\"%s\",\"kind\":\"%s\",\"id\":\"%s%s\"%s}\n", token, kind, crate, substr(name, 1, 1500), more
    }' >>"$pipe"
}

emit '"begin","framework":"nextest","version":"'"$(printf %s "${NEXTEST_VERSION-}" | tr -cd '0-9a-z.-')"'"'
status=0
if [ "$NEXTEST_TEST_PHASE" = list ]; then
    "$program" "$@" >"$work/list"
    status=$?
    # Benchmarks are listed beside the tests.
    sed -n 's/: test$//p' "$work/list" >"$work/names"
    if [ "$purpose" = all ] || { [ "$purpose" = control ] && ! [ -s "$folder/only" ]; }; then
        cp "$work/list" "$work/shown"
    else
        awk -v crate="$crate::" '
            FNR == NR { wanted[$0]; next }
            { name = $0; sub(/: test$/, "", name) }
            (crate name) in wanted
        ' "$folder/only" "$work/list" >"$work/shown"
    fi
    case " $* " in
        *" --ignored "*) sed -n 's/: test$//p' "$work/shown" | emit_records test ',"outcome":"skipped"' ;;
        *) emit_records collected '' <"$work/names" ;;
    esac
    cat "$work/shown"
else
    # The last word but --nocapture: the one test that this process is for.
    for each in "$@"; do
        case $each in --exact | --nocapture | --ignored | --include-ignored) ;; *) one=$each ;; esac
    done
    "$program" "$@" --logfile "$work/log"
    status=$?
    touch "$work/log"
    # libtest writes the outcome when the test is over; a process that went away before it has none.
    if grep -q -x -F "ok $one" "$work/log"; then outcome=passed; else outcome=failed; fi
    printf '%s\n' "$one" | emit_records test ',"outcome":"'"$outcome"'"'
fi
emit '"end","status":'"$status"
rm -rf "$work"
exit "$status"
