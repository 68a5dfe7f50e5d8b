"""The command gate: plain argv only, on the allowlist, with listed options, and no word that leads out of the workspace.

An unlisted option is refused. So abbreviations, clusters with an unknown letter and argument files are refused, and so is a
dangerous option that a future version of a tool adds.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence

from gatewright.contracts.vocabulary import AcceptanceTest, Executor
from gatewright.errors import CommandRefusedError
from gatewright.run.state import COMMAND
from gatewright.sandbox.argv import parse_command
from gatewright.services.gatekeeper.gates.commands.classes import classify
from gatewright.services.gatekeeper.gates.commands.words import CommandWords, read_words
from gatewright.services.gatekeeper.gates.context import GateContext
from gatewright.services.gatekeeper.policies.commands import CommandClass, CommandRule, Use
from gatewright.services.gatekeeper.policies.load import Policies

RULE = "command_allowlist"
TOO_MUCH = "too_many_commands"
#: No real contract has more commands, and each is compared with every rule.
MOST_COMMANDS = 256
MOST_CHARACTERS = 131_072
#: Maximum number of allowed commands that a refusal lists.
_MOST_ALIKE = 6
#: Maximum chain of commands that start each other (``uv run coverage run -m pytest``).
_MOST_WRAPPERS = 3


def judge_commands(
    context: GateContext, tests: Sequence[AcceptanceTest], executors: Iterable[Executor], *, strict: bool
) -> None:
    """Judge every command of a contract and report its classes.

    Args:
        context: the gate context.
        tests: the acceptance commands.
        executors: the executors with their commands.
        strict: also refuse acceptance commands that prove nothing. An audit judges what its command found, not its exit code.
    """
    report = context.report
    report.checked(RULE, "strict: a test must prove something" if strict else "")
    commands: list[tuple[Use, str]] = [("acceptance", test.cmd) for test in tests]
    audited = {("acceptance", test.cmd) for test in tests if test.audit is not None}
    commands += [("executor", command) for executor in executors for command in executor.commands]
    if (words := too_much(text for _, text in commands)) is not None:
        report.violate(TOO_MUCH, RULE, words)
        return
    asks = any(rule.reason == "command" for rule in context.policies.people.rules)
    for number, (use, text) in enumerate(commands, 1):
        name = f"commands.{number}.{use}"
        try:
            rule = check_command(text, use, context.policies, strict=strict and (use, text) not in audited)
        except CommandRefusedError as error:
            report.violate(error.reason, RULE, error.message)
            report.note_violated(name, error.message)
        else:
            kinds = sorted(classes_of(text, rule))
            report.checked(name, f"{text} ({', '.join(kinds)})")
            for kind in kinds if asks else ():
                report.asks(f"{COMMAND}{kind}", f"{kind}: {text}")


def too_much(commands: Iterable[str]) -> str | None:
    """Return why the commands are too many or too long to judge one by one; None when they are not."""
    sizes = [len(text) for text in commands]
    if len(sizes) > MOST_COMMANDS:
        return f"{len(sizes)} commands; a contract has at most {MOST_COMMANDS}"
    if sum(sizes) > MOST_CHARACTERS:
        return f"the commands have {sum(sizes)} characters together; at most {MOST_CHARACTERS} are read"
    return None


def classes_of(text: str, rule: CommandRule) -> frozenset[CommandClass]:
    """Return the classes of an allowed command: the policy's class of the tool, and those its words imply."""
    implied = classify(parse_command(text)) - {CommandClass.READ_ONLY}
    return frozenset({rule.kind, *implied})


def check_command(text: str, use: Use, policies: Policies, *, strict: bool = False) -> CommandRule:
    """Return the rule that allows ``text`` for ``use``.

    1. The text is a plain argv: no shell syntax.
    2. The program is a name; a path only where a rule lists it (``./mvnw``).
    3. No forbidden sequence of words.
    4. A rule's prefix matches (the longest wins).
    5. Every option is listed.
    6. No operand and no value leads out of the workspace.
    7. With ``strict``, an acceptance command that proves nothing is refused.

    Steps 4 to 7 apply again to a command that a wrapper starts.

    Raises:
        CommandRefusedError: codes ``command_not_allowed``, ``action_forbidden``.
    """
    argv = parse_command(text)  # 1
    listed = {rule.prefix[0] for rule in policies.allowlist.commands if use in rule.uses}
    if ("/" in argv[0] and argv[0] not in listed) or argv[0].startswith("-"):  # 2
        paths = ", ".join(sorted(name for name in listed if "/" in name))
        raise CommandRefusedError(f"{text!r}: the program must be a plain name, or one of {paths or 'no path'}")
    for action in policies.forbidden.actions:  # 3
        if _contains(argv, action.argv):
            raise CommandRefusedError(f"{text!r} contains the forbidden action {action.name!r}", code="action_forbidden")
    return _check_words(text, argv, use, policies, strict=strict, depth=_MOST_WRAPPERS)


def _check_words(text: str, argv: tuple[str, ...], use: Use, policies: Policies, *, strict: bool, depth: int) -> CommandRule:
    """Apply steps 4 to 7 to a command, or to the command that its wrapper starts (``poetry run pytest``)."""
    plain = ("python", *argv[1:]) if argv[0] == "python3" else argv
    matching = [r for r in policies.allowlist.commands if use in r.uses and plain[: len(r.prefix)] == r.prefix]  # 4
    if not matching:
        raise CommandRefusedError(f"{text!r} is not on the allowlist for {use} commands{_listed_alike(plain, use, policies)}")
    rule = max(matching, key=lambda candidate: len(candidate.prefix))
    words = read_words(text, rule, argv[len(rule.prefix) :])  # 5, 6
    if words.inner:
        if depth == 0:
            raise CommandRefusedError(f"{text!r} starts more than {_MOST_WRAPPERS} programs inside each other")
        return _check_words(text, words.inner, use, policies, strict=strict, depth=depth - 1)
    if strict and use == "acceptance" and (why := why_nothing(rule, words)):  # 7
        raise CommandRefusedError(f"{text!r} proves nothing, and the contract asks for strict acceptance: {why}")
    return rule


def _listed_alike(argv: tuple[str, ...], use: Use, policies: Policies) -> str:
    """Return suggestions for ``argv``: the rule that differs by an option only, those of its program, or all programs."""
    prefixes = [rule.prefix for rule in policies.allowlist.commands if use in rule.uses and rule.prefix[0] == argv[0]]
    plain = _without_options(argv)
    alike = [each for each in prefixes if len(each) > 1 and plain[: len(names := _without_options(each))] == names]
    found = [" ".join(each) for each in alike or prefixes]
    more = ", ..." if len(found) > _MOST_ALIKE else ""
    if found:
        return f"; this is: {', '.join(map(repr, found[:_MOST_ALIKE]))}{more}"
    programs = sorted({rule.prefix[0] for rule in policies.allowlist.commands if use in rule.uses})
    return f"; allowed programs are {', '.join(programs)}"


def _without_options(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word for word in words if not word.startswith("-"))


def _contains(argv: tuple[str, ...], words: tuple[str, ...]) -> bool:
    return any(argv[start : start + len(words)] == words for start in range(len(argv) - len(words) + 1))


# Strict acceptance: can this command fail at all? Judged by its words alone, not by the quality of the test.
#: A repetition, or an escape.
_COUNT = re.compile(r"\\?\{[0-9,]*\\?\}|\\.")  # noqa: TID251 - linear: anchored, and a brace ends each try
#: The part before the first character of a bracket expression that may close it.
_BRACKET = re.compile(r"\[\^?\]?")  # noqa: TID251 - linear: of a fixed length
#: Makes the preceding piece optional, in both dialects of grep.
_OPTIONAL = re.compile(r"\\?[*?{]")  # noqa: TID251 - linear: of a fixed length


def why_nothing(rule: CommandRule, words: CommandWords) -> str:
    """Return why the command would succeed on any candidate; empty when that is unknown."""
    proof = rule.proof
    if proof.never:
        return "it does nothing"
    if voided := sorted(words.options.intersection(proof.without)):
        return f"with {', '.join(voided)} it may succeed with any result"
    if proof.needs and words.options.isdisjoint(proof.needs):
        return f"without {' or '.join(proof.needs)} it changes files instead of checking them"
    if proof.operands == "some" and not words.operands:
        return "without an operand it may find nothing to run"
    if proof.operands == "none" and words.operands:
        return f"the filter {words.operands[0]!r} may select nothing"
    if strange := [word for word in words.rest if word.partition("=")[0] not in proof.rest]:
        return f"with {strange[0]!r} after -- it may run nothing"
    if rule.first == "text" and any(_matches_anything(text) for text in words.texts):
        return "its pattern matches anything"
    if rule.kind is CommandClass.READ_ONLY and words.places and all(posixpath.normpath(p) == "." for p in words.places):
        return "the workspace itself is always there" if rule.first == "path" else ""
    return ""


def _matches_anything(pattern: str) -> bool:
    """Return whether ``pattern`` requires no letter or digit. Decided without matching: hostile patterns never terminate."""
    if re.search(r"\)\\?[*?{]", pattern):  # noqa: TID251 - linear: of a fixed length
        return True
    return not any(piece.isalnum() and not _OPTIONAL.match(pattern, end) for piece, end in _pieces(pattern))


def _pieces(pattern: str) -> Iterator[tuple[str, int]]:
    """Yield the pieces of a pattern with their ends: a repetition, an escape, a bracket expression, or one character."""
    at, last_closing = 0, pattern.rfind("]")
    while at < len(pattern):
        found, end = _COUNT.match(pattern, at), at + 1
        bracket = _BRACKET.match(pattern, at)
        if found is not None:
            end = found.end()
        elif bracket is not None and bracket.end() <= last_closing:  # an unclosed bracket is an ordinary character
            end = pattern.index("]", bracket.end()) + 1
        yield pattern[at:end], end
        at = end
