"""The corpus: source that evades its tests, as a stranger would write it, and honest source that looks like it.

``python.txt`` and ``javascript.txt`` hold small projects. Each has source, a test that passes, and ``production.py`` or
``production.js``, which exits with another status than 0 as the source is wrong outside the test run. ``honest.txt`` holds
single files.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gatewright.ecosystems.runner.names import is_test

_HERE = Path(__file__).parent
#: Variables that the runners of these tests set, or the script that starts them.
VARIABLES = {"NODE_ENV": "test", "npm_lifecycle_event": "test", "JEST_WORKER_ID": "1", "VITEST": "true"}


@dataclass(frozen=True)
class EvasionCase:
    """A project: its files by path."""

    name: str
    language: Literal["python", "javascript"]
    files: dict[str, str]

    @property
    def production(self) -> str:
        """The program that shows what the tests do not."""
        return "production.py" if self.language == "python" else "production.js"

    @property
    def sources(self) -> dict[str, str]:
        return {path: text for path, text in self.files.items() if path != self.production and not is_test(path.encode())}

    def write(self, folder: Path, *, tests: bool) -> None:
        """Write the project with its tests, or as it is installed."""
        for path, text in (self.files if tests else {**self.sources, self.production: self.files[self.production]}).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)


def evasions() -> tuple[EvasionCase, ...]:
    """Return all projects that evade."""
    return tuple(_cases("python")) + tuple(_cases("javascript"))


def honest() -> dict[str, tuple[str, str]]:
    """Return path and text of each honest file by its name."""
    return {name: (path, text) for name, path, text in _files("honest")}


def _cases(language: Literal["python", "javascript"]) -> list[EvasionCase]:
    projects: dict[str, dict[str, str]] = {}
    for name, path, text in _files(language):
        projects.setdefault(name, {})[path] = text
    return [EvasionCase(name, language, files) for name, files in projects.items()]


def _files(name: str) -> list[tuple[str, str, str]]:
    found = []
    for part in ("\n" + (_HERE / f"{name}.txt").read_text()).split("\n==> ")[1:]:
        head, _, text = part.partition("\n")
        project, _, path = head.removesuffix(" <==").partition("/")
        found.append((project, path, text.removesuffix("\n") + "\n"))
    return found
