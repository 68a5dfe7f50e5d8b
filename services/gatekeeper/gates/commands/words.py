"""Parser for the words after the prefix of a command rule, option by option, as the tool itself parses them.

Where tools differ in how they parse a word, the word is refused. Gate and tool must agree on options, values and operands.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from gatewright.errors import CommandRefusedError
from gatewright.services.gatekeeper.policies.commands import CommandRule

#: ``NAME=value`` as a separate word sets a variable of make, or the environment of a program that a wrapper starts.
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*[:+?]?=")  # noqa: TID251 - linear: anchored, and no repetition can give to the next
#: A single sed command that can only edit its input: no ``e``, ``r``, ``w``, no second command, no block.
_SED = re.compile(  # noqa: TID251 - it refers back; linear, since no piece holds the delimiter
    r"(?:[0-9]+(?:,(?:[0-9]+|\$))?|\$|/[^/\\\n]*/)?(?:[dp]|s([/|#,:@%!])(?:(?!\1)[^\\\n]|\\[^\n])*\1(?:(?!\1)[^\\\n]|\\[^\n])*\1[gIip0-9]*)"
)
#: Maximum number of allowed words that a refusal lists.
_MOST_NAMES = 60
_NUMBER = re.compile(r"[1-9][0-9]{0,5}")  # noqa: TID251 - linear: anchored, and no repetition can give to the next


@dataclass
class CommandWords:
    """Parsed words of a command: option names, texts (patterns, edits), paths, and words after ``--``.

    ``inner`` is the command that a wrapper starts.
    """

    options: set[str] = field(default_factory=set)
    texts: list[str] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    operands: list[str] = field(default_factory=list)
    rest: list[str] = field(default_factory=list)
    inner: tuple[str, ...] = ()


def read_words(text: str, rule: CommandRule, words: Sequence[str]) -> CommandWords:
    """Parse the words of the command ``text`` after the prefix of ``rule``.

    Raises:
        CommandRefusedError: names the first word that is not allowed.
    """
    return _Reader(text, rule).read(words)


class _Reader:
    def __init__(self, text: str, rule: CommandRule) -> None:
        self._text = text
        self._rule = rule
        self._tool = " ".join(rule.prefix)
        pairs = [option.partition("=") for option in rule.options]
        self._numbered = frozenset(name for name, _, value in pairs if value == "N")
        self._optional = frozenset(name for name, _, value in pairs if value == "?")
        self._exact: dict[str, list[str]] = {}
        for name, _, value in pairs:
            if value not in {"", "N", "?"}:
                self._exact.setdefault(name, []).append(value)
        self._valued = frozenset(name for name, equals, _ in pairs if equals)
        self._lonely = frozenset(option[:-1] for option in rule.options if option.endswith("?") and "=" not in option)
        self._plain = self._lonely | frozenset(name for name, equals, _ in pairs if not equals and not name.endswith("?"))
        self._found = CommandWords()

    def read(self, words: Sequence[str]) -> CommandWords:
        left = deque(words)
        while left:
            word = left.popleft()
            if word == "--" and not self._rule.wraps:
                self._read_rest(left)
            elif self._rule.wraps and (not word.startswith("-") or (word == "-m" and self._rule.wraps_as)):
                return self._unwrap_command((word, *left))
            elif word.startswith("-") and word != "-":
                self._option(word, left)
            else:
                self._found.operands.append(word)
                if self._rule.first == "script":
                    # The following words belong to the script, which runs in the same sandbox.
                    self._read_place(word)
                    for each in left:
                        self._stays_inside(each)
                    return self._found
        if self._rule.wraps:
            raise self._refuse(f"needs a command to start: {_join_some(self._rule.wraps)}")
        self._judge_operands()
        return self._found

    def _unwrap_command(self, words: tuple[str, ...]) -> CommandWords:
        inner = (*self._rule.wraps_as, *words)
        if inner[0] not in self._rule.wraps and not (inner[0] == "python3" and "python" in self._rule.wraps):
            raise self._refuse(f"may not start {inner[0]!r}; it may start {_join_some(self._rule.wraps)}")
        self._found.inner = inner
        return self._found

    def _read_rest(self, left: deque[str]) -> None:
        while left:
            word = left.popleft()
            if self._rule.rest:
                self._stays_inside(word)
                self._found.rest.append(word)
            elif word.startswith("-"):
                raise self._refuse(f"may not be given {word!r} after --")
            else:
                self._found.operands.append(word)

    def _option(self, word: str, left: deque[str]) -> None:
        if not (word.startswith("--") or self._rule.single_dash):
            self._cluster(word, left)
            return
        name, equals, value = word.partition("=")
        known = f"-{name.removeprefix('-').removeprefix('-')}" if self._rule.single_dash else name
        if known in self._valued and (equals or known not in self._plain):
            # argparse takes the next word as an optional value, unless it is an option.
            if equals or known not in self._optional or (left and not left[0].startswith("-")):
                self._value(known, value if equals else self._take_value(known, left))
        elif known not in self._plain or equals:
            raise self._refuse(f"may not be given {name}{self._allowed_words()}")
        self._found.options.add(known)

    def _cluster(self, word: str, left: deque[str]) -> None:
        """Parse ``-qk name`` and ``-kname``: letter by letter, until one takes the rest as its value."""
        name, equals, value = word.partition("=")
        if word in self._plain or (name in self._valued and (len(name) > 2 or not equals)):
            if word not in self._plain:
                self._value(name, value if equals else self._take_value(name, left))
            self._found.options.add(name)
            return
        for at in range(1, len(word)):
            letter, rest = f"-{word[at]}", word[at + 1 :]
            if letter in self._valued:
                self._value(letter, rest.removeprefix("=") if rest else self._take_value(letter, left))
                self._found.options.add(letter)
                return
            if letter not in self._plain or (letter in self._lonely and rest):
                where = f" (in {word})" if len(word) > 2 else ""
                raise self._refuse(f"may not be given {letter}{where}{self._allowed_words()}")
            self._found.options.add(letter)

    def _take_value(self, option: str, left: deque[str]) -> str:
        """Return the next word as a value.

        Refuse options, argument files and ``--``, which some tools find among values too.
        """
        value = left.popleft() if left else None
        if value is None:
            raise self._refuse(f"{option} lacks its value")
        if value.startswith(("-", "@")):
            raise self._refuse(f"may not be given {value!r} as the value of {option}")
        return value

    def _value(self, option: str, value: str) -> None:
        exact = self._exact.get(option, ())
        if value in exact:
            return
        if exact and not any(_fits(value, pattern) for pattern in exact):
            raise self._refuse(f"may not be given {option} {value!r}; allowed are {_join_some(exact)}")
        if option in self._numbered and not _NUMBER.fullmatch(value):
            raise self._refuse(f"{option} takes a number from 1, not {value!r}")
        if option in self._rule.first_by:
            self._read_first_word(value)
        else:
            self._read_place(value)

    def _judge_operands(self) -> None:
        operands = list(self._found.operands)
        if self._rule.targets:
            self._judge_targets(operands)
            return
        if len(operands) > self._rule.operands:
            raise self._refuse(f"may not be given {operands[self._rule.operands]!r}")
        if self._rule.first != "path" and self._found.options.isdisjoint(self._rule.first_by):
            if not operands:
                raise self._refuse("needs a script of the repository" if self._rule.first == "script" else "needs an operand")
            self._read_first_word(operands.pop(0))
        for word in operands:
            self._read_place(word)

    def _judge_targets(self, operands: list[str]) -> None:
        targets, beside = self._rule.targets, self._rule.beside
        named = [word for word in operands if any(_fits(word, target) for target in targets)]
        for word in operands:
            if word not in named and word not in beside:
                raise self._refuse(f"may not be given {word!r}; allowed are {_join_some((*targets, *beside))}")
            self._read_place(word)
        if not named:
            raise self._refuse(f"needs one of {_join_some(targets)}")

    def _allowed_words(self) -> str:
        """Return the allowed options as text; the first ones where there are many."""
        return f"; allowed are {_join_some(self._rule.options)}" if self._rule.options else "; it takes no options"

    def _read_first_word(self, word: str) -> None:
        if self._rule.first in {"path", "script"}:
            self._read_place(word)
            return
        if self._rule.first == "sed" and not _SED.fullmatch(word):
            raise self._refuse(f"may only be given one plain edit, not {word!r}")
        if word.startswith("@"):
            raise self._refuse(f"may not be given {word!r}, which some tools read more options from")
        self._found.texts.append(word)

    def _read_place(self, word: str) -> None:
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


def _fits(word: str, pattern: str) -> bool:
    """Return whether ``word`` matches ``pattern``, in which one ``*`` stands for any characters."""
    before, star, after = pattern.partition("*")
    if not star:
        return word == pattern
    return len(word) > len(before) + len(after) and word.startswith(before) and word.endswith(after)


def _join_some(words: Sequence[str]) -> str:
    more = f" and {len(words) - _MOST_NAMES} more (docs/policies.md)" if len(words) > _MOST_NAMES else ""
    return ", ".join(words[:_MOST_NAMES]) + more
