"""Files that ``--env auto`` provides: those of the project's version that only its build would write.

Their content comes from git's tags. What the checkout has in their place is not looked at: a repository could name any
file there.
"""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Callable, Sequence
from pathlib import Path

from gatewright.app.cli.user_git import user_checkout
from gatewright.git.host.user_checkout import UserCheckout


async def written_files(
    top: Path, ref: str, provided: Sequence[str], note: Callable[[str], None]
) -> tuple[tuple[str, bytes], ...]:
    """Path and content for the project at ``ref`` in the repository ``top``, but for what the user has ``provided``.

    Raises GitError, MalformedError (``bad_ref``).
    """
    # Imported late: no other run pays for it.
    from gatewright.app.environments.baseline_tree import baseline_tree
    from gatewright.app.environments.version_files import version_after, version_file, version_files

    checkout = user_checkout(top)
    tree = await asyncio.to_thread(baseline_tree, checkout, ref)
    given = {posixpath.normpath(each) for each in provided}
    missing = [path for path in await version_files(tree) if path not in given]
    if not missing:
        return ()
    version = version_after(await asyncio.to_thread(_describe_ref, checkout, ref))
    for path in missing:
        note(f"{path} is what a build of the project writes: provided with version {version}, unless --provide has another")
    return tuple((path, version_file(version)) for path in missing)


def _describe_ref(checkout: UserCheckout, ref: str) -> str:
    words = ("describe", "--tags", "--long", "--match", "*[0-9]*", checkout.commit_named(ref))
    return checkout.objects.execute(*words, ok=(0, 128)).decode("utf-8", "replace")
