"""A new ref in a repository on this host, and the objects that it needs, without a look at any of the refs that are there.

What ``git push`` does with all of a repository's refs on both sides is done here with the one: the objects are packed against
the commit's parents, unpacked in the target, looked at for being complete, and the ref is made if it does not exist. A process
that is killed in between leaves objects to which nothing leads, which the owner's git tidies up.
"""

from __future__ import annotations

from collections.abc import Mapping

from gatewright.git.command import GitCommand
from gatewright.git.objects import BLOBS_LIMIT

#: Objects from which a pack is kept as it is instead of being unpacked; it is git's own number for what is pushed.
_UNPACKED = 100
#: Where a pack's header says how many objects follow (gitformat-pack).
_COUNT = slice(8, 12)


def make_ref(
    mirror: GitCommand,
    target: GitCommand,
    commit: str,
    ref: str,
    *,
    settings: Mapping[str, str],
    committer: Mapping[str, str],
    walls: tuple[str, ...],
    timeout: float,
) -> None:
    """Make ``ref`` of ``target`` point to ``commit`` of ``mirror``. CommandFailedError when it is there, or a parent is not.

    ``settings`` stand above the target's own; ``committer`` is the identity for its log; ``walls`` confine what runs there.
    """
    options = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]

    def there(*words: str, stdin: bytes | None = None) -> bytes:
        return target.execute(*options, *words, stdin=stdin, environment=committer, timeout=timeout, walls=walls)

    packing = ("pack-objects", "--revs", "--thin", "--stdout", "--delta-base-offset", "--quiet")
    pack = mirror.execute(*packing, stdin=f"{commit}^!\n".encode(), timeout=timeout, limit=BLOBS_LIMIT)
    small = int.from_bytes(pack[_COUNT], "big") < _UNPACKED
    there(*(("unpack-objects", "-q") if small else ("index-pack", "--stdin", "--fix-thin")), stdin=pack)
    # What the current branch leads to is whole; the walk ends there, mostly at the commit's parent.
    there("rev-list", "--objects", "--quiet", "--end-of-options", commit, "^HEAD")
    there("update-ref", "--no-deref", "--end-of-options", ref, commit, "0" * len(commit))
