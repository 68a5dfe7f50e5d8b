"""The command to type after a refusal: the options that would open what was refused.

Contracts and gates speak of fields (``scope.allow_protected_paths``); a person at the command line is told its options.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence

from gatewright.contracts import GateReport
from gatewright.contracts.reports import Violation

#: What a contract calls it, and what it is on the command line. The longer ones first.
_OPTIONS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\bscope\.allow_protected_paths\b"), "--allow-tests"),  # noqa: TID251 - linear: of a fixed length
    (re.compile(r"\bscope\.allow_dependency_change\b"), "--allow-dependencies"),  # noqa: TID251 - linear: of a fixed length
    (re.compile(r"\bscope\.allow: (?=[a-z])"), "--allow-kind "),  # noqa: TID251 - it looks ahead; linear: of a fixed length
)
_KIND_RULE = "change_kinds."
#: What breaks this rule is opened by the name of the file alone: its folder would not do.
_BY_NAME = "protected_paths.runner"
_OPENED_BY_RULE: dict[str, str] = {
    "allowed_paths": "--allow",
    "protected_paths.protected": "--allow-tests",
    _BY_NAME: "--allow-tests",
    "protected_paths.dependencies": "--allow-dependencies",
}
#: What review found is opened where the finding says so: most of it is to be put right, not to be let pass.
_OPENED_BY_NAME = "; opened only by scope.allow_protected_paths"
_KIND_IN_DETAIL = re.compile(r"opened only by scope\.allow: ([a-z_]+)$")  # noqa: TID251 - linear: the words before it cannot stand in the repetition
#: A report lists no more violations than this, and may have left some out then.
_MOST_LISTED = 100
#: More paths than this are opened by their folders.
_MOST_PATHS = 8


def in_options(words: str) -> str:
    """What a gate said, with the options of the command line in the place of a contract's fields."""
    for field, option in _OPTIONS:
        words = field.sub(option, words)
    return words


def retry_options(report: GateReport | None) -> tuple[str, ...]:
    """The options that, added to the same command, would open all that this verdict refused; empty when nothing can."""
    if report is None or report.verdict == "PASS":
        return ()
    if report.code == "target_checked_out":
        return ("--land", "branch")
    opened = [_opening(violation) for violation in report.violations]
    if not opened or None in opened or len(opened) >= _MOST_LISTED:
        return ()
    pairs = list(dict.fromkeys(pair for pair in opened if pair is not None))
    by_name = {violation.path for violation in report.violations if violation.rule == _BY_NAME}
    # What --allow-tests opens need not be allowed besides.
    pairs = [(option, value) for option, value in pairs if option != "--allow" or ("--allow-tests", value) not in pairs]
    options: list[str] = []
    for option in dict.fromkeys(option for option, _ in pairs):
        values = [value for name, value in pairs if name == option and value]
        exact = [value for value in values if value in by_name]
        values = [*exact, *_folded([value for value in values if value not in by_name])]
        options += [word for value in values for word in (option, value)] or [option]
    return tuple(options)


def retry_line(command: Sequence[str], options: Iterable[str]) -> str:
    """The command to paste."""
    return shlex.join([*command, *options])


def _opening(violation: Violation) -> tuple[str, str] | None:
    """Option and value that open one broken rule; None when nothing does, or its path cannot be typed."""
    option = _OPENED_BY_RULE.get(violation.rule)
    kind = _KIND_IN_DETAIL.search(violation.detail)
    if violation.rule.startswith(_KIND_RULE):
        return "--allow-kind", violation.rule.removeprefix(_KIND_RULE)
    if kind is not None:
        return "--allow-kind", kind[1]
    if option == "--allow-dependencies":
        return option, ""
    if violation.detail.endswith(_OPENED_BY_NAME) or violation.code == "tests_lost":
        option = "--allow-tests"
    # A path with a backslash is a name written as escapes.
    if option is None or violation.path is None or "\\" in violation.path:
        return None
    return option, violation.path


def _folded(paths: list[str]) -> list[str]:
    """The paths, or the folders that hold them where there are too many to read."""
    if len(paths) <= _MOST_PATHS:
        return paths
    return list(dict.fromkeys(path.rpartition("/")[0] or path for path in paths))
