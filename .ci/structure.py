"""Check measures of the source: names, sizes, docstrings, and where code distinguishes events.

    python .ci/structure.py           # the table; exit 1 if a measure exceeds its bound
    python .ci/structure.py --list    # every name and module behind each measure

Move a bound only towards its goal. `CONTRIBUTING.md` describes the purpose of each measure.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from prose import banned_words

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("shared/gatewright", "services")
#: A past participle alone names neither an action nor a result. Those that are also present forms
#: (read, put, split, ...) are left out.
_IRREGULAR = """
begun broken brought built chosen done drawn driven fallen found given gone got heard held hidden kept known laid left
lent lost made meant met paid said seen sent shown spent spoken stood stored struck sworn taken taught thrown told
torn understood withdrawn won worn written
"""
IRREGULAR = frozenset(_IRREGULAR.split())
#: Words that end in -ed and are no participles here.
NOT_PARTICIPLES = frozenset({"feed", "need", "seed", "speed", "embed", "shed", "exceed", "proceed", "succeed", "indeed"})
#: Names without information.
FORBIDDEN = frozenset({"_found", "_asked", "_opened", "_said", "_words", "_named"})
#: Packages that may distinguish events of a run (`case SomeEvent`): the run, its views, and the verification of bundles.
KNOW_EVENTS = ("shared/gatewright/run/", "shared/gatewright/view/", "shared/gatewright/evidence/")


@dataclass
class Measures:
    """The counts; ``against`` lists the names and modules behind each measure."""

    modules: list[tuple[str, int]] = field(default_factory=list)
    lines: int = 0
    imports: int = 0
    functions: int = 0
    public: int = 0
    documented: int = 0
    against: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    private: Counter[str] = field(default_factory=Counter)


def sources() -> Iterator[Path]:
    """Yield each module of the product once; skip the symbolic link to the services inside the package."""
    for folder in PRODUCT:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not any(parent.is_symlink() for parent in path.parents):
                yield path


def measure() -> Measures:
    found = Measures()
    events = {event for path in (ROOT / "shared/gatewright/run/events").glob("*.py") for event in _classes(path)}
    for path in sources():
        text = path.read_text(encoding="utf-8")
        name, tree = str(path.relative_to(ROOT)), ast.parse(text)
        count = len(text.splitlines())
        found.lines += count
        if path.name != "__init__.py":
            found.modules.append((name, count))
            if count <= 60:
                found.against["short modules"].append(f"{name} ({count})")
        found.imports += sum(_import_lines(node) for node in ast.walk(tree))
        _functions(tree, name, found)
        found.against["banned words"] += [f"{name}:{line}: {word}" for line, word in _banned(text)]
        if not name.startswith(KNOW_EVENTS):
            places = {node.cls for node in ast.walk(tree) if isinstance(node, ast.MatchClass)}
            known = [place for place in places if isinstance(place, ast.Attribute) and place.attr in events]
            found.against["events distinguished elsewhere"] += [f"{name}: {place.attr}" for place in known]
    return found


def _classes(path: Path) -> Iterator[str]:
    return (node.name for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef))


def _import_lines(node: ast.AST) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1 if isinstance(node, ast.Import | ast.ImportFrom) else 0


def _banned(text: str) -> Iterator[tuple[int, str]]:
    """Yield the banned words of `.ci/prose.py` in comments, docstrings and messages, each with its line."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in {tokenize.COMMENT, tokenize.STRING} and " " in token.string:
            yield from ((token.start[0], word) for word, _ in banned_words(token.string))


def _functions(tree: ast.AST, module: str, found: Measures) -> None:
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("__"):
            continue
        found.functions += 1
        bare = node.name.lstrip("_")
        decorators = {each.id for each in node.decorator_list if isinstance(each, ast.Name)}
        if not decorators & {"property", "cached_property"} and _is_participle(bare):
            found.against["bare participles"].append(f"{module}: {node.name}")
        if node.name in FORBIDDEN:
            found.against["forbidden names"].append(f"{module}: {node.name}")
        if node.name.startswith("_"):
            found.private[node.name] += 1
        else:
            found.public += 1
            found.documented += "\n" in (ast.get_docstring(node) or "")


def _is_participle(name: str) -> bool:
    return "_" not in name and (name in IRREGULAR or (name.endswith("ed") and name not in NOT_PARTICIPLES))


@dataclass(frozen=True)
class Row:
    """A measure with its bound. With ``least`` the bound is a minimum, otherwise a maximum."""

    name: str
    value: float
    bound: float
    goal: float
    least: bool = False
    unit: str = ""

    @property
    def holds(self) -> bool:
        return self.value >= self.bound if self.least else self.value <= self.bound


def rows(found: Measures) -> list[Row]:
    sizes = sorted(size for _, size in found.modules)
    homonyms = {name: count for name, count in found.private.items() if count > 5}
    found.against["homonyms"] = [f"{name} ({count})" for name, count in sorted(homonyms.items())]
    in_cli = sum(name.startswith("shared/gatewright/app/cli/") for name, _ in found.modules)
    return [
        # Packages of a changed lock, also in a merge queue, and installation by uv raised this bound from 159,840.
        Row("lines of the product", found.lines, 159_950, 100_000),
        Row("modules of at most 60 lines", len(found.against["short modules"]), 150, 150),
        Row("median lines of a module", sizes[len(sizes) // 2], 120, 120, least=True),
        Row("modules in app/cli", in_cli, 67, 50),
        Row("import lines", round(100 * found.imports / found.lines, 1), 9.1, 7, unit="%"),
        Row("bare participles", round(100 * len(found.against["bare participles"]) / found.functions, 1), 3, 3, unit="%"),
        Row("forbidden names", len(found.against["forbidden names"]), 0, 0),
        Row("private names with more than 5 functions", len(homonyms), 0, 0),
        Row("public functions with a longer docstring", round(100 * found.documented / found.public, 1), 20, 50, True, "%"),
        Row("banned words in comments, docstrings, messages", len(found.against["banned words"]), 20, 0),
        Row("events distinguished elsewhere", len(found.against["events distinguished elsewhere"]), 0, 0),
    ]


def main() -> int:
    found = measure()
    table = rows(found)
    if "--list" in sys.argv[1:]:
        for name, places in sorted(found.against.items()):
            print(f"{name}:", *places, sep="\n  ")
    width = max(len(row.name) for row in table)
    for row in table:
        figures = (
            f"{name} {value:>9,g}{row.unit:1}" for name, value in (("", row.value), ("bound", row.bound), ("goal", row.goal))
        )
        print(f"{row.name:<{width}} ", "  ".join(figures), "" if row.holds else "  BEYOND ITS BOUND")
    return 0 if all(row.holds for row in table) else 1


if __name__ == "__main__":
    raise SystemExit(main())
