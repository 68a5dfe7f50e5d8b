"""A small image, put together from programs of this host and the libraries that they name: no engine is needed for it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import msgspec

from gatewright.environment_state import see_folder
from gatewright.sandbox.images import IMAGE_RECORD, ImageRoot, UnpackedImage, files_of, folder_of

IMAGE = f"example/tools@sha256:{'ab' * 32}"
_LIBRARY = re.compile(r"(/\S+) \(0x")


def fill_root(files: Path, programs: tuple[str, ...] = ("sh", "prlimit", "ls", "cat")) -> None:
    """Programs with their libraries, and one program that no host has."""
    (files / "usr" / "bin").mkdir(parents=True)
    for top in ("bin", "lib", "lib64"):
        (files / "usr" / top).mkdir(exist_ok=True)
        (files / top).symlink_to(f"usr/{top}")
    for name in programs:
        found = shutil.which(name)
        assert found is not None
        _copy(Path(found).resolve(), files / "usr" / "bin" / name)
        for library in _LIBRARY.findall(subprocess.run(["ldd", found], capture_output=True, text=True, check=True).stdout):
            _copy(Path(library), files / library.removeprefix("/usr").replace("/", "usr/", 1))
    own = files / "usr" / "bin" / "only-here"
    own.write_text("#!/bin/sh\necho from the image\n")
    own.chmod(0o755)


def make_image(top: Path, image: str = IMAGE, **variables: str) -> ImageRoot:
    """An unpacked image in the folder of ``top`` that its digest names, as it is left when it was unpacked."""
    folder = top / folder_of(image)
    fill_root(files_of(folder))
    return write_record(folder, image, **variables)


def write_record(folder: Path, image: str = IMAGE, **variables: str) -> ImageRoot:
    """The record that goes with what lies in ``folder`` now."""
    state = see_folder(files_of(folder)).files_sha256
    record = UnpackedImage(image, "sha256:" + "cd" * 32, "docker", variables, state)
    (folder / IMAGE_RECORD).write_bytes(msgspec.json.encode(record))
    return ImageRoot(folder, record)


def _copy(source: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, place)
    place.chmod(0o755)
