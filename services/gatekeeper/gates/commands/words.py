"""Reads what follows the prefix of a command rule, option by option, as the tool itself would.

Where tools differ in how they read a word, the word is refused: the gate and the tool must never disagree on what is an option,
what its value, and what an operand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gatewright.errors import CommandRefusedError
from gatewright.services.gatekeeper.policies.commands import CommandRule

#: ``NAME=value`` as a word of its own changes a variable of make, or the environment of what a wrapper starts.
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*[:+?]?=")  # noqa: TID251 - linear: anchored, and no repetition can give to the next
#: One command of sed that can only edit what it reads: no ``e``, ``r``, ``w``, no second command, no block.
_SED = re.compile(  # noqa: TID251 - it refers back; linear, since no piece holds the delimiter
    r"(?:[0-9]+(?:,(?:[0-9]+|\$))?|\$|/[^/\\\n]*/)?(?:[dp]|s([/|#,:@%!])(?:(?!\1)[^\\\n]|\\[^\n])*\1(?:(?!\1)[^\\\n]|\\[^\n])*\1[gIip0-9]*)"
)
_NUMBER = re.compile(r"[1-9][0-9]{0,5}")  # noqa: TID251 - linear: anchored, and no repetition can give to the next


@dataclass
class CommandWords:
    """What a command was given, sorted: names of options, texts (patterns, edits), places, and what follows ``--``."""

    options: set[str] = field(default_factory=set)
    texts: list[str] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    operands: list[str] = field(default_factory=list)
    rest: list[str] = field(default_factory=list)


def read_words(text: str, rule: CommandRule, words: Sequence[str]) -> CommandWords:
    """The words of the command ``text`` that follow the prefix of ``rule``.

    Raises CommandRefusedError for the first word that is not allowed.
    """
    return _Reader(text, rule).read(words)


class _Reader:
    def __init__(self, text: str, rule: CommandRule) -> None:
        self._text = text
        self._rule = rule
        self._tool = " ".join(rule.prefix)
        self._numbered = frozenset(option[:-2] for option in rule.options if option.endswith("=N"))
        self._valued = self._numbered | {option[:-1] for option in rule.options if option.endswith("=")}
        self._lonely = frozenset(option[:-1] for option in rule.options if option.endswith("?"))
        self._plain = self._lonely | {option for option in rule.options if option[-1] not in "=?" and option[-2:] != "=N"}
        self._found = CommandWords()

    def read(self, words: Sequence[str]) -> CommandWords:
        left = iter(words)
        for word in left:
            if word == "--":
                self._read_rest(left)
            elif word.startswith("-") and word != "-":
                self._option(word, left)
            else:
                self._found.operands.append(word)
                if self._rule.first == "script":
                    # What follows is the script's own, and it runs in the sandbox like the script itself.
                    self._place(word)
                    for each in left:
                        self._stays_inside(each)
                    return self._found
        self._judge_operands()
        return self._found

    def _read_rest(self, left: Iterator[str]) -> None:
        for word in left:
            if self._rule.rest:
                self._stays_inside(word)
                self._found.rest.append(word)
            elif word.startswith("-"):
                raise self._refuse(f"may not be given {word!r} after --")
            else:
                self._found.operands.append(word)

    def _option(self, word: str, left: Iterator[str]) -> None:
        if not (word.startswith("--") or self._rule.single_dash):
            self._cluster(word, left)
            return
        name, equals, value = word.partition("=")
        known = f"-{name.removeprefix('-').removeprefix('-')}" if self._rule.single_dash else name
        if known in self._valued:
            self._value(known, value if equals else self._next(known, left))
        elif known not in self._plain or equals:
            raise self._refuse(f"may not be given {name}")
        self._found.options.add(known)

    def _cluster(self, word: str, left: Iterator[str]) -> None:
        """``-qk name`` and ``-kname``: letters one by one, until one takes the rest as its value."""
        if word in self._plain or word in self._valued:
            if word in self._valued:
                self._value(word, self._next(word, left))
            self._found.options.add(word)
            return
        for at in range(1, len(word)):
            letter, rest = f"-{word[at]}", word[at + 1 :]
            if letter in self._valued:
                self._value(letter, rest.removeprefix("=") if rest else self._next(letter, left))
                self._found.options.add(letter)
                return
            if letter not in self._plain or (letter in self._lonely and rest):
                raise self._refuse(f"may not be given {letter}" + (f" (in {word})" if len(word) > 2 else ""))
            self._found.options.add(letter)

    def _next(self, option: str, left: Iterator[str]) -> str:
        """The next word as a value. Some tools look for options, argument files and ``--`` among values too: refused."""
        value = next(left, None)
        if value is None:
            raise self._refuse(f"{option} lacks its value")
        if value.startswith(("-", "@")):
            raise self._refuse(f"may not be given {value!r} as the value of {option}")
        return value

    def _value(self, option: str, value: str) -> None:
        if option in self._numbered and not _NUMBER.fullmatch(value):
            raise self._refuse(f"{option} takes a number from 1, not {value!r}")
        if option in self._rule.first_by:
            self._first(value)
        else:
            self._place(value)

    def _judge_operands(self) -> None:
        operands = list(self._found.operands)
        if len(operands) > self._rule.operands:
            raise self._refuse(f"may not be given {operands[self._rule.operands]!r}")
        if self._rule.first != "path" and self._found.options.isdisjoint(self._rule.first_by):
            if not operands:
                raise self._refuse("needs a script of the repository" if self._rule.first == "script" else "needs an operand")
            self._first(operands.pop(0))
        for word in operands:
            self._place(word)

    def _first(self, word: str) -> None:
        if self._rule.first in {"path", "script"}:
            self._place(word)
            return
        if self._rule.first == "sed" and not _SED.fullmatch(word):
            raise self._refuse(f"may only be given one plain edit, not {word!r}")
        if word.startswith("@"):
            raise self._refuse(f"may not be given {word!r}, which some tools read more options from")
        self._found.texts.append(word)

    def _place(self, word: str) -> None:
        if word == "-":
            raise self._refuse("may not read standard input")
        if word[:1] in {"@", "+"}:
            raise self._refuse(f"may not be given {word!r}, which some tools read more options from")
        if _ASSIGNMENT.match(word):
            raise self._refuse(f"may not be given the assignment {word!r}")
        self._stays_inside(word)
        self._found.places.append(word)

    def _stays_inside(self, word: str) -> None:
        if word.startswith(("/", "~")) or ".." in re.split(r"[/=:,]", word) or re.search(r"[=:,]/", word):  # noqa: TID251 - linear: anchored, and no repetition can give to the next
            raise self._refuse(f"may not be given {word!r}, which leads out of the workspace")

    def _refuse(self, words: str) -> CommandRefusedError:
        return CommandRefusedError(f"{self._text!r}: {self._tool} {words}")
