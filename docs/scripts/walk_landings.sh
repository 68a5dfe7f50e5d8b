#!/bin/sh
# Check each landing of a merge queue with stock git, sha256sum and python3, without Gatewright.
#
#   walk_landings.sh REPOSITORY BRANCH BUNDLES
#
# BUNDLES is a folder with one bundle for each run, named by its run id. For each commit on the first-parent history of
# BRANCH, newest first, one line:
#
#   ok    COMMIT RUN  push N of its queue
#   none  COMMIT      no trailer Gatewright-Run: not landed by Gatewright
#   FAIL  COMMIT RUN  what is wrong
#
# A commit with the trailer is ok if:
#   1. manifest.json of its bundle lists queue/receipt.json with its sha256.
#   2. The receipt names this commit for this run, and contains the commit as git has it, with its tree and parent.
#   3. The parent is the commit before it in the receipt, and the tree is the one of its position where it is the last of it.
#   4. The receipt's last position has the landed tree, and the sha256 that it names is that of a passed report on that tree.
#   5. The branch contains the last commit of the push.
#
# A report has passed if its required commands have exit code 0. The script checks no signatures, and does not derive the trees
# from the changes of the runs: `gatewright verify` does.
#
# Exit codes: 0 all are ok, 1 at the first failure, 2 wrong use.
set -u
LC_ALL=C
GIT_NO_REPLACE_OBJECTS=1
GIT_GRAFT_FILE=/dev/null/none
export LC_ALL GIT_NO_REPLACE_OBJECTS GIT_GRAFT_FILE

stop() {
    printf '%s\n' "$1" >&2
    exit 2
}

[ $# -eq 3 ] || stop "usage: $0 REPOSITORY BRANCH BUNDLES"
repository=$1 branch=$2 bundles=$3
for program in git sha256sum python3; do
    command -v "$program" >/dev/null || stop "$program is not installed"
done
[ -d "$bundles" ] || stop "$bundles is no folder of bundles"
tip=$(git -C "$repository" rev-parse --verify --quiet --end-of-options "$branch^{commit}") ||
    stop "$repository has no branch $branch"

# Checks 1 to 4, but for the digest of the report. Reads the commit from standard input. Prints the number of the push, the last
# commit of the push, and the sha256 that the report must have.
check='
import base64, json, sys

manifest, receipt, digest, run, commit, tree, parents = sys.argv[1:]

def need(condition, words):
    if not condition:
        sys.exit(words)

try:
    listed = json.load(open(manifest, encoding="utf-8"))["integrity"]["files"]
    document = json.load(open(receipt, encoding="utf-8"))
    found = [each["sha256"] for each in listed if each["path"] == "queue/receipt.json"]
    need(found == [digest], "the manifest does not list this receipt")
    chain, previous = {}, document["before"]["commit"]
    for position in document["positions"]:
        need(len(position["runs"]) == len(position["commits"]), "a run of the receipt has no commit")
        for name, each in zip(position["runs"], position["commits"]):
            last = each == position["commits"][-1]
            chain[name] = (each, previous, position["tree"] if last else tree)
            previous = each
    need(chain.get(run, ("",))[0] == commit, "the receipt does not name this commit for the run")
    need(chain[run][1] == parents, "its parent is not the commit before it in the receipt")
    need(chain[run][2] == tree, "its tree is not the one in the receipt")
    raw = sys.stdin.buffer.read()
    kept = [base64.b64decode(each["data"]) for each in document["objects"] if each["kind"] == "commit"]
    need(raw in kept, "the receipt contains another commit")
    last, after = document["positions"][-1], document["after"]
    need(after == {"commit": previous, "tree": last["tree"]}, "the last position is not what landed")
    need(last["outcome"] == "passed", "the last position did not pass")
    print(document["landing"], after["commit"], last["report_sha256"])
except (OSError, ValueError, LookupError, TypeError) as error:
    sys.exit(f"the bundle cannot be read: {error}")
'
# Prints the bytes of the passed report on the landed tree, exactly as the receipt contains them.
report='
import json, sys

text = open(sys.argv[1], encoding="utf-8").read()
whole, decoder = json.loads(text), json.JSONDecoder()

def passed(report):
    if not report["parts"] or report["outcome"] != "passed" or report["failed"]:
        return False
    if any(report[name] != whole[name] for name in ("repository", "branch", "policy_sha256")):
        return False
    return report["tree"] == whole["after"]["tree"] and all(passed_part(report["tree"], part) for part in report["parts"])

def passed_part(tree, part):
    final = {each["name"]: each for each in part["report"]["commands"]}
    required = [final[each["name"]] for each in part["commands"] if each.get("must_pass", True)]
    green = all(each["exit_code"] == 0 and not each.get("timed_out") for each in required)
    return part["report"]["tree"] == tree and required and green

at = text.index(",\"reports\":[") + len(",\"reports\":[")
while text[at] != "]":
    report, end = decoder.raw_decode(text, at)
    if passed(report):
        sys.stdout.buffer.write(text[at:end].encode())
        break
    at = end + (text[end] == ",")
'

fail() {
    printf 'FAIL  %s %s  %s\n' "$commit" "$run" "$1"
    exit 1
}

format='%H %T %P|%(trailers:key=Gatewright-Run,valueonly,separator=%x2C)'
history=$(git -C "$repository" log --first-parent --format="$format" "$tip") || stop "git cannot read $branch"
printf '%s\n' "$history" |
    while IFS='|' read -r ids run; do
        commit=${ids%% *} rest=${ids#* }
        tree=${rest%% *} parents=${rest#* }
        if [ -z "$run" ]; then
            printf 'none  %s\n' "$commit"
            continue
        fi
        case $run in
        run-*[!0-9a-z]*) fail "the trailer names no run" ;;
        run-?*) ;;
        *) fail "the trailer names no run" ;;
        esac
        bundle=$bundles/$run
        [ -f "$bundle/manifest.json" ] || fail "it has no bundle"
        [ -f "$bundle/queue/receipt.json" ] || fail "its bundle has no receipt of a merge queue"
        digest=$(sha256sum <"$bundle/queue/receipt.json")
        digest=${digest%% *}
        facts=$(git -C "$repository" cat-file commit "$commit" |
            python3 -c "$check" "$bundle/manifest.json" "$bundle/queue/receipt.json" "$digest" \
                "$run" "$commit" "$tree" "$parents" 2>&1) || fail "$facts"
        number=${facts%% *} rest=${facts#* }
        after=${rest%% *} named=${rest#* }
        found=$(python3 -c "$report" "$bundle/queue/receipt.json" 2>/dev/null | sha256sum)
        [ "${found%% *}" = "$named" ] || fail "no passed report of the landed tree has the digest that the receipt names"
        git -C "$repository" merge-base --is-ancestor "$after" "$tip" || fail "the branch does not contain $after"
        printf 'ok    %s %s  push %s of its queue\n' "$commit" "$run" "$number"
    done
