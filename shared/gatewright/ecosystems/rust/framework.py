"""``cargo test`` and ``cargo nextest run`` on the port."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from random import Random
from typing import Any

from gatewright.ecosystems.planting import sum_of, words
from gatewright.ecosystems.port import Instruments, Purpose, ReporterOrder, Sentinel, TreeFiles
from gatewright.ecosystems.shell import order_files
from gatewright.ecosystems.subtree import read_tables, read_text
from gatewright.foreign_documents import table_of
from gatewright.patterns import TextPattern

#: Hosts that cargo may take for its target; of the variables, the one of the host that it runs on counts.
_TRIPLES = tuple(f"{cpu}_UNKNOWN_LINUX_{libc}" for cpu in ("X86_64", "AARCH64") for libc in ("GNU", "MUSL"))
_CONFIGURATIONS = (".cargo/config.toml", ".cargo/config")
#: Options that exclude targets: planted tests, which are a separate target, would be left out.
_CHOOSING = frozenset({"--lib", "--bins", "--bin", "--test", "--doc", "--example", "--examples", "--bench", "--benches"})
_VALUED = frozenset({"-p", "--package", "-j", "--jobs", "-F", "--features", "--profile", "--exclude", "--target"})
#: Options of nextest: those with a value, and those that select tests.
_VALUED_OF_NEXTEST = frozenset(
    {"-P", "--test-threads", "--build-jobs", "--cargo-profile", "--status-level", "--final-status-level"}
    | {"--success-output", "--failure-output", "--retries"}
)
_CHOOSING_OF_NEXTEST = frozenset({"-E", "--filterset", "--filter-expr", "--run-ignored", "--partition"})
_SETTINGS_OF_NEXTEST = ".config/nextest.toml"
_CHOOSES = TextPattern(r"(?m)^\s*default-filter\s*=|^\s*\[\[?\s*(?:script|scripts|profile\.[\w-]+\.scripts)\b")
_RUNS = TextPattern(r"(?m)^\s*runner\s*=")


@dataclass(frozen=True, slots=True)
class CargoTest:
    """Tests of libtest, and what is built like it: started by cargo itself, or one by one by nextest."""

    name: str = "cargo test"
    #: Whether each test gets a process of its own.
    is_nextest: bool = False
    languages: frozenset[str] = frozenset({"rust"})
    reports_files: bool = False
    package_files: tuple[str, ...] = ("Cargo.toml",)
    replays: None = None

    def may_start(self, argv: Sequence[str]) -> bool:
        """See ``Framework.may_start``."""
        return self._runner_words(argv) is not None

    async def recognises(self, argv: Sequence[str], tree: TreeFiles) -> bool:
        """See ``Framework.recognises``."""
        return self.may_start(argv) and not await self.unproven(argv, tree)

    async def unproven(self, argv: Sequence[str], tree: TreeFiles) -> str:
        """Return why ``argv`` cannot report its tests; empty if it can."""
        if not self.may_start(argv):
            return ""
        if "--target" in argv:
            return "it tests for a target of its own, and what starts its binaries is not known"
        if self.is_nextest and _CHOOSES.is_in(await read_text(tree, _SETTINGS_OF_NEXTEST)):
            return f"its {_SETTINGS_OF_NEXTEST} chooses among the tests (default-filter), or starts them by scripts of its own"
        texts = [await read_text(tree, path) for path in _CONFIGURATIONS]
        return "its .cargo/config.toml names a runner of its own" if any(_RUNS.is_in(text) for text in texts) else ""

    async def instruments(self, argv: Sequence[str], tree: TreeFiles, order: ReporterOrder) -> Instruments:
        """See ``Framework.instruments``."""
        del argv, tree
        package = resources.files("gatewright.ecosystems.rust")
        files = {**order_files(order), **{name: (package / name).read_bytes() for name in ("runner.sh", "nextest.sh")}}
        variables = {f"CARGO_TARGET_{triple}_RUNNER": "sh @FOLDER@/runner.sh" for triple in _TRIPLES}
        if self.is_nextest and order.purpose is Purpose.COLLECT:
            variables["NEXTEST_NO_TESTS"] = "pass"
        return Instruments(files, variables)

    async def sentinel(self, argv: Sequence[str], tree: TreeFiles, draw: Random) -> Sentinel | None:
        """See ``Framework.sentinel``: an integration test, which is a separate crate in the folder ``tests``."""
        before = list(argv[: argv.index("--")] if "--" in argv else argv)
        chooses = _CHOOSING | (_CHOOSING_OF_NEXTEST if self.is_nextest else frozenset())
        if any(word.partition("=")[0] in chooses for word in before) or self._filters(before) or "--" in argv:
            return None
        packages = await _packages(before, tree)
        if not packages:
            return None
        folder = draw.choice(packages)
        crate = "_".join(words(draw))
        failing, passing = ("_".join(words(draw)) for _ in range(2))
        one, other, right, wrong = sum_of(draw)
        text = (
            "fn total(numbers: &[u32]) -> u32 {\n    numbers.iter().sum()\n}\n\n"
            f"#[test]\nfn {passing}() {{\n    assert_eq!(total(&[{one}, {other}]), {right});\n}}\n\n"
            f"#[test]\nfn {failing}() {{\n    assert_eq!(total(&[{one}, {other}]), {wrong});\n}}\n"
        )
        path = posixpath.join(folder, "tests", f"{crate}.rs")
        return Sentinel({path: text.encode()}, f"{path}::{failing}", f"{path}::{passing}")

    def _runner_words(self, argv: Sequence[str]) -> Sequence[str] | None:
        """Return the words after those that start it; None if they do not."""
        if not argv or posixpath.basename(argv[0]) != "cargo":
            return None
        verbs = (("nextest", "run"), ("nextest", "r")) if self.is_nextest else (("test",), ("t",))
        return next((argv[1 + len(verb) :] for verb in verbs if tuple(argv[1 : 1 + len(verb)]) == verb), None)

    def _filters(self, before: Sequence[str]) -> list[str]:
        """Operands, which choose tests by their names."""
        left = list(self._runner_words(before) or ())
        valued = _VALUED | (_VALUED_OF_NEXTEST if self.is_nextest else frozenset())
        found = []
        while left:
            word = left.pop(0)
            if word in valued:
                del left[:1]
            elif not word.startswith("-"):
                found.append(word)
        return found


async def _packages(before: Sequence[str], tree: TreeFiles) -> list[str]:
    """The packages that are tested for certain and look for integration tests: their folders."""
    top = await _manifest(tree, "")
    named = _named_packages(before)
    folders = {posixpath.dirname(path) for path in tree.paths if posixpath.basename(path) == "Cargo.toml"}
    everything = not named and ("--workspace" in before or "--all" in before or "package" not in top)
    workspace = table_of(top, "workspace")
    defaults = [] if "--workspace" in before or "--all" in before else _strings(workspace.get("default-members"))
    members = defaults or _strings(workspace.get("members"))
    found = []
    for folder in sorted(folders):
        manifest = await _manifest(tree, folder)
        package = table_of(manifest, "package")
        name = package.get("name")
        if not isinstance(name, str) or package.get("autotests") is False:
            continue
        member = folder == "" or any(_is_member(folder, each) for each in members)
        if (name in named) if named else ((folder == "" and not everything) or (everything and member)):
            found.append(folder)
    return found


def _named_packages(before: Sequence[str]) -> list[str]:
    found = []
    for at, word in enumerate(before):
        option, _, value = word.partition("=")
        if option in {"-p", "--package"}:
            found.append(value or "".join(before[at + 1 : at + 2]))
    return found


def _is_member(folder: str, given: str) -> bool:
    """Match ``crates/*`` and ``crates/one``; other forms are not used for members in practice."""
    given = posixpath.normpath(given)
    if given.endswith("/*"):
        return posixpath.dirname(folder) == given[:-2]
    return folder == given


def _strings(value: object) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


async def _manifest(tree: TreeFiles, folder: str) -> dict[str, Any]:
    return await read_tables(tree, posixpath.join(folder, "Cargo.toml"))


CARGO_TEST = CargoTest()
CARGO_NEXTEST = CargoTest(name="cargo nextest", is_nextest=True)
