"""The command gate: argv only, on the allowlist, with listed options, and no word that leads out of the workspace.

An option that is not listed is refused: abbreviations, clusters with a stranger among them and argument files get nowhere, and
a tool that learns a new dangerous option tomorrow is not let use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from gatewright.contracts.vocabulary import AcceptanceTest, Executor
from gatewright.errors import CommandRefusedError
from gatewright.sandbox.argv import parse_command
from services.gatekeeper.command_policy import CommandClass, CommandRule, Use
from services.gatekeeper.gates.command_classes import classify
from services.gatekeeper.gates.judgement import Judgement
from services.gatekeeper.policies import Policies

RULE = "command_allowlist"
#: ``NAME=value`` as a word of its own changes a variable of make, or the environment of what a wrapper starts.
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*[:+?]?=")
#: One command of sed that can only edit what it reads: no ``e``, ``r``, ``w``, no second command, no block.
_SED = re.compile(
    r"(?:[0-9]+(?:,(?:[0-9]+|\$))?|\$|/[^/\\\n]*/)?(?:[dp]|s([/|#,:@%!])(?:(?!\1)[^\\\n]|\\[^\n])*\1(?:(?!\1)[^\\\n]|\\[^\n])*\1[gIip0-9]*)"
)


def judge_commands(
    tests: Iterable[AcceptanceTest], executor: Executor | None, policies: Policies, found: Judgement, *, strict: bool
) -> None:
    """Judge every command of a contract; the report names each with its classes."""
    found.checked(RULE, "strict: a test must prove something" if strict else "")
    commands: list[tuple[Use, str]] = [("acceptance", test.cmd) for test in tests]
    commands += [("executor", command) for command in (executor.commands if executor is not None else ())]
    for number, (use, text) in enumerate(commands, 1):
        name = f"commands.{number}.{use}"
        try:
            rule = check_command(text, use, policies, strict=strict)
        except CommandRefusedError as error:
            found.violate(error.reason, RULE, error.message)
            found.violated(name, error.message)
        else:
            found.checked(name, f"{text} ({', '.join(sorted(classes_of(text, rule)))})")


def classes_of(text: str, rule: CommandRule) -> frozenset[CommandClass]:
    """The classes of an allowed command: the policy's word on the tool, and what its own words tell."""
    told = classify(parse_command(text)) - {CommandClass.READ_ONLY}
    return frozenset({rule.kind, *told})


def check_command(text: str, use: Use, policies: Policies, *, strict: bool = False) -> CommandRule:
    """The rule that allows ``text`` for ``use``.

    1. The text is a plain argv: no shell syntax.  2. The program is named, not a path.  3. No forbidden run of words.
    4. A rule's prefix matches (the longest wins).  5. Every option is listed.  6. No operand and no value leads out of the
    workspace.  7. With ``strict``, an acceptance command that proves nothing is refused.

    Raises CommandRefusedError (codes ``command_not_allowed``, ``action_forbidden``).
    """
    argv = parse_command(text)  # 1
    if "/" in argv[0] or argv[0].startswith("-"):  # 2
        raise CommandRefusedError(f"{text!r}: the program must be a plain name, not a path")
    for action in policies.forbidden.actions:  # 3
        if _contains(argv, action.argv):
            raise CommandRefusedError(f"{text!r} contains the forbidden action {action.name!r}", code="action_forbidden")
    plain = ("python", *argv[1:]) if argv[0] == "python3" else argv
    matching = [r for r in policies.allowlist.commands if use in r.uses and plain[: len(r.prefix)] == r.prefix]  # 4
    if not matching:
        raise CommandRefusedError(f"{text!r} is not on the allowlist for {use} commands")
    rule = max(matching, key=lambda candidate: len(candidate.prefix))
    words = _Words(text, rule)
    words.read(argv[len(rule.prefix) :])  # 5, 6
    if strict and use == "acceptance" and (rule.trivial or not words.given.isdisjoint(rule.trivial_options)):  # 7
        raise CommandRefusedError(f"{text!r} proves nothing, and the contract asks for strict acceptance")
    return rule


class _Words:
    """Reads what follows the prefix of a rule, option by option, as the tool itself would."""

    def __init__(self, text: str, rule: CommandRule) -> None:
        self.given: set[str] = set()
        self._text = text
        self._rule = rule
        self._tool = " ".join(rule.prefix)
        self._valued = frozenset(option[:-1] for option in rule.options if option.endswith("="))
        self._plain = frozenset(option for option in rule.options if not option.endswith("="))
        self._operands = 0

    def read(self, words: Sequence[str]) -> None:
        """Raises CommandRefusedError at the first word that is not allowed."""
        left = iter(words)
        for word in left:
            if word == "--":
                self._read_rest(left)
                return
            if word.startswith("-") and word != "-":
                self._option(word, left)
                continue
            self._operand(word)
            if self._rule.first == "script":
                # What follows is the script's own, and it runs in the sandbox like the script itself.
                for each in left:
                    self._stays_inside(each)
                return
        if self._rule.first != "path" and not self._operands:
            raise self._refuse({"script": "needs a script of the repository"}.get(self._rule.first, "needs an operand"))

    def _read_rest(self, left: Iterator[str]) -> None:
        for word in left:
            if self._rule.rest:
                self._stays_inside(word)
            elif word.startswith("-"):
                raise self._refuse(f"may not be given {word!r} after --")
            else:
                self._operand(word)

    def _option(self, word: str, left: Iterator[str]) -> None:
        name, equals, value = word.partition("=")
        if word.startswith("--") or self._rule.single_dash:
            known = f"-{name.lstrip('-')}" if self._rule.single_dash else name
            if known in self._valued:
                self._value(known, value if equals else next(left, None))
            elif known not in self._plain or equals:
                raise self._refuse(f"may not be given {name}")
            self.given.add(known)
            return
        self._cluster(word, left)

    def _cluster(self, word: str, left: Iterator[str]) -> None:
        """``-qk name`` and ``-kname``: letters one by one, until one takes the rest as its value."""
        if word in self._plain or word in self._valued:
            if word in self._valued:
                self._value(word, next(left, None))
            self.given.add(word)
            return
        for at in range(1, len(word)):
            letter, rest = f"-{word[at]}", word[at + 1 :]
            if letter in self._valued:
                self._value(letter, rest.removeprefix("=") if rest else next(left, None))
                self.given.add(letter)
                return
            if letter not in self._plain:
                raise self._refuse(f"may not be given {letter}" + (f" (in {word})" if len(word) > 2 else ""))
            self.given.add(letter)

    def _value(self, option: str, value: str | None) -> None:
        if value is None:
            raise self._refuse(f"{option} lacks its value")
        if self._rule.first == "sed" and option == "-e":
            self._sed(value)
            self._operands += 1
        else:
            self._stays_inside(value)

    def _operand(self, word: str) -> None:
        self._operands += 1
        if self._operands > self._rule.operands:
            raise self._refuse(f"may not be given {word!r}")
        if self._operands == 1 and self._rule.first == "text":
            return
        if self._operands == 1 and self._rule.first == "sed":
            self._sed(word)
            return
        if word == "-":
            raise self._refuse("may not read standard input")
        if word[:1] in {"@", "+"}:
            raise self._refuse(f"may not be given {word!r}, which some tools read more options from")
        if _ASSIGNMENT.match(word):
            raise self._refuse(f"may not be given the assignment {word!r}")
        self._stays_inside(word)

    def _stays_inside(self, word: str) -> None:
        if word.startswith(("/", "~")) or ".." in re.split(r"[/=:,]", word) or re.search(r"[=:,]/", word):
            raise self._refuse(f"may not be given {word!r}, which leads out of the workspace")

    def _sed(self, script: str) -> None:
        if not _SED.fullmatch(script):
            raise self._refuse(f"may only be given one plain edit, not {script!r}")

    def _refuse(self, words: str) -> CommandRefusedError:
        return CommandRefusedError(f"{self._text!r}: {self._tool} {words}")


def _contains(argv: tuple[str, ...], words: tuple[str, ...]) -> bool:
    return any(argv[start : start + len(words)] == words for start in range(len(argv) - len(words) + 1))
