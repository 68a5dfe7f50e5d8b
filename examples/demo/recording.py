"""The demo's recorded runs: their project, their request, and the recorded calls.

The recordings are from a scripted model, not from a provider (``recorded/README.md``). They match one commit only, so
``make_project`` uses the same bytes and times everywhere.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gatewright.agents.installation import find_agent
from gatewright.agents.policy import load_agents
from gatewright.resources import policy_directory

RECORDED = Path(__file__).resolve().parent / "recorded"
MODEL = "scripted-model"
REQUEST = "Greet in the language that is asked for: English (en) or German (de), English by default."
GREETER = '''"""Greetings."""


def greet(name: str) -> str:
    """What to say to ``name``."""
    return f"Hello, {name}!"
'''
TESTS = """import unittest

import greeter


class GreeterTest(unittest.TestCase):
    def test_english_is_the_default(self) -> None:
        self.assertEqual(greeter.greet("Ada"), "Hello, Ada!")

    def test_german(self) -> None:
        self.assertEqual(greeter.greet("Ada", "de"), "Hallo, Ada!")
"""
FILES = {"greeter.py": GREETER, "test_greeter.py": TESTS}
#: The answer of the scripted model.
CHANGED = '''"""Greetings."""

_WORDS = {"en": "Hello", "de": "Hallo"}


def greet(name: str, language: str = "en") -> str:
    """What to say to ``name`` in ``language``: ``en`` or ``de``."""
    return f"{_WORDS[language]}, {name}!"
'''
_WHEN = "2026-01-02T03:04:05+0000"


@dataclass(frozen=True)
class RecordedRun:
    """``folder`` below ``recorded`` contains the calls; ``words`` select the executor."""

    title: str
    folder: str
    words: tuple[str, ...]

    @property
    def cassettes(self) -> Path:
        return RECORDED / self.folder

    def arguments(self, prefix: Path) -> list[str]:
        """Return the arguments of ``gatewright run`` without ``--cassette``."""
        test = "python -m unittest -q test_greeter"
        return [REQUEST, "--allow", "greeter.py", "--test", test, "--env", str(prefix), *self.words]


BY_MODEL = RecordedRun("a model's change", "model", ("--model", MODEL))
BY_CODEX = RecordedRun("Codex at work", "codex", ("--agent", "codex", "--model", MODEL))


def make_project(folder: Path, files: Mapping[str, str] = FILES, *, message: str = "Import the greeter") -> None:
    """Create the project in an empty folder, with the same commit everywhere."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o644)
    environment = {
        **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        **{f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in _IDENTITY.items()},
    }
    for words in (
        ("init", "--quiet", "--template=", "--initial-branch=main", "--object-format=sha1"),
        ("add", "--all", "--force"),
        ("commit", "--quiet", "--message", message),
    ):
        subprocess.run(("git", *words), cwd=folder, env=environment, check=True, capture_output=True)


_IDENTITY = {"NAME": "Demo", "EMAIL": "demo@localhost", "DATE": _WHEN}


def make_policies(folder: Path) -> None:
    """Copy the policies of the package, with the recorded model only, whose address is unreachable."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(policy_directory(), folder)
    shutil.copyfile(RECORDED / "models.json", folder / "models.json")


def missing_codex(installation: Path) -> str:
    """Return why the recorded run of Codex cannot be replayed; empty if it can."""
    wanted = json.loads((BY_CODEX.cassettes / "agent.json").read_text())["version"]
    found = find_agent(load_agents(policy_directory()).agent("codex"), (installation,))
    if found is None:
        return f"Codex {wanted} is not installed: run `make agents`"
    if found.version == wanted:
        return ""
    return f"Codex {found.version} is installed, but the recording needs {wanted}: run `make recordings`"
