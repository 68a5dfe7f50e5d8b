"""``gatewright image``: the files of a container image, by its digest, in a folder that commands see in place of the system.

The engine finds the image and gives out its files; it runs nothing of it, and no role ever talks to it.

1. the image is named by a digest, and what the engine has under it is that very digest
2. its files are asked of a container that is made, never started, and removed
3. of the archive come folders, files and links alone, none of them outside of the folder, with no right but to read and execute
4. the record is written last: a folder without one is no image.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.tool import run_tool
from gatewright.clock import new_id
from gatewright.environment_state import MADE, see_folder
from gatewright.foreign_documents import UnreadableDocumentError, read_json
from gatewright.patterns import TextPattern
from gatewright.sandbox.images import (
    IMAGE_RECORD,
    UnpackedImage,
    files_of,
    find_image,
    folder_of,
    is_pinned,
    read_image_record,
    what_is_missing,
)

#: Seconds for one command of the engine; bytes and entries of one image.
_SECONDS: Final = 900.0
_MOST_BYTES: Final = 32 << 30
_MOST_ENTRIES: Final = 2_000_000
_LONGEST_VALUE: Final = 32_768
#: Exceptions of ``tarfile`` besides its own: for deep names, invalid numbers, and zero bytes.
_UNPACKING_ERRORS: Final = (tarfile.TarError, OSError, KeyError, ValueError, OverflowError, RecursionError)
_ID: Final = TextPattern(r"(?:sha256:)?[0-9a-f]{64}")


class ImageInspection(msgspec.Struct, rename="pascal", frozen=True):
    """The fields that are read of an engine's description of an image."""

    id: str
    config: ImageConfiguration
    repo_digests: list[str] | None = None

    def is_digest(self, digest: str) -> bool:
        """Return whether ``digest`` (``sha256:...``) is that of the image's configuration or of its manifest."""
        named = {each.rpartition("@")[2] for each in self.repo_digests or ()}
        return digest in named or digest.rpartition(":")[2] == self.id.rpartition(":")[2]


class ImageConfiguration(msgspec.Struct, rename="pascal", frozen=True):
    """The part of it that a program would see."""

    env: list[str] | None = None

    def variables(self) -> dict[str, str]:
        """Those with a usable name; none that the product speaks by."""
        pairs = (line.partition("=") for line in self.env or ())
        return {
            name: value
            for name, sign, value in pairs
            if sign and name.isidentifier() and name.isascii() and not name.startswith("GATEWRIGHT") and _is_plain(value)
        }


class _Archive(tarfile.TarFile):
    """If a link cannot be made, ``tarfile`` extracts its target as it is in the archive: a device, for example."""

    def makelink(self, tarinfo: tarfile.TarInfo, targetpath: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> None:
        """Create only the link. Raises OSError. ``tarfile`` documents this method as replaceable."""
        place = Path(os.fsdecode(targetpath))
        if tarinfo.issym():
            place.unlink(missing_ok=True)
            place.symlink_to(tarinfo.linkname)
        else:
            top = str(place).removesuffix(os.path.normpath(tarinfo.name))
            os.link(Path(top, tarinfo.linkname), place, follow_symlinks=False)


class Unpacked(NamedTuple):
    """The image's folder, and whether this call made it."""

    folder: Path
    made: bool


async def unpack_image(home: Path, image: str, engine: str, variables: Mapping[str, str]) -> Unpacked:
    """The folder of ``image`` below ``home``, unpacked by ``engine`` (``docker``, ``podman``) unless it is there.

    ``variables``: the environment of the engine's command. Raises NotPreparedError, OSError.
    """
    if not is_pinned(image):  # 1
        raise NotPreparedError(f"{image} is no image by its digest (NAME@sha256:...): what a tag names can be replaced")
    top = home / MADE
    top.mkdir(mode=0o755, parents=True, exist_ok=True)
    folder = top / folder_of(image)
    if find_image(image, [folder]) is not None:
        return Unpacked(folder, made=False)
    with tempfile.TemporaryDirectory(prefix=".image-", dir=top) as made:
        place = Path(made)
        found = await _inspect_image(image, engine, variables, place)
        archive = await _export_image(found.id, engine, variables, place)  # 2
        inside = place / "image"
        await asyncio.to_thread(_unpack, archive, files_of(inside))  # 3
        if missing := what_is_missing(files_of(inside)):
            raise NotPreparedError(f"{image} has no /{missing}: commands cannot be started and limited in it (util-linux)")
        state = await asyncio.to_thread(see_folder, files_of(inside))
        record = UnpackedImage(image, found.id, engine, found.config.variables(), state.files_sha256)
        (inside / IMAGE_RECORD).write_bytes(msgspec.json.encode(record))  # 4
        for each in (inside, inside / IMAGE_RECORD):
            each.chmod(0o755 if each.is_dir() else 0o644)  # regardless of the umask: commands run as another account
        await asyncio.to_thread(_put, inside, folder)
    return Unpacked(folder, made=True)


async def _inspect_image(image: str, engine: str, variables: Mapping[str, str], place: Path) -> ImageInspection:
    digest = image.rpartition("@")[2]
    # An image that was built here, and never came from a registry, is known by the digest of its configuration alone.
    failure = ""
    for name in (image, digest):
        try:
            output = await _engine((engine, "image", "inspect", "--format", "{{json .}}", name), variables, place)
            found = read_json(output, ImageInspection)
        except NotPreparedError as error:
            failure = failure or error.message
        except UnreadableDocumentError as error:
            raise NotPreparedError(f"{engine} returned an unreadable description of {image}: {error}") from error
        else:
            if _ID.fullmatch(found.id) is None:
                raise NotPreparedError(f"{engine} gives {image} the id {found.id[:100]!r}, which is no digest")
            if not found.is_digest(digest):
                raise NotPreparedError(f"{engine} has {found.id} under the name {name}, which is not that digest")
            return found
    raise NotPreparedError(f"{engine} does not have {image} ({engine} pull {image}): {failure}")


async def _export_image(image_id: str, engine: str, variables: Mapping[str, str], place: Path) -> Path:
    archive, name = place / "files.tar", f"gatewright-{new_id()}"
    words = ("create", "--pull", "never", "--network", "none", "--name", name, image_id, "/never-started")
    try:
        await _engine((engine, *words), variables, place)
        await _engine((engine, "export", "--output", str(archive), name), variables, place)
    finally:
        with contextlib.suppress(NotPreparedError):
            await _engine((engine, "rm", "--force", name), variables, place)
    return archive


async def _engine(argv: tuple[str, ...], variables: Mapping[str, str], place: Path) -> bytes:
    return await run_tool(argv, folder=place, environment=variables, seconds=_SECONDS)


def _unpack(archive: Path, files: Path) -> None:
    files.mkdir(mode=0o755, parents=True)
    files.chmod(0o755)
    try:
        with _Archive.open(archive) as tar:
            if hasattr(tarfile, "fully_trusted_filter"):
                tar.extraction_filter = tarfile.fully_trusted_filter
            # Check each member after those before it are extracted: they may have been links.
            tar.extractall(files, members=_plain_members(_bounded_members(tar), files))  # noqa: S202 - bounded, and no name leads out
    except _UNPACKING_ERRORS as error:
        raise NotPreparedError(f"the files of the image cannot be unpacked: {error}") from error
    archive.unlink()


def _bounded_members(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    size = 0
    for number, member in enumerate(tar):
        size += member.size
        if number >= _MOST_ENTRIES or size > _MOST_BYTES:
            raise NotPreparedError(f"the image has more than {_MOST_ENTRIES} files or {_MOST_BYTES >> 30} GiB")
        yield member


def _plain_members(members: Iterable[tarfile.TarInfo], files: Path) -> Iterator[tarfile.TarInfo]:
    """Yield no devices and pipes, and no name outside ``files``, even through a link; the caller owns all files.

    Links may be absolute: they are only followed inside, where the image is ``/``. The filters of ``tarfile`` need Python
    3.11.4. Raises TarError.
    """
    top = files.resolve()
    passed: set[str] = set()
    for member in members:
        if not (member.isreg() or member.isdir() or member.issym() or member.islnk()) or member.linkname in passed:
            passed.add(member.name)  # and any hard link to it
            continue
        safe = copy.copy(member)
        safe.name = member.name.lstrip("/")
        if not _is_inside(files / safe.name, top) or (member.islnk() and not _is_inside(files / member.linkname, top)):
            raise tarfile.TarError(f"{member.name!r} leads out of it")
        safe.mode = 0o755 if safe.isdir() else ((safe.mode or 0) & 0o755) | 0o400
        safe.uid, safe.gid, safe.uname, safe.gname = os.getuid(), os.getgid(), "", ""
        yield safe


def _is_inside(place: Path, top: Path) -> bool:
    """Return whether ``place`` resolves below ``top``. For a cycle of links, ``Path.resolve`` would raise RuntimeError."""
    return Path(os.path.realpath(place)).is_relative_to(top)


def _put(inside: Path, folder: Path) -> None:
    """Move the image into place. Another process may have been faster with the same image; a folder without a record is
    removed."""
    if folder.exists() and read_image_record(folder) is None:
        shutil.rmtree(folder)
    try:
        inside.rename(folder)
    except OSError:
        if read_image_record(folder) is None:
            raise


def _is_plain(value: str) -> bool:
    return len(value) <= _LONGEST_VALUE and value.isprintable()
