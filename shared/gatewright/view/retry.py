"""The command to type after a refusal: the options that would open exactly what was refused.

The table of reasons decides what may be offered after which refusal (``gatewright.reasons.retries``). This module knows which
option opens a violation, and which paths no line opens.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, get_args

from gatewright.contracts import GateReport
from gatewright.contracts.reports import Violation
from gatewright.contracts.vocabulary import ChangeKind
from gatewright.ecosystems.caches import is_cache
from gatewright.errors import ScopeError
from gatewright.order_form.words import flags_without_value
from gatewright.reasons import RetryOffer, offers_for
from gatewright.scope import check_allowed_path
from gatewright.secret_names import IN_REPOSITORIES

if TYPE_CHECKING:
    from gatewright.path_patterns.matcher import PathMatcher

#: By the broken rule: what opens it. Rules that are not here are opened by no option.
_OFFER_BY_RULE: Final = {
    "allowed_paths": RetryOffer.PATH,
    "protected_paths.protected": RetryOffer.PROTECTED_PATH,
    "protected_paths.runner": RetryOffer.PROTECTED_PATH,
    "protected_paths.dependencies": RetryOffer.DEPENDENCIES,
}
_KIND_RULE: Final = "change_kinds."
_KIND_IN_DETAIL = re.compile(r"opened only by scope\.allow: ([a-z_]+)$")  # noqa: TID251 - linear: the words before it cannot stand in the repetition
#: A report lists no more violations than this, and may have left some out then.
_MOST_LISTED: Final = 100
#: More paths than this make no line that anyone reads. Their folders would open more than was refused.
_MOST_PATHS: Final = 40
#: Characters of a path. A report cuts longer texts, and half a path names another file.
_LONGEST_PATH: Final = 500
#: What stands before words that are no options, although they may look like some.
_END_OF_OPTIONS: Final = "--"


class _Opening(NamedTuple):
    """An option and its value; an option that stands alone has the value ``""``."""

    option: RetryOffer
    value: str = ""


def retry_options(report: GateReport | None) -> tuple[str, ...]:
    """The options that, added to the same command, would open all that this verdict refused.

    Empty when no option opens one of its violations, or none may be offered for it.
    """
    if report is None or report.verdict == "PASS" or len(report.violations) >= _MOST_LISTED:
        return ()
    openings = [_opening(violation) for violation in report.violations]
    pairs = list(dict.fromkeys(opening for opening in openings if opening is not None))
    if not openings or None in openings or len({pair.value for pair in pairs}) > _MOST_PATHS:
        return ()
    # What --allow-tests opens need not be allowed besides.
    opened = {pair.value for pair in pairs if pair.option is RetryOffer.PROTECTED_PATH}
    pairs = [pair for pair in pairs if pair.option is not RetryOffer.PATH or pair.value not in opened]
    order = list(dict.fromkeys(pair.option for pair in pairs))
    pairs.sort(key=lambda pair: order.index(pair.option))
    return tuple(word for option, value in pairs for word in (str(option), value) if word)


def retry_line(command: Sequence[str], options: Iterable[str]) -> str:
    """The command with ``options`` as one printable line, which a shell reads as exactly these words."""
    words = [*command]
    at = words.index(_END_OF_OPTIONS) if _END_OF_OPTIONS in words else len(words)
    words[at:at] = _join_options(options)
    return " ".join(map(_quote_word, words))


def retry_label(options: Sequence[str]) -> str:
    """What stands before the command: options that widen the scope allow what was refused."""
    return "To allow it" if all(each.startswith("--allow") for each in options if each.startswith("--")) else "Retry with"


def _opening(violation: Violation) -> _Opening | None:
    """What opens one broken rule; None when nothing does, or when it may not be offered."""
    offers = offers_for(violation.code)
    if RetryOffer.LAND_BRANCH in offers:
        return _Opening(RetryOffer.LAND_BRANCH, "branch")
    if RetryOffer.KIND in offers and (kind := _kind(violation)):
        return _Opening(RetryOffer.KIND, kind)
    option = _OFFER_BY_RULE.get(violation.rule)
    if option is None or option not in offers or not may_be_offered(violation.path or ""):
        return None
    return _Opening(option, "" if option is RetryOffer.DEPENDENCIES else violation.path or "")


def _kind(violation: Violation) -> str:
    found = _KIND_IN_DETAIL.search(violation.detail)
    by_rule = violation.rule.removeprefix(_KIND_RULE) if violation.rule.startswith(_KIND_RULE) else ""
    kind = by_rule or (found[1] if found is not None else "")
    return kind if kind in get_args(ChangeKind) else ""


def may_be_offered(path: str) -> bool:
    """Whether a line to paste may name ``path``, as a report has it.

    1. it is a path that a contract may allow, and no name that was cut or written with escapes  2. the command line takes it
    as it stands  3. no tool wrote it as its cache  4. no credentials lie in files of that name.
    """
    try:
        exact = check_allowed_path(path) == path and path.isprintable() and len(path) <= _LONGEST_PATH  # 1
    except ScopeError:
        return False
    if not exact or path.startswith(("./", "~/")):  # 2
        return False
    return not is_cache(path) and not _sacred_names().of(path.encode())  # 3, 4


@cache
def _sacred_names() -> PathMatcher:
    # Imported late: most runs land.
    from gatewright.path_patterns.matcher import PathMatcher

    return PathMatcher([IN_REPOSITORIES])


def _join_options(options: Iterable[str]) -> Iterator[str]:
    """The options, each value that begins with a dash joined to its own: it would be taken for an option."""
    alone, waiting = flags_without_value(), iter(options)
    for option in waiting:
        if option in alone or not option.startswith("--"):
            yield option
            continue
        value = next(waiting, None)
        if value is not None and value.startswith("-") and value != "-":
            yield f"{option}={value}"
        else:
            yield from (option,) if value is None else (option, value)


def _quote_word(word: str) -> str:
    """``word`` for a shell. What does not simply print is written as escapes, which bash, zsh and ksh read back."""
    if not word.isprintable():
        return "$'" + "".join(map(_escape_shell_char, word)) + "'"
    # zsh takes a word that begins with = for the place of a program.
    return "'='" + shlex.quote(word[1:]) if word.startswith("=") else shlex.quote(word)


def _escape_shell_char(char: str) -> str:
    if char in "\\'":
        return f"\\{char}"
    return char if char.isprintable() else "".join(f"\\x{byte:02x}" for byte in os.fsencode(char))
