"""Images whose files replace the host's system: unpacked once, by digest, and only read afterwards.

An operator unpacks an image (``gatewright image``) into a folder named by its digest, beside the prepared environments. No
engine runs anything: commands run in the same sandbox, with the image's programs instead of the host's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from gatewright.errors import ConfigurationError
from gatewright.foreign_documents import UnreadableDocumentError, read_json

#: Beside the files: the source of the image, and its state when unpacked.
IMAGE_RECORD: Final = "gatewright-image.json"
UNAVAILABLE: Final = "environment_image_unavailable"
_FILES: Final = "root"
_MOST_BYTES: Final = 1024 * 1024
_PINNED: Final = re.compile(r"[a-z0-9][a-z0-9._/:-]{0,254}@sha256:[0-9a-f]{64}")  # noqa: TID251 - the operator's own text
#: Paths that the sandbox makes itself, and paths that no command sees.
_OURS: Final = frozenset(
    {
        *("boot", "dev", "etc", "gatewright", "home", "lost+found", "media", "mnt", "proc", "root", "run", "sys", "tmp"),
        *("var", "workspace"),
    }
)
#: Programs that the sandbox needs inside: the start barrier is a shell script, and prlimit (util-linux) sets the limits.
_NEEDED: Final = ("bin/sh", "usr/bin/prlimit")


class UnpackedImage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The record of an unpacked image: ``image`` is the name with the digest, ``image_id`` what the engine calls it.

    ``variables`` are those of its configuration; ``files_sha256`` is the state of its files as they were unpacked.
    """

    image: str
    image_id: str
    engine: str
    variables: dict[str, str]
    files_sha256: str


@dataclass(frozen=True, slots=True)
class ImageRoot:
    """An unpacked image; ``folder`` holds its record and its files."""

    folder: Path
    record: UnpackedImage
    path: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        folders = self.record.variables.get("PATH", "/usr/local/bin:/usr/bin:/bin").split(":")
        object.__setattr__(self, "path", tuple(each for each in folders if each.startswith("/")))

    @property
    def files(self) -> Path:
        """Return the folder that replaces ``/``."""
        return self.folder / _FILES

    @property
    def variables(self) -> Mapping[str, str]:
        """Those of the image's configuration, without PATH."""
        return {name: value for name, value in self.record.variables.items() if name != "PATH"}

    def find(self, name: str) -> Path | None:
        """The file that commands get for ``name``; where a link of it leads is looked at inside alone."""
        places = (self.files / folder.lstrip("/") / name for folder in self.path)
        return next((place for place in places if place.is_symlink() or os.access(place, os.X_OK)), None)


def is_pinned(image: str) -> bool:
    """Return whether ``image`` is a name with a digest: a tag can be moved."""
    return _PINNED.fullmatch(image) is not None


def folder_of(image: str) -> str:
    """Return the name of the image's folder: only its digest decides, not its name."""
    return f"image-{image.rpartition(':')[2]}"


def files_of(folder: Path) -> Path:
    """Return the folder of the image's files in ``folder``."""
    return folder / _FILES


def find_image(image: str, folders: Sequence[Path]) -> ImageRoot | None:
    """The unpacked ``image`` among ``folders``; None where none of them is it."""
    for folder in folders:
        record = read_image_record(folder) if folder.name == folder_of(image) else None
        if record is not None and record.image.rpartition("@")[2] == image.rpartition("@")[2]:
            return ImageRoot(folder, record)
    return None


def read_image_record(folder: Path) -> UnpackedImage | None:
    """Return the record; None for no unpacked image, or an unreadable one."""
    try:
        with (folder / IMAGE_RECORD).open("rb") as stream:
            return read_json(stream.read(_MOST_BYTES), UnpackedImage)
    except (OSError, UnreadableDocumentError):
        return None


def what_is_missing(files: Path) -> str | None:
    """Return the first program that the sandbox needs and the image lacks; None if complete."""
    return next((name for name in _NEEDED if _inside(files, files / name) is None), None)


def top_mounts(files: Path) -> Iterator[str]:
    """Bubblewrap arguments for the folders of the image, read-only, and for the links at its top."""
    for name in sorted(os.listdir(files)):  # noqa: PTH208 - names are all that is wanted
        place = files / name
        if name in _OURS:
            continue
        if place.is_symlink():
            yield from ("--symlink", str(place.readlink()), f"/{name}")
        elif place.is_dir():
            yield from ("--ro-bind", str(place), f"/{name}")


def held_in(files: Path, place: Path) -> Path:
    """Return ``place`` with links resolved. Raises ConfigurationError if a link leads out of the image, to the host."""
    real = Path(os.path.realpath(place))  # ``resolve`` raises RuntimeError for links that lead to each other
    if not real.is_relative_to(files.resolve()):
        raise ConfigurationError(f"{place} of the image leads to {real}, which is the host's", code=UNAVAILABLE)
    return real


def _inside(files: Path, place: Path) -> Path | None:
    """The file that ``place`` is, links followed as they lead inside the image; None for none."""
    for _ in range(16):
        relative = place.relative_to(files)
        walked = files
        for part in relative.parts:
            walked = walked / part
            if walked.is_symlink():
                text = walked.readlink()
                rest = relative.parts[len(walked.relative_to(files).parts) :]
                base = files if text.is_absolute() else walked.parent
                place = Path(os.path.normpath(base.joinpath(str(text).lstrip("/"), *rest)))
                break
        else:
            return place if place.is_file() else None
        if not place.is_relative_to(files):
            return None
    return None
