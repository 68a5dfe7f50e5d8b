"""PHPUnit: an additional settings file makes PHP load our file first, which adds a log of the tests."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from random import Random

from gatewright.ecosystems.planting import sum_of, words
from gatewright.ecosystems.port import Instruments, PlainFramework, Purpose, ReporterOrder, Sentinel, TreeFiles
from gatewright.ecosystems.subtree import read_text
from gatewright.patterns import TextPattern

_SETTINGS = ("phpunit.xml", "phpunit.dist.xml", "phpunit.xml.dist")
_FOLDER = TextPattern(r"<directory(?:\s[^<>]*)?>[^<>]+</directory>")
_SUFFIX = "Test.php"
_NAMESPACE = TextPattern(r"(?m)^namespace\s+[A-Za-z0-9_\\]+;")
_USES = TextPattern(r"(?m)^(?:use\s[^;\n]+;|(?:require|include)(?:_once)?\b[^;\n]+;)")
_EXTENDS = TextPattern(r"\bclass\s+[A-Za-z0-9_]+\s+extends\s+[A-Za-z0-9_\\]+")
_CHOOSING = ("--filter", "--testsuite", "--group", "--exclude-")
_VALUED = frozenset({"--order-by"})
#: Maximum number of test files read to find one to plant beside.
_MOST_READ = 40


@dataclass(frozen=True, slots=True)
class PhpUnit(PlainFramework):
    """See ``Framework``."""

    name: str = "phpunit"
    languages: frozenset[str] = frozenset({"php"})
    reports_files: bool = False
    package_files: tuple[str, ...] = ()
    replays: None = None

    def may_start(self, argv: Sequence[str]) -> bool:
        """See ``Framework.may_start``."""
        return bool(argv) and posixpath.basename(argv[0]) == "phpunit"

    async def instruments(self, argv: Sequence[str], tree: TreeFiles, order: ReporterOrder) -> Instruments:
        """See ``Framework.instruments``. The baseline runs completely: PHPUnit's list does not show tests that skip
        themselves."""
        del argv, tree
        names = "|".join(each.rpartition("::")[2] for each in order.only)
        fields = {
            "pipe": order.pipe,
            "workspace": order.workspace,
            "filter": f"/::({names})$/" if order.purpose is Purpose.CONTROL else "",
        }
        first = posixpath.join(posixpath.dirname(order.pipe), "php/prepend.php")
        files = {
            "php/prepend.php": (resources.files("gatewright.ecosystems.php") / "prepend.php").read_bytes(),
            "php/order.json": json.dumps(fields).encode(),
            "php/settings.ini": f'auto_prepend_file="{first}"\n'.encode(),
        }
        # An empty entry in the list stands for PHP's own folder.
        return Instruments(files, {"GATEWRIGHT_REPORT_TOKEN": order.token, "PHP_INI_SCAN_DIR": ":@FOLDER@/php"})

    async def sentinel(self, argv: Sequence[str], tree: TreeFiles, draw: Random) -> Sentinel | None:
        """Return a class beside one of the suite, of the same kind."""
        places = _operands(argv)
        if any(word.startswith(_CHOOSING) for word in argv) or any(place.endswith(".php") for place in places):
            return None
        if not places:
            texts = [await read_text(tree, name) for name in _SETTINGS if name in tree.paths][:1]
            places = [each.partition(">")[2].partition("<")[0].strip() for text in texts for each in _FOLDER.findall(text)]
        folders = [posixpath.normpath(place) for place in places]
        files = sorted(path for path in tree.paths if path.endswith(_SUFFIX) and _is_below(path, folders))
        draw.shuffle(files)
        for path in files[:_MOST_READ]:
            text = await read_text(tree, path)
            if extends := next(iter(_EXTENDS.findall(text)), ""):
                return _plant(path, text, extends.split()[-1], draw)
        return None


def _operands(argv: Sequence[str]) -> list[str]:
    found = []
    left = list(argv[1:])
    while left:
        word = left.pop(0)
        if word in _VALUED:
            del left[:1]
        elif not word.startswith("-"):
            found.append(word)
    return found


def _is_below(path: str, folders: Sequence[str]) -> bool:
    return any(folder == "." or path.startswith(f"{folder}/") for folder in folders)


def _plant(beside: str, text: str, superclass: str, draw: Random) -> Sentinel:
    name = "".join(word.capitalize() for word in words(draw)) + "Test"
    path = posixpath.join(posixpath.dirname(beside), f"{name}.php")
    namespace = next(iter(_NAMESPACE.findall(text)), "")
    failing, passing = ("test" + "".join(word.capitalize() for word in words(draw)) for _ in range(2))
    one, other, right, wrong = sum_of(draw)
    body = "    public function {0}(): void\n    {{\n        $this->assertSame({1}, array_sum([{2}, {3}]));\n    }}\n"
    lines = [
        "<?php",
        "",
        *([namespace, ""] if namespace else []),
        *(each.strip() for each in _USES.findall(text)),
        "",
        f"final class {name} extends {superclass}",
        "{",
        body.format(passing, right, one, other),
        body.format(failing, wrong, one, other) + "}",
        "",
    ]
    owner = f"{namespace.removeprefix('namespace').strip(' ;')}\\{name}".lstrip("\\")
    return Sentinel({path: "\n".join(lines).encode()}, f"{path}::{owner}::{failing}", f"{path}::{owner}::{passing}")


PHPUNIT = PhpUnit()
