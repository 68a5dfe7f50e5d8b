"""The contract's own ``forbidden_actions``: a contract may forbid more than the policy, never less.

An action is a run of words that no command may contain (``git push``), or ``edit PATH``: no change may touch that path. Words
that name nothing of either kind forbid nothing, and the report lists the actions so that a reader sees it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from gatewright.contracts import TaskContract
from gatewright.errors import CommandRefusedError
from gatewright.git.changes import Change
from gatewright.git.paths import display
from gatewright.sandbox.argv import parse_command
from services.gatekeeper.gates.judgement import Judgement

CODE = "action_forbidden"
RULE = "contract.forbidden_actions"
EDIT = "edit"
#: More than this is no list that anybody wrote, and each is looked for in each command.
MOST_ACTIONS = 64


def judge_forbidden_commands(contract: TaskContract, found: Judgement) -> None:
    """No acceptance or executor command contains what the contract forbids. What is no plain argv is refused elsewhere."""
    found.checked(RULE, ", ".join(contract.forbidden_actions))
    if len(contract.forbidden_actions) > MOST_ACTIONS:
        words = f"{len(contract.forbidden_actions)} forbidden actions; no more than {MOST_ACTIONS} can be watched"
        found.violate(CODE, RULE, words)
        return
    actions = [(action, words_of(action)) for action in contract.forbidden_actions]
    commands = [test.cmd for test in contract.acceptance_tests]
    commands.extend(contract.executor.commands if contract.executor is not None else ())
    for command in commands:
        try:
            argv = parse_command(command)
        except CommandRefusedError:
            continue
        for action, forbidden in actions:
            if contains(argv, forbidden):
                found.violate(CODE, RULE, f"{command!r} contains {action!r}, which the contract forbids")


def judge_forbidden_edits(changes: Iterable[Change], contract: TaskContract, found: Judgement) -> None:
    """No change touches a path that the contract forbids to edit: a name, anywhere, or a whole path."""
    all_words = map(words_of, contract.forbidden_actions)
    edits = [words[1] for words in all_words if len(words) == 2 and words[0] == EDIT]
    wanted = {path.strip("/").lower().encode("utf-8", "surrogatepass") for path in edits}
    if not wanted:
        return
    found.checked(f"{RULE}.edit", ", ".join(sorted(display(path) for path in wanted)))
    for change in changes:
        parts = change.path.lower().split(b"/")
        above = {b"/".join(parts[:depth]) for depth in range(1, len(parts) + 1)}
        for path in sorted(wanted & (above | set(parts))):
            found.violate(CODE, f"{RULE}.edit", f"the contract forbids to edit {display(path)!r}", change.path)


def words_of(action: str) -> tuple[str, ...]:
    """The words of an action; one that is not quoted well is taken word by word."""
    try:
        return tuple(shlex.split(action))
    except ValueError:
        return tuple(action.split())


def contains(argv: Sequence[str], words: Sequence[str]) -> bool:
    """Whether ``argv`` holds ``words``: programs by their last part, short options in any order and grouping."""
    if not words:
        return False
    for start, word in enumerate(argv):
        if word.rpartition("/")[2] == words[0].rpartition("/")[2] and _follows(argv[start + 1 :], words[1:]):
            return True
    return False


def _follows(rest: Sequence[str], words: Sequence[str]) -> bool:
    """Whether what comes after the program has the forbidden options (anywhere) and begins with the forbidden words."""
    short = {letter for word in rest if _is_short(word) for letter in word[1:]}
    plain = [word for word in rest if not word.startswith("-")]
    wanted = [word for word in words if not word.startswith("-")]
    options = [word for word in words if word.startswith("-")]
    if plain[: len(wanted)] != wanted:
        return False
    return all(set(option[1:]) <= short if _is_short(option) else option in rest for option in options)


def _is_short(word: str) -> bool:
    return len(word) > 1 and word[0] == "-" and word[1] != "-"
