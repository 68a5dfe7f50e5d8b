"""The port's frameworks minitest and RSpec: each loads our module because a variable names it."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from random import Random

from gatewright.ecosystems.planting import sentence, sum_of, words
from gatewright.ecosystems.port import Instruments, ReporterOrder, Sentinel, TreeFiles
from gatewright.ecosystems.subtree import read_text
from gatewright.patterns import TextPattern

MINITEST = "minitest"
RSPEC = "rspec"
_REPORTERS = resources.files("gatewright.ecosystems.ruby") / "reporters"
_CHANNEL = "gatewright_channel.rb"
_LOADED = {MINITEST: "minitest/gatewright_plugin.rb", RSPEC: "gatewright_rspec.rb"}
_TOKEN = "GATEWRIGHT_REPORT_TOKEN"  # noqa: S105 - its name
_FOLDERS = {MINITEST: "test/", RSPEC: "spec/"}
#: Options that choose among the tests.
_CHOOSING = (
    *("-e", "-t", "-P", "--example", "--tag", "--pattern", "--only-failures", "--next-failure", "--bisect", "-n", "--name"),
)
_REQUIRES = TextPattern(r"(?m)^[ \t]*require(?:_relative)?[ (][^\n]*$")
_SUPERCLASS = TextPattern(r"(?m)^\s*class\s+[A-Za-z0-9_:]+\s*<\s*[A-Za-z0-9_:]+")
_IS_MINITEST = TextPattern(r"(?i)minitest|active_support/test|rails/test_help|ActiveSupport::TestCase")
_MINITEST_6 = TextPattern(r"(?m)^\s*minitest \((?:[6-9]|\d\d)\.")
#: Test files that are looked at.
_MOST_READ = 40


@dataclass(frozen=True, slots=True)
class RubyTests:
    """A framework of Ruby."""

    name: str
    languages: frozenset[str] = frozenset({"ruby"})
    reports_files: bool = False
    package_files: tuple[str, ...] = ()
    replays: None = None

    def may_start(self, argv: Sequence[str]) -> bool:
        """See ``Framework.may_start``."""
        program, rest = _program(argv)
        if program == "rake":
            return ("test" if self.name == MINITEST else "spec") in rest
        return program == "rspec" and self.name == RSPEC

    async def recognises(self, argv: Sequence[str], tree: TreeFiles) -> bool:
        """See ``Framework.recognises``: rake runs the library that the tests require, minitest if they name it."""
        if not self.may_start(argv) or await self.unproven(argv, tree):
            return False
        return self.name == RSPEC or await _has_minitest(tree)

    async def unproven(self, argv: Sequence[str], tree: TreeFiles) -> str:
        """Return why this framework, which ``argv`` starts, cannot report its tests; empty if it can."""
        if self.name == MINITEST and self.may_start(argv) and _MINITEST_6.is_in(await read_text(tree, "Gemfile.lock")):
            return "minitest 6 loads no reporter by itself"
        return ""

    async def instruments(self, argv: Sequence[str], tree: TreeFiles, order: ReporterOrder) -> Instruments:
        """See ``Framework.instruments``."""
        del argv, tree
        fields = {
            "purpose": order.purpose,
            "pipe": order.pipe,
            "only": order.only,
            "planted": order.planted,
            "workspace": order.workspace,
        }
        names = (_CHANNEL, _LOADED[self.name])
        files = {f"ruby/{name}": (_REPORTERS / name).read_bytes() for name in names}
        variable = (
            {"RUBYLIB": "@FOLDER@/ruby"} if self.name == MINITEST else {"SPEC_OPTS": f"--require @FOLDER@/ruby/{names[1]}"}
        )
        return Instruments({**files, "ruby/order.json": json.dumps(fields).encode()}, {_TOKEN: order.token, **variable})

    async def sentinel(self, argv: Sequence[str], tree: TreeFiles, draw: Random) -> Sentinel | None:
        """Return a file beside one of the suite, with its require lines; the reporter adds it to what is loaded."""
        _, rest = _program(argv)
        if any(word.startswith(_CHOOSING) or not _is_place(word) for word in rest):
            return None
        files = await _find_tests(self.name, tree)
        if not files:
            return None
        model = draw.choice(files)
        text = await read_text(tree, model)
        stem = posixpath.splitext(posixpath.basename(model))[0]
        new = "_".join(words(draw))
        new = f"test_{new}" if stem.startswith("test_") else f"{new}_{stem.rpartition('_')[2]}"
        path = posixpath.join(posixpath.dirname(model), f"{new}.rb")
        requires = [line.strip() for line in _REQUIRES.findall(text)]
        return (_minitest if self.name == MINITEST else _rspec)(path, requires, text, draw)


def _program(argv: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    left = list(argv)
    if left[:2] == ["bundle", "exec"]:
        left = left[2:]
    return (posixpath.basename(left[0]), tuple(left[1:])) if left else ("", ())


def _is_place(word: str) -> bool:
    """Return whether ``word`` is an option, a task or a folder; a single file cannot include another."""
    return not word.endswith(".rb") and ":" not in word


async def _find_tests(name: str, tree: TreeFiles) -> list[str]:
    found = sorted(path for path in tree.paths if path.startswith(_FOLDERS[name]) and _is_test(name, posixpath.basename(path)))
    if name == RSPEC:
        return found
    texts = {path: await read_text(tree, path) for path in found[:_MOST_READ]}
    return [path for path, text in texts.items() if _SUPERCLASS.is_in(text) or "describe" in text]


def _is_test(name: str, file: str) -> bool:
    if name == RSPEC:
        return file.endswith("_spec.rb")
    return file.endswith(("_test.rb", "_spec.rb")) or (
        file.startswith("test_") and file.endswith(".rb") and file != "test_helper.rb"
    )


async def _has_minitest(tree: TreeFiles) -> bool:
    helpers = [path for path in ("Gemfile", "Gemfile.lock", "test/test_helper.rb", "test/helper.rb") if path in tree.paths]
    tests = sorted(path for path in tree.paths if path.startswith("test/") and path.endswith(".rb"))[:_MOST_READ]
    texts = [await read_text(tree, path) for path in (*helpers, *tests)]
    return any(map(_IS_MINITEST.is_in, texts)) and not any("test/unit" in text for text in texts)


def _minitest(path: str, requires: list[str], text: str, draw: Random) -> Sentinel:
    found = [each.partition("<")[2].strip() for each in _SUPERCLASS.findall(text)]
    holder = "".join(word.capitalize() for word in words(draw)) + "Test"
    failing, passing = ("test_" + "_".join(words(draw)) for _ in range(2))
    one, other, right, wrong = sum_of(draw)
    lines = [
        *requires,
        "",
        f"class {holder} < {next((each for each in found if each.endswith(('Test', 'TestCase'))), 'Minitest::Test')}",
        f"  def {passing}",
        f"    assert_equal {right}, [{one}, {other}].sum",
        "  end",
        "",
        f"  def {failing}",
        f"    assert_equal {wrong}, [{one}, {other}].sum",
        "  end",
        "end",
        "",
    ]
    return Sentinel({path: "\n".join(lines).encode()}, f"{path}::{holder}#{failing}", f"{path}::{holder}#{passing}")


def _rspec(path: str, requires: list[str], text: str, draw: Random) -> Sentinel:
    del text
    group, failing, passing = (sentence(draw) for _ in range(3))
    one, other, right, wrong = sum_of(draw)
    lines = [
        *requires,
        "",
        f'RSpec.describe "{group}" do',
        f'  it "{passing}" do',
        f"    expect([{one}, {other}].sum).to eq({right})",
        "  end",
        "",
        f'  it "{failing}" do',
        f"    expect([{one}, {other}].sum).to eq({wrong})",
        "  end",
        "end",
        "",
    ]
    return Sentinel({path: "\n".join(lines).encode()}, f"{path}::{group} {failing}", f"{path}::{group} {passing}")


RUBY_FRAMEWORKS = (RubyTests(MINITEST), RubyTests(RSPEC))
