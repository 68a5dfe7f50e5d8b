"""``go test`` on the port."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from random import Random

from gatewright.ecosystems.planting import sum_of, words
from gatewright.ecosystems.port import PROGRAMS, Instruments, ReporterOrder, Sentinel, TreeFiles
from gatewright.ecosystems.shell import order_files
from gatewright.ecosystems.subtree import read_text
from gatewright.patterns import TextPattern

_PACKAGE = TextPattern(r"(?m)^package [A-Za-z0-9_]+")
#: A build constraint of a file.
_CONSTRAINED = TextPattern(r"(?m)^//(?:go:build|\s*\+build)")
#: Options with which another program runs the tests, or none does.
NOT_RUN = frozenset({"-exec", "-c", "-list"})
#: Options after which not every test is run, or none.
_CHOOSING = NOT_RUN | {"-run", "-skip", "-fuzz"}
#: Options whose value may be the next word.
VALUED = frozenset(
    {
        *("-run", "-skip", "-count", "-timeout", "-parallel", "-p", "-bench", "-tags", "-vet", "-shuffle", "-coverprofile"),
        "-covermode",
    }
    | {"-coverpkg", "-benchtime", "-cpu", "-mod", "-o", "-exec", "-ldflags", "-gcflags"}
)
#: Test files that are looked at for a package to plant in.
_MOST_READ = 40


@dataclass(frozen=True, slots=True)
class GoTest:
    """The tests of Go's package ``testing``."""

    name: str = "go test"
    languages: frozenset[str] = frozenset({"go"})
    reports_files: bool = False
    package_files: tuple[str, ...] = (".go",)
    replays: None = None

    def may_start(self, argv: Sequence[str]) -> bool:
        """See ``Framework.may_start``."""
        return len(argv) > 1 and posixpath.basename(argv[0]) == "go" and argv[1] == "test"

    async def recognises(self, argv: Sequence[str], tree: TreeFiles) -> bool:
        """See ``Framework.recognises``; False if the command has a runner of its own, or builds only."""
        del tree
        return self.may_start(argv) and not any(option_of(word) in NOT_RUN for word in argv)

    async def instruments(self, argv: Sequence[str], tree: TreeFiles, order: ReporterOrder) -> Instruments:
        """See ``Framework.instruments``. `go vet` takes three times as long as building: once is enough."""
        del argv, tree
        program = (resources.files("gatewright.ecosystems.go") / "runner.sh").read_bytes()
        # One word each: before 1.20 Go supports no quotes in this variable. The command's own -vet option takes precedence.
        flags = f"-exec=@FOLDER@/{PROGRAMS}runner.sh" + ("" if order.checks else " -vet=off")
        return Instruments({**order_files(order), f"{PROGRAMS}runner.sh": program}, {"GOFLAGS": flags})

    async def sentinel(self, argv: Sequence[str], tree: TreeFiles, draw: Random) -> Sentinel | None:
        """See ``Framework.sentinel``: a file in a package that has tests."""
        if any(option_of(word) in _CHOOSING for word in argv):
            return None
        files = sorted(path for path in tree.paths if path.endswith("_test.go") and _is_tested(path, argv))
        draw.shuffle(files)
        for path in files[:_MOST_READ]:
            text = await read_text(tree, path)
            package = next(iter(_PACKAGE.findall(text)), "")
            if package and not _CONSTRAINED.is_in(text):
                return _plant(posixpath.dirname(path), package, draw)
        return None


def option_of(word: str) -> str:
    """The name of an option with one dash, without its value."""
    name = word.partition("=")[0]
    return name[1:] if name.startswith("--") else name


def _is_tested(path: str, argv: Sequence[str]) -> bool:
    """Return whether the command names the package of ``path``; the top package if it names none."""
    folder = posixpath.dirname(path)
    hidden = any(part in {"vendor", "testdata"} or part.startswith(("_", ".")) for part in folder.split("/") if part)
    named = []
    left = list(argv[2:])
    while left:
        word = left.pop(0)
        if option_of(word) in VALUED and "=" not in word:
            del left[:1]
        elif not word.startswith("-"):
            named.append(word)
    if hidden:
        return False
    for word in named or ["."]:
        place = posixpath.normpath(word.removesuffix("..."))
        place = "" if place == "." else place
        if folder == place or (word.endswith("...") and (not place or folder.startswith(f"{place}/"))):
            return True
    return False


def _plant(folder: str, package: str, draw: Random) -> Sentinel:
    path = posixpath.join(folder, f"{'_'.join(words(draw))}_test.go")
    failing, passing = ("Test" + "".join(word.capitalize() for word in words(draw)) for _ in range(2))
    one, other, right, wrong = sum_of(draw)
    body = 'func {0}(t *testing.T) {{\n\tif got := {1} + {2}; got != {3} {{\n\t\tt.Errorf("got %d", got)\n\t}}\n}}\n'
    tests = [body.format(passing, one, other, right), body.format(failing, one, other, wrong)]
    text = "\n".join((package, "", 'import "testing"', "", *tests))
    return Sentinel({path: text.encode()}, f"{path}::{failing}", f"{path}::{passing}")


GO_TEST = GoTest()
