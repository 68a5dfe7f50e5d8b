"""A new ref in a repository on this host, with the objects that it needs, without reading any existing ref.

``git push`` processes all refs on both sides. This module processes one: it packs the objects against the commit's parents,
unpacks them in the target, checks that they are complete, and creates the ref if it does not exist. A process that is
killed in between leaves unreachable objects, which the owner's git removes.
"""

from __future__ import annotations

from collections.abc import Mapping

from gatewright.git.command import GitCommand
from gatewright.git.objects import BLOBS_LIMIT

#: Objects from which a pack is kept instead of being unpacked; git's own default for pushes.
_UNPACKED = 100
#: The bytes of a pack's header with the number of objects (gitformat-pack).
_COUNT = slice(8, 12)


def make_ref(
    mirror: GitCommand,
    target: GitCommand,
    commit: str,
    ref: str,
    *,
    settings: Mapping[str, str],
    committer: Mapping[str, str],
    confinement: tuple[str, ...],
    timeout: float,
) -> None:
    """Create ``ref`` of ``target`` at ``commit`` of ``mirror``.

    Args:
        settings: override the target's own.
        committer: the identity for the target's reflog.
        confinement: a command prefix that confines what runs in the target.

    Raises:
        CommandFailedError: the ref exists, or a parent is missing.
    """
    options = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]

    def there(*words: str, stdin: bytes | None = None) -> bytes:
        return target.execute(*options, *words, stdin=stdin, environment=committer, timeout=timeout, confinement=confinement)

    packing = ("pack-objects", "--revs", "--thin", "--stdout", "--delta-base-offset", "--quiet")
    pack = mirror.execute(*packing, stdin=f"{commit}^!\n".encode(), timeout=timeout, limit=BLOBS_LIMIT)
    small = int.from_bytes(pack[_COUNT], "big") < _UNPACKED
    there(*(("unpack-objects", "-q") if small else ("index-pack", "--stdin", "--fix-thin")), stdin=pack)
    # The current branch's history is complete; the walk ends there, mostly at the commit's parent.
    there("rev-list", "--objects", "--quiet", "--end-of-options", commit, "^HEAD")
    there("update-ref", "--no-deref", "--end-of-options", ref, commit, "0" * len(commit))
