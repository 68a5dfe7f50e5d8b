"""Runs a test command as the test runner does: in a real sandbox, with what its framework asks for, and a pipe."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from gatewright.ecosystems.pipe import PIPE, report_pipe
from gatewright.ecosystems.port import Framework, Purpose, ReporterOrder, Sentinel, write_instruments
from gatewright.ecosystems.records import RunnerReport, read_records
from gatewright.ecosystems.registry import recognise
from gatewright.sandbox import Additions, Completed, SandboxLimits, sandbox_account
from gatewright.sandbox.bubblewrap import BubblewrapSandbox
from gatewright.sandbox.environments import Shown
from gatewright.sandbox.port import ADDITIONS_INSIDE
from tests.sandbox.places import Folder

LIMITS = SandboxLimits(wall_seconds=180)


def drawing(seed: int) -> Random:
    """Draws the same each time."""
    return Random(seed)  # noqa: S311 - no secret


class Files:
    """A tree of texts."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = files

    @property
    def paths(self) -> frozenset[str]:
        return frozenset(self._files)

    async def read(self, path: str) -> bytes | None:
        return self._files[path].encode() if path in self._files else None


@dataclass(frozen=True)
class Ran:
    """One run of a command, and what was told."""

    completed: Completed
    told: RunnerReport

    @property
    def words(self) -> str:
        return (self.completed.stdout + self.completed.stderr).decode(errors="replace")


class Suite:
    """A tree of ``files``, with the command ``argv`` that tests it; every run has a copy of its own below ``folder``."""

    def __init__(
        self,
        folder: Path,
        argv: Sequence[str],
        files: Mapping[str, str],
        prefix: Path | Shown = None,
        links: Mapping[str, Path] | None = None,
    ) -> None:
        self._folder = folder
        self._argv = tuple(argv)
        self._files = dict(files)
        self._prefix = prefix
        self._links = dict(links or {})
        self._count = 0

    @property
    def tree(self) -> Files:
        return Files(self._files)

    async def framework(self) -> Framework:
        found = await recognise(self._argv, self.tree)
        assert found is not None, f"{self._argv} is not recognised"
        return found

    async def all(self) -> Ran:
        """The command as the contract has it."""
        return await self._run(Purpose.ALL, self._files)

    async def collect(self, *only: str) -> Ran:
        """The command for the sake of its tests' ids."""
        return await self._run(Purpose.COLLECT, self._files, only)

    async def control(self, seed: int = 1) -> tuple[Sentinel, Ran]:
        """The command with two planted tests."""
        framework = await self.framework()
        sentinel = await framework.sentinel(self._argv, self.tree, drawing(seed))
        assert sentinel is not None, "there is no place for planted tests"
        files = {**self._files, **{path: content.decode() for path, content in sentinel.files.items()}}
        changed = {path: content for path, content in sentinel.files.items() if path in self._files}
        assert all(content.decode().startswith(self._files[path]) for path, content in changed.items())
        only, planted = (sentinel.failing, sentinel.passing), tuple(sentinel.files)
        return sentinel, await self._run(Purpose.CONTROL, files, only, planted)

    async def is_alive(self, seed: int = 1) -> bool:
        """Whether the command fails because of the planted test that must fail, and of nothing else."""
        sentinel, ran = await self.control(seed)
        outcomes = ran.told.outcomes
        proved = outcomes.get(sentinel.failing) == "failed" and outcomes.get(sentinel.passing) == "passed"
        return proved and ran.told.complete and ran.completed.exit_code != 0

    async def _run(
        self, purpose: Purpose, files: Mapping[str, str], only: Sequence[str] = (), planted: Sequence[str] = ()
    ) -> Ran:
        self._count += 1
        place, additions = self._folder / f"place-{self._count}", self._folder / f"additions-{self._count}"
        additions.mkdir(mode=0o755, parents=True)
        write(place, files)
        for name, target in self._links.items():
            (place / name).symlink_to(target)
        framework = await self.framework()
        pipe_inside, checks = f"{ADDITIONS_INSIDE}/{PIPE}", purpose is Purpose.ALL
        order = ReporterOrder(purpose, "a-token", pipe_inside, tuple(only), tuple(planted), checks=checks)
        instruments = await framework.instruments(self._argv, self.tree, order)
        write_instruments(additions, instruments)
        with report_pipe(additions) as pipe:
            completed = await BubblewrapSandbox().run(
                self._argv,
                workspace=Folder(place),
                prefix=self._prefix,
                limits=LIMITS,
                additions=Additions(additions, instruments.variables),
            )
            return Ran(completed, read_records(pipe.lines(), order.token))


def write(place: Path, files: Mapping[str, str]) -> None:
    """``files`` below ``place``, which the sandbox's account may write to."""
    place.mkdir(parents=True)
    for path, text in files.items():
        file = place / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    account = sandbox_account()
    if account.switched:
        for each in (place, *place.rglob("*")):
            os.chown(each, account.uid, account.gid)
