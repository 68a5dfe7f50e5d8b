"""Fixtures of the git layer: repositories, traps and a directory of mirrors."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from gatewright.git.mirror import Mirrors
from tests.git.repositories import Known, MakeRepository, MakeTrap, Repository, Trap

FILES = {"README.md": b"read me\n", "src/app.py": b"one\ntwo\nthree\n"}


@pytest.fixture(scope="session")
def first_repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """Made once; a test gets a copy."""
    return _make(tmp_path_factory.mktemp("template") / "source", FILES, "sha1")


@pytest.fixture
def make_repository(tmp_path: Path, first_repository: Repository) -> MakeRepository:
    """A repository with a branch ``main`` and one commit of ``files``."""

    def make(name: str = "source", *, files: Mapping[str, bytes] | None = None, sha256: bool = False) -> Repository:
        path = tmp_path / name
        if files is None and not sha256:
            shutil.copytree(first_repository.path, path, symlinks=True)
            return Repository(path, first_repository.home)
        content = tuple((FILES if files is None else files).items())
        template = _template(first_repository.path.parent, content, "sha256" if sha256 else "sha1")
        shutil.copytree(template.path, path, symlinks=True)
        home = path.with_name(f"home-of-{name}")
        home.mkdir()
        return Repository(path, home)

    return make


@cache
def _template(folder: Path, files: tuple[tuple[str, bytes], ...], object_format: str) -> Repository:
    """Made once for all tests that want the same files; git takes longer to make it than a copy does."""
    return _make(folder / f"source-{len(list(folder.iterdir()))}", dict(files), object_format)


def _make(path: Path, files: Mapping[str, bytes], object_format: str) -> Repository:
    home = path.with_name(f"home-of-{path.name}")
    home.mkdir()
    path.mkdir()
    repository = Repository(path, home)
    repository.git("init", "--quiet", "--template=", "--initial-branch=main", f"--object-format={object_format}")
    repository.commit(files, "first")
    return repository


@pytest.fixture(scope="session")
def known(first_repository: Repository, tmp_path_factory: pytest.TempPathFactory) -> Known:
    """A mirror of the first repository, for tests that only read it and add objects to it."""

    async def make() -> Known:
        mirror = await Mirrors(tmp_path_factory.mktemp("known")).open(first_repository.url)
        return Known(mirror, await mirror.resolve("main"))

    return asyncio.run(make())


@pytest.fixture
def make_trap(tmp_path: Path) -> MakeTrap:
    def make(name: str = "trap") -> Trap:
        trap = Trap(tmp_path / f"{name}.sh")
        trap.program.write_text(f"#!/bin/sh\ntouch '{trap.mark}'\nexit 0\n")
        trap.program.chmod(0o755)
        return trap

    return make


@pytest.fixture
def mirrors(tmp_path: Path) -> Mirrors:
    return Mirrors(tmp_path / "mirrors")
