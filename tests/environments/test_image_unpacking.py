"""Unpacking an image: what an engine says and gives out is held to the digest, and its archive to its own folder."""

from __future__ import annotations

import io
import json
import os
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.image_unpacking import Unpacked, unpack_image
from gatewright.sandbox.images import files_of, read_image_record
from tests.sandbox.image_folders import IMAGE, fill_root

DIGEST = IMAGE.rpartition("@")[2]
#: Speaks as the command of an engine does: tells of one image, and gives its files out.
ENGINE = """#!/bin/sh
here=$(dirname "$0")
echo "$*" >> "$here/said"
case "$1" in
  image) cat "$here/inspected.json" ;;
  export) cp "$here/files.tar" "$3" ;;
esac
"""


class ScriptedEngine:
    """A program with a folder of what it says and gives."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.program = folder / "engine"
        self.program.write_text(ENGINE)
        self.program.chmod(0o755)
        self.says(Id="sha256:" + "0" * 64, RepoDigests=[f"example/tools@{DIGEST}"], Config={"Env": None})

    def says(self, **facts: object) -> None:
        (self.folder / "inspected.json").write_text(json.dumps(facts))

    def gives(self, change: Callable[[tarfile.TarFile], None] = lambda _: None, **kinds: tuple[str, ...]) -> None:
        root = self.folder / "root"
        fill_root(root, **kinds)
        with tarfile.open(self.folder / "files.tar", "w") as tar:
            tar.add(root, ".")
            change(tar)

    @property
    def said(self) -> list[str]:
        return [line.split()[0] for line in (self.folder / "said").read_text().splitlines()]

    async def unpack(self, home: Path, image: str = IMAGE) -> Unpacked:
        return await unpack_image(home, image, str(self.program), {"PATH": os.environ["PATH"]})


@pytest.fixture
def engine(tmp_path: Path) -> ScriptedEngine:
    return ScriptedEngine(tmp_path / "engine")


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.mode = kind, link, mode
    return made


def nothing_is_left(home: Path) -> bool:
    return list((home / "environments").iterdir()) == []


async def test_an_image_is_unpacked_once_with_its_variables(engine: ScriptedEngine, tmp_path: Path) -> None:
    variables = ["PATH=/bin", "GOROOT=/usr/go", "GATEWRIGHT_SANDBOX=none", "=x", "BAD NAME=x", "LINES=a\nb"]
    engine.says(Id=DIGEST, Config={"Env": variables})
    engine.gives()
    folder, made = await engine.unpack(tmp_path / "home")
    record = read_image_record(folder)
    assert made
    assert record is not None
    assert (record.image, record.variables) == (IMAGE, {"PATH": "/bin", "GOROOT": "/usr/go"})
    assert engine.said == ["image", "create", "export", "rm"]
    assert await engine.unpack(tmp_path / "home") == (folder, False)
    assert len(engine.said) == 4


@pytest.mark.parametrize("image", ["example/tools:latest", "example/tools", f"example/tools@{DIGEST[:-1]}"])
async def test_a_tag_is_not_asked_for(engine: ScriptedEngine, tmp_path: Path, image: str) -> None:
    with pytest.raises(NotPreparedError, match="by its digest"):
        await engine.unpack(tmp_path / "home", image)
    assert not (engine.folder / "said").exists()


async def test_an_engine_that_has_another_image_under_the_name_is_not_believed(engine: ScriptedEngine, tmp_path: Path) -> None:
    engine.says(Id="sha256:" + "1" * 64, RepoDigests=["example/tools@sha256:" + "2" * 64], Config={})
    engine.gives()
    with pytest.raises(NotPreparedError, match="not that digest"):
        await engine.unpack(tmp_path / "home")
    assert engine.said == ["image"]
    assert nothing_is_left(tmp_path / "home")


@pytest.mark.parametrize(
    "members",
    [
        [entry("../outside")],
        [entry("way", tarfile.SYMTYPE, "../../.."), entry("way/outside")],
        [entry("way", tarfile.SYMTYPE, "@TMP@"), entry("way/outside")],
        [entry("taken", tarfile.LNKTYPE, "../../../../../victim")],
    ],
    ids=["name", "relative link", "absolute link", "hard link"],
)
async def test_an_archive_that_leads_out_of_its_folder_is_refused(
    engine: ScriptedEngine, tmp_path: Path, members: list[tarfile.TarInfo]
) -> None:
    def plant(tar: tarfile.TarFile) -> None:
        for member in members:
            member.linkname = member.linkname.replace("@TMP@", str(tmp_path))
            tar.addfile(member, io.BytesIO())

    (tmp_path / "victim").write_text("mine")
    engine.gives(plant)
    with pytest.raises(NotPreparedError, match="cannot be unpacked"):
        await engine.unpack(tmp_path / "home")
    assert not (tmp_path / "outside").exists()
    assert not (tmp_path / "home" / "outside").exists()
    assert engine.said[-1] == "rm"
    assert nothing_is_left(tmp_path / "home")


async def test_of_an_archive_come_neither_devices_nor_rights(engine: ScriptedEngine, tmp_path: Path) -> None:
    def plant(tar: tarfile.TarFile) -> None:
        tar.addfile(entry("dev/disk", tarfile.BLKTYPE))
        tar.addfile(entry("pipe", tarfile.FIFOTYPE))
        tar.addfile(entry("usr/bin/su", mode=0o6777), io.BytesIO())
        tar.addfile(entry("closed", tarfile.DIRTYPE, mode=0))

    engine.gives(plant)
    files = files_of((await engine.unpack(tmp_path / "home")).folder)
    assert not (files / "dev" / "disk").exists()
    assert not (files / "pipe").exists()
    assert stat.S_IMODE((files / "usr" / "bin" / "su").stat().st_mode) == 0o755
    assert stat.S_IMODE((files / "closed").stat().st_mode) == 0o755


async def test_an_image_without_what_limits_commands_is_refused(engine: ScriptedEngine, tmp_path: Path) -> None:
    engine.gives(programs=("sh", "ls"))
    with pytest.raises(NotPreparedError, match="has no /usr/bin/prlimit"):
        await engine.unpack(tmp_path / "home")
    assert nothing_is_left(tmp_path / "home")


async def test_an_engine_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotPreparedError, match="no-such-engine cannot be started"):
        await unpack_image(tmp_path / "home", IMAGE, "no-such-engine", {"PATH": os.environ["PATH"]})
