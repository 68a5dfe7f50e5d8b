"""The files of a tree that decide what a command runs: its script, the makefile with includes, npm's scripts. Pure.

An estimate that prefers too many: a named file may not change unnoticed. A program of the product is no script: only what a
command starts by path, passes to an interpreter, or names as its settings. All of it is linear in the words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

#: Bytes of a makefile or manifest that are read for this.
MOST_BYTES = 256 << 10
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_MAKES = frozenset({"make", "gmake"})
_NPMS = frozenset({"npm", "pnpm", "yarn", "bun"})
#: Programs whose first non-option word is another program.
_WRAPPERS = frozenset(
    {"env", "time", "nice", "exec", "uv", "poetry", "pipenv", "hatch", "pdm", "npx", "bundle", "run", "coverage", "command"}
)
_INTERPRETERS = ("python", "pypy", "node", "deno", "sh", "bash", "dash", "zsh", "ruby", "perl", "php", "tsx", "ts-node", "bun")
_FILE_OPTIONS = frozenset(
    {"-c", "-f", "-r", "--config", "--config-file", "--file", "--makefile", "--rcfile", "--require", "--import", "--inifile"}
    | {"--conf", "--configuration", "--project", "--bootstrap", "--loader", "--noxfile", "--justfile", "--options", "--setup"}
)
#: Programs that only read or compile the files that they name: their short options name no settings.
_READERS = frozenset(
    {"test", "[", "grep", "egrep", "fgrep", "cat", "cmp", "diff", "ls", "true", "sleep", "compileall", "doctest"}
)
_ENDS_OF_COMMANDS = ("&&", "||", ";", "|", "(", ")", "{", "}")


@dataclass
class CommandReads:
    """Input of commands. ``files`` are paths as the commands name them, ``globs`` the endings of included paths."""

    files: set[str] = field(default_factory=set)
    ends: set[str] = field(default_factory=set)
    #: Targets of make and scripts of npm that are run; None for make's first target.
    targets: list[str | None] = field(default_factory=list)
    scripts: list[str] = field(default_factory=list)

    def command(self, words: Sequence[str]) -> None:
        """Take in one command."""
        rest = list(words)
        while rest and (_base(rest[0]) in _WRAPPERS or ("=" in rest[0] and not rest[0].startswith("-"))):
            rest.pop(0)
            while rest and rest[0].startswith("-") and _base(words[0]) in _WRAPPERS and rest[0] != "-m":
                rest.pop(0)
        if not rest:
            return
        if rest[0] == "-m":  # of ``coverage run -m``
            rest.insert(0, "python")
        program = _base(rest[0])
        if "/" in rest[0]:
            self.files.add(_clean(rest[0]))
        if program not in _READERS and not (rest[1:2] == ["-m"] and _READERS.intersection(rest[2:3])):
            self._options(rest)
        if program in _MAKES:
            self._read_make_words(rest[1:])
        elif program in _NPMS:
            self._npm(program, rest[1:])
        elif program.startswith(_INTERPRETERS):
            self._interpreter(rest[1:])

    def holds(self, path: str) -> bool:
        """Return whether ``path`` is one of the files."""
        return path in self.files or any(path == end or path.endswith(end) for end in self.ends)

    def _options(self, words: Sequence[str]) -> None:
        plugins = any(_base(word) in {"pytest", "py.test"} for word in words[:4])
        for option, value in pairwise(words):
            if option in _FILE_OPTIONS and value[:1] != "-":
                self.files.add(_clean(value))
            elif option == "-p" and plugins:
                self.files |= _module(value)
        for word in words:
            option, equals, value = word.partition("=")
            if equals and option in _FILE_OPTIONS:
                self.files.add(_clean(value))

    def _interpreter(self, words: Sequence[str]) -> None:
        for option, value in pairwise(["", *words]):
            if option == "-m":
                self.files |= _module(value)
                return
            if option in {"-c", "-e", "--test", "-p"}:
                return
            if value and not value.startswith("-") and option not in {"-W", "-X", "-r", "--require", "--import"}:
                self.files.add(_clean(value))
                return

    def _read_make_words(self, words: Sequence[str]) -> None:
        targets: list[str] = []
        skip = False
        for word in words:
            if skip:
                skip = False
            elif word in {"-C", "-f", "-j", "-I", "-o", "-l"}:
                skip = True
            elif not word.startswith("-") and "=" not in word:
                targets.append(word)
        self.targets += targets or [None]
        self.files.update(_MAKEFILES)

    def _npm(self, program: str, words: Sequence[str]) -> None:
        names = [word for word in words if not word.startswith("-")]
        if names[:1] in (["run"], ["run-script"]):
            names = names[1:]
        elif program == "npm" and names[:1] not in (["test"], ["t"], ["tst"], ["start"], ["stop"]):
            return
        if names:
            self.scripts.append("test" if names[0] in {"t", "tst"} else names[0])
        self.files.add("package.json")


#: Programs that check or test, or start others: none of them is the subject of a project.
_TOOLS = frozenset(
    {
        *(
            *("pytest", "py.test", "unittest", "nose2", "tox", "nox", "ruff", "mypy", "pyright", "basedpyright", "flake8"),
            "pylint",
        ),
        *("bandit", "coverage", "pip", "pip3", "jest", "vitest", "mocha", "ava", "tap", "jasmine", "karma", "c8", "nyc", "tsc"),
        *("eslint", "prettier", "biome", "oxlint", "playwright", "cypress", "cargo", "rustc", "go", "gofmt", "ctest", "cmake"),
        *(
            *("ninja", "meson", "gcc", "cc", "clang", "rspec", "rake", "rubocop", "phpunit", "pest", "phpstan", "psalm"),
            "composer",
        ),
        *(
            *("mvn", "gradle", "java", "javac", "dotnet", "swift", "mix", "dart", "flutter", "bats", "shellcheck", "git"),
            "pre-commit",
        ),
        *("npm", "pnpm", "yarn", "npx", "make", "gmake", "gem", "bundle", "uvx", "hypothesis", "pdm", "doctest"),
    }
)
#: Programs that commands start without naming them.
_STARTED = frozenset(
    {"sh", "bash", "env", "python", "python3", "node", "ruby", "perl", "php", "uv", "poetry", "hatch", "pipenv"}
)


def tools_of(commands: Iterable[Sequence[str]]) -> frozenset[str]:
    """Return the tools that ``commands`` name, and those that any command may start: shells and the usual small programs.

    Programs of the project itself are excluded, even if a command runs them.
    """
    named = {_base(word) for words in commands for word in words}
    known = {each for each in named if each in _TOOLS or each.rstrip("0123456789.") in _INTERPRETERS}
    return frozenset(known | _READERS | _STARTED)


def read_makefile(reading: CommandReads, content: bytes) -> tuple[str, ...]:
    """Take in what the targets that are run do; the literal paths of its includes."""
    rules, included, first = _rules(content[:MOST_BYTES].decode("utf-8", "replace"))
    for words in included:
        for word in words:
            tail = word.rpartition(")")[2] if "$(" in word else word
            tail = tail.rpartition("*")[2]
            if tail == word:
                reading.files.add(_clean(word))
            elif tail.strip("/"):
                reading.ends.add(tail)
    waiting = [name or first for name in reading.targets]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in rules:
            continue
        seen.add(name)
        rule = rules[name]
        waiting += rule.needs
        for recipe in rule.recipe:
            for command in _commands(recipe):
                reading.command(command)
    return tuple(_clean(word) for words in included for word in words if "$" not in word and "*" not in word)


@dataclass
class _Rule:
    needs: list[str] = field(default_factory=list)
    recipe: list[str] = field(default_factory=list)


def _rules(text: str) -> tuple[Mapping[str, _Rule], list[list[str]], str]:
    rules: dict[str, _Rule] = {}
    included: list[list[str]] = []
    current: list[_Rule] = []
    first = ""
    for line in text.replace("\\\n", " ").split("\n"):
        if line.startswith("\t"):
            for rule in current:
                rule.recipe.append(line)
            continue
        words = line.split("#", 1)[0].split()
        if words and words[0] in {"include", "-include", "sinclude"}:
            included.append(words[1:])
        names, colon, needs = line.partition(":")
        if colon and not needs.startswith("=") and "=" not in names and len(names.split()) < 50:
            current = [rules.setdefault(name, _Rule()) for name in names.split()]
            first = first or next((name for name in names.split() if not name.startswith(".")), "")
            recipe = needs.partition(";")[2]
            for rule in current:
                rule.needs += needs.partition(";")[0].lstrip(":").split()
                rule.recipe += [recipe] if recipe else []
    return rules, included, first


def read_scripts(reading: CommandReads, scripts: Mapping[str, object]) -> None:
    """Take in what the scripts of a package.json do that are run, and those that they run."""
    seen: set[str] = set()
    while reading.scripts:
        name = reading.scripts.pop()
        for each in (f"pre{name}", name, f"post{name}"):
            command = scripts.get(each)
            if each in seen or not isinstance(command, str):
                continue
            seen.add(each)
            for words in _commands(command):
                reading.command(words)


def _commands(line: str) -> Iterator[list[str]]:
    """The commands of a line of shell, by a rough eye: quotes are taken off, and what parts commands parts them."""
    for mark in _ENDS_OF_COMMANDS:
        line = line.replace(mark, " ; ")
    command: list[str] = []
    for word in [*line.split(), ";"]:
        if word != ";":
            command.append(word.strip("'\"").lstrip("@+"))
        elif command:
            command[0] = command[0].lstrip("-") if command[0] != "-m" else command[0]
            yield [each for each in command if each]
            command = []


def _module(name: str) -> set[str]:
    place = name.replace(".", "/")
    return {f"{place}.py", f"{place}/__init__.py", f"{place}/__main__.py"}


def _base(word: str) -> str:
    return word.rpartition("/")[2]


def _clean(word: str) -> str:
    parts: list[str] = []
    for part in word.split("/"):
        if part == ".." and parts:
            parts.pop()
        elif part not in {"", "."}:
            parts.append(part)
    return "/".join(parts)
