"""Patches made in a subfolder: their names lack the folder, and may fit another file of the repository. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gatewright.git.changes import TreeEntry
from gatewright.git.patches.faults import patch_fault, quote_path
from gatewright.git.patches.files import FilePatch


def meant_elsewhere(files: Iterable[FilePatch], entries: Sequence[TreeEntry]) -> None:
    """Refuse a patch whose ``index`` line names the content of a file with the same path ending in another folder.

    ``files`` are those whose own path has other content in the baseline, whose files are ``entries``. Raises PatchError
    (``patch_malformed``).
    """
    by_name: dict[bytes, list[TreeEntry]] = {}
    for entry in entries:
        by_name.setdefault(entry.path.rpartition(b"/")[2], []).append(entry)
    for file in files:
        path = file.old or b""
        for entry in by_name.get(path.rpartition(b"/")[2], ()):
            if entry.path.endswith(b"/" + path) and entry.object_id.startswith(file.old_id.decode()):
                cause = f"the patch names {quote_path(path)}, and was made for {quote_path(entry.path)}"
                advice = "Make the patch again at the top of the repository, without --relative"
                raise patch_fault(file.line, cause, advice, path)
