"""The result that a patch, as read, has on a tree, compared with the tree that git made. Pure.

git may skip a line that the reader took for a part of the change, or find content elsewhere. So after each application:

1. only paths that the patch names have changed
2. a deleted file is gone, and a named mode is the file's
3. a new file has exactly the lines of its hunk
4. a changed file is the old one with all hunks at their stated positions. If the file has changed since, each hunk fits
    exactly
   one place, and the file has lost and gained exactly the removed and added lines, each as often as in the patch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from gatewright.errors import PatchError
from gatewright.git.changes import TreeChange
from gatewright.git.modes import ABSENT, SUBMODULE
from gatewright.git.patches.binary import apply_delta, decode
from gatewright.git.patches.faults import REMAKE, quote_path
from gatewright.git.patches.files import FilePatch, Reading
from gatewright.git.patches.placing import apply_in_place, refuse_ambiguous
from gatewright.git.refs import object_id

OUTCOME: Final = "patch_outcome_differs"
#: Bytes that a binary file may have that is decoded here.
MOST_DECODED: Final = 256 << 20
_STEP: Final = 1 << 16
_SUBPROJECT: Final = b"+Subproject commit "


@dataclass(slots=True)
class _File:
    """The result for one path: the content of ``origin`` in the old tree, with ``parts`` of the patch applied."""

    origin: bytes | None
    parts: list[FilePatch]
    mode: str = ""


class Check(NamedTuple):
    """Contents that have to be looked at for one path: ids of blobs, ``old`` is empty where there was none."""

    path: bytes
    old: str
    new: str
    parts: tuple[FilePatch, ...]


class Outcome:
    """The patch ``data`` as ``reading``, and the ``changes`` that git made with it.

    ``unchanged`` are the ids of blobs, by path, that the patch copies and that are the same in both trees; ``known`` are new
    ids of binary files that were in the store before: git takes such content without a look at the patch.
    """

    def __init__(
        self,
        data: bytes,
        reading: Reading,
        changes: Mapping[bytes, TreeChange],
        unchanged: Mapping[bytes, str],
        known: frozenset[str],
    ) -> None:
        self._data = data
        self._changes = changes
        self._unchanged = unchanged
        self._known = known
        self._files = _patched_files(reading)

    def checks(self) -> Iterator[Check]:
        """Rules 1 to 3, and what has to be read for rule 4. Raises PatchError (``patch_outcome_differs``)."""
        for path in self._changes.keys() - self._files.keys():
            raise _differs(path, "git changed it, and the patch does not name it")  # 1
        for path, file in self._files.items():
            change = self._changes.get(path)
            if file is None:
                if change is not None and change.new_mode != ABSENT:  # 2
                    raise _differs(path, "the patch deletes it, and it is there")
            elif change is None:
                if file.origin != path or _delta(self._data, file.parts):
                    raise _differs(path, "the patch changes it, and git did not")
            elif (check := self._check_file(path, file, change)) is not None:
                yield check

    def is_expected(self, check: Check, old: bytes) -> bool:
        """Return whether the new content follows byte for byte: all hunks fit in place, or the patch has the binary content.

        Raises PatchError (``patch_outcome_differs``) for other content, and the errors of ``refuse_ambiguous``.
        """
        binary = check.parts[-1].binary
        if binary is not None:
            content = decode(self._data, binary.forward, MOST_DECODED)
            if content is not None and binary.forward.method == "delta":
                content = apply_delta(old, content, MOST_DECODED)
            if content is None or object_id("blob", content, len(check.new)) != check.new:
                raise _differs(check.path, "git took other content than the patch holds")
            return True
        content = old
        for part in check.parts:
            applied = apply_in_place(content, self._data, part)
            if applied is None:
                refuse_ambiguous(content, self._data, part)
                return False
            content = applied
        if object_id("blob", content, len(check.new)) != check.new:
            raise _differs(check.path, "git put lines elsewhere than the patch states")
        return True

    def verify_lines(self, check: Check, old: bytes, new: bytes) -> None:
        """Check the lines of a file whose hunks do not fit in place. Raises PatchError (``patch_outcome_differs``)."""
        if not has_lines(old, new, self._data, check.parts):
            raise _differs(check.path, "its lines are not those that the patch leads to")

    def _check_file(self, path: bytes, file: _File, change: TreeChange) -> Check | None:
        if change.new_mode == ABSENT:
            if any(part.new_mode or part.binary for part in file.parts) or sum(p.added - p.removed for p in file.parts) >= 0:
                raise _differs(path, "the patch keeps it, and it is gone")
            return None
        if file.mode and change.new_mode != file.mode:  # 2
            raise _differs(path, f"it has the mode {change.new_mode}, and the patch names {file.mode}")
        if change.new_mode == SUBMODULE:
            if not any(_SUBPROJECT + change.new_id.encode() in _body(self._data, part) for part in file.parts if part.hunks):
                raise _differs(path, "it is at another commit than the patch names")
            return None
        last = file.parts[-1]
        if last.hunks and file.origin is None and len(file.parts) == 1:
            if object_id("blob", new_content(self._data, last), len(change.new_id)) != change.new_id:  # 3
                raise _differs(path, "its lines are not those of the patch")
            return None
        if any(part.binary for part in file.parts):
            return self._check_binary(path, file, change)
        old = self._origin(file)
        if last.hunks or any(part.hunks for part in file.parts):
            return Check(path, old, change.new_id, tuple(file.parts))
        if change.new_id != (old or object_id("blob", b"", len(change.new_id))):
            raise _differs(path, "its content has changed, and the patch does not change it")
        return None

    def _check_binary(self, path: bytes, file: _File, change: TreeChange) -> Check | None:
        last = file.parts[-1]
        if last.binary is None or last.new_id.decode() != change.new_id:
            raise _differs(path, "its content is not the one that the patch names")
        if change.new_id not in self._known:
            return None
        return Check(path, self._origin(file) if last.binary.forward.method == "delta" else "", change.new_id, (last,))

    def _origin(self, file: _File) -> str:
        """The id of the blob that a file is made of; empty for none."""
        if file.origin is None:
            return ""
        change = self._changes.get(file.origin)
        if change is None:
            return self._unchanged.get(file.origin, "")
        return change.old_id if change.old_mode != ABSENT else ""


def copied_paths(reading: Reading) -> frozenset[bytes]:
    """Return the paths that the patch copies or renames, whose content in the old tree is needed."""
    return frozenset(file.old for file in reading.files if file.move and file.old is not None)


def has_lines(old: bytes, new: bytes, data: bytes, parts: tuple[FilePatch, ...]) -> bool:
    """Return whether ``new`` has the lines of ``old``, minus those removed and plus those added by ``parts`` of ``data``."""
    left, right = _different_lines(old, new)
    have, want = Counter(right), Counter(left)
    for line, count in _delta(data, parts).items():
        if count > 0:
            want[line] += count
        else:
            have[line] -= count
    if have != want:
        return False
    ends = not old or old.endswith(b"\n")
    for part in parts:
        for hunk in part.hunks:
            ends = not hunk.new_ends if hunk.new_ends or hunk.old_ends else ends
    return not new or new.endswith(b"\n") == ends


def new_content(data: bytes, file: FilePatch) -> bytes:
    """Return the content of a new file of the patch ``data``, whose one hunk has added lines only."""
    (hunk,) = file.hunks
    body = data[hunk.at : hunk.end]
    if hunk.new_ends:
        body = body[: body.rindex(b"\n\\ ")]
    return body.replace(b"\n+", b"\n")[1:]


def _patched_files(reading: Reading) -> dict[bytes, _File | None]:
    """Return the result for each path that the patch names; None: deleted. Renames and copies start from the old tree."""
    found: dict[bytes, _File | None] = {}
    for part in reading.files:
        old, new = part.old, part.new
        if part.move:
            file = _File(old, [])
        elif old is None:
            file = _File(None, [])
        elif old in found:
            file = found[old] or _File(None, [])
        else:
            file = _File(old, [])
        if old is not None and old != new and part.move != "copy":
            found[old] = None
        if new is not None:
            file.parts.append(part)
            file.mode = part.new_mode or file.mode
            found[new] = file
    return found


def _delta(data: bytes, parts: list[FilePatch] | tuple[FilePatch, ...]) -> Counter[bytes]:
    """Return the change in the number of each line by ``parts``; unchanged numbers are left out."""
    found: Counter[bytes] = Counter()
    for part in parts:
        for hunk in part.hunks:
            for line in data[hunk.at : hunk.end].split(b"\n"):
                if line.startswith(b"+"):
                    found[line[1:]] += 1
                elif line.startswith(b"-"):
                    found[line[1:]] -= 1
    return Counter({line: count for line, count in found.items() if count})


def _body(data: bytes, part: FilePatch) -> list[bytes]:
    return data[part.hunks[0].at : part.hunks[-1].end].split(b"\n")


def _different_lines(old: bytes, new: bytes) -> tuple[list[bytes], list[bytes]]:
    """The lines of both between the whole lines that they begin and end with alike."""
    first = _alike(old, new)
    begin = old.rfind(b"\n", 0, first) + 1
    last = _alike(old[begin:][::-1], new[begin:][::-1])
    # The common end begins behind a line end that both have.
    end = old.find(b"\n", len(old) - last) + 1 if last else 0
    cut = len(old) - end if end else 0
    return _split_content(old[begin : len(old) - cut]), _split_content(new[begin : len(new) - cut])


def _alike(old: bytes, new: bytes) -> int:
    """Return the length of the common beginning of two contents, in bytes."""
    most = min(len(old), len(new))
    at = 0
    while at < most and old[at : at + _STEP] == new[at : at + _STEP]:
        at += _STEP
    low, high = at, min(at + _STEP, most)
    if low >= most:
        return most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if old[at:middle] == new[at:middle] else (low, middle - 1)
    return low


def _split_content(content: bytes) -> list[bytes]:
    lines = content.split(b"\n")
    return lines[:-1] if not lines[-1] else lines


def _differs(path: bytes, cause: str) -> PatchError:
    return PatchError(f"{quote_path(path)}: {cause}. {REMAKE}.", code=OUTCOME, path=path)
