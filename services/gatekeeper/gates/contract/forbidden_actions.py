"""The contract's own ``forbidden_actions``: a contract may forbid more than the policy, never less.

An action is a sequence of words that no command may contain (``git push``), or ``edit PATH``: no change may touch that path.
Words of neither kind forbid nothing; the report lists all actions so that a reader notices.
"""

from __future__ import annotations

import shlex
from collections import deque
from collections.abc import Iterable, Sequence

from gatewright.contracts import TaskContract
from gatewright.errors import CommandRefusedError
from gatewright.git.changes import TreeChange
from gatewright.git.paths import display
from gatewright.sandbox.argv import parse_command
from gatewright.services.gatekeeper.gates.commands.gate import too_much
from gatewright.services.gatekeeper.gates.context import ChangeContext, GateContext
from gatewright.worker_role import ways

CODE = "action_forbidden"
RULE = "contract.forbidden_actions"
EDIT = "edit"
#: No real list has more actions, and each is searched for in each command.
MOST_ACTIONS = 64
LONGEST_ACTION = 1024


def judge_forbidden_commands(context: GateContext, contract: TaskContract) -> None:
    """Refuse acceptance and executor commands that contain a forbidden action.

    The command gate refuses what is no plain argv.
    """
    report = context.report
    report.checked(RULE, ", ".join(contract.forbidden_actions))
    if len(contract.forbidden_actions) > MOST_ACTIONS:
        words = f"{len(contract.forbidden_actions)} forbidden actions; no more than {MOST_ACTIONS} can be watched"
        report.violate(CODE, RULE, words)
        return
    if any(len(action) > LONGEST_ACTION for action in contract.forbidden_actions):
        report.violate(CODE, RULE, f"a forbidden action of more than {LONGEST_ACTION} characters cannot be watched")
        return
    actions = [(action, words_of(action)) for action in contract.forbidden_actions]
    commands = [test.cmd for test in contract.acceptance_tests]
    commands.extend(command for executor in ways(contract) for command in executor.commands)
    if too_much(commands) is not None:
        return  # the command gate refuses them all
    for command in commands:
        try:
            argv = parse_command(command)
        except CommandRefusedError:
            continue
        programs = {_program(word) for word in argv}
        for action, forbidden in actions:
            if forbidden and _program(forbidden[0]) in programs and contains(argv, forbidden):
                report.violate(CODE, RULE, f"{command!r} contains {action!r}, which the contract forbids")


def judge_forbidden_edits(context: ChangeContext, changes: Iterable[TreeChange]) -> None:
    """Refuse changes of a path that the contract forbids to edit: a name at any depth, or a full path."""
    report, contract = context.report, context.contract
    # Longer lists are refused before anything is changed.
    all_words = (words_of(action) for action in contract.forbidden_actions[:MOST_ACTIONS] if len(action) <= LONGEST_ACTION)
    edits = [words[1] for words in all_words if len(words) == 2 and words[0] == EDIT]
    wanted = {path.strip("/").lower().encode("utf-8", "surrogatepass") for path in edits}
    if not wanted:
        return
    report.checked(f"{RULE}.edit", ", ".join(sorted(display(path) for path in wanted)))
    for change in changes:
        lowered = change.path.lower()
        parts = frozenset(lowered.split(b"/"))
        touched = [path for path in wanted if path in parts or lowered == path or lowered.startswith(path + b"/")]
        for path in sorted(touched):
            report.violate(CODE, f"{RULE}.edit", f"the contract forbids to edit {display(path)!r}", change.path)


def words_of(action: str) -> tuple[str, ...]:
    """Split an action into words; on bad quoting, at white space."""
    try:
        return tuple(shlex.split(action))
    except ValueError:
        return tuple(action.split())


def contains(argv: Sequence[str], words: Sequence[str]) -> bool:
    """Return whether ``argv`` contains ``words``. Programs match by base name, short options in any order and grouping."""
    if not words:
        return False
    program, wanted = _program(words[0]), [word for word in words[1:] if not word.startswith("-")]
    options = [word for word in words[1:] if word.startswith("-")]
    short = {letter for option in options if _is_short(option) for letter in option[1:]}
    long = {option for option in options if not _is_short(option)}
    # Backwards, so that the words after a program are known when the program is reached: forbidden options in any place, and
    # the forbidden plain words first.
    plain: deque[str] = deque(maxlen=len(wanted))
    for word in reversed(argv):
        if _program(word) == program and not short and not long and list(plain) == wanted:
            return True
        long.discard(word)
        if _is_short(word):
            short.difference_update(word[1:])
        if not word.startswith("-"):
            plain.appendleft(word)
    return False


def _program(word: str) -> str:
    return word.rpartition("/")[2]


def _is_short(word: str) -> bool:
    return len(word) > 1 and word[0] == "-" and word[1] != "-"
