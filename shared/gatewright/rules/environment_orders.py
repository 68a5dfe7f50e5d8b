"""Orders of environments for a changed lock: the files that differ, and the results that an order can have. Pure.

The gatekeeper has orders computed in a child process, because it parses hostile files: ``OrderQuestion`` and ``OrderAnswer``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from pathlib import PurePosixPath
from typing import Final

import msgspec

from gatewright.contracts import EnvironmentOrder, EnvironmentResult, codec
from gatewright.run.events import ChangedOrder

#: No approval rule asks people about the packages of a changed lock.
UNAPPROVED: Final = "environment_unapproved"
#: The packages of a changed lock cannot be pulled for this order.
UNSUPPORTED: Final = "environment_pull_unsupported"
#: The order of environments is another one than people were shown.
DIFFERS: Final = "environment_order_differs"
RULE: Final = "changed_packages"


class OrderQuestion(msgspec.Struct, frozen=True):
    """What does the order for ``commands`` on a tree with these ``paths`` hold? ``files``: contents known so far."""

    commands: tuple[str, ...]
    paths: tuple[str, ...]
    files: Mapping[str, bytes | None]


class OrderAnswer(msgspec.Struct, frozen=True):
    """The canonical ``order``, or the paths that it needs, or the ``fault`` of the tree. ``ecosystems`` are the commands'."""

    order: bytes = b""
    missing: tuple[str, ...] = ()
    fault: str = ""
    ecosystems: tuple[str, ...] = ()


def changed_order(before: EnvironmentOrder | None, after: EnvironmentOrder) -> ChangedOrder | None:
    """Return the order ``after`` and its changed files; None if the same packages are installed.

    Names of Rust sources only stand for targets of Cargo. They decide no package.
    """
    old, new = [_deciding(each) if each is not None else {} for each in (before, after)]
    files = sorted(path for path in old.keys() | new.keys() if old.get(path, "-") != new.get(path, "-"))
    return ChangedOrder(sha256=order_digest(after), files=tuple(files)) if files else None


def _deciding(order: EnvironmentOrder) -> dict[str, str]:
    names = {path: "" for path in order.names if not path.endswith(".rs")}
    return names | {each.path: each.sha256 for each in order.files}


def order_digest(order: EnvironmentOrder) -> str:
    """Return the digest by which approvals, the puller and events name an order."""
    return hashlib.sha256(codec.encode(order)).hexdigest()


def result_fault(ecosystems: Collection[str], result: EnvironmentResult) -> str:
    """Return why an order for these ecosystems cannot have this result; empty when it can."""
    for each in result.environments:
        place = PurePosixPath(each.prefix)
        if not place.is_absolute() or ".." in place.parts or any(not letter.isprintable() for letter in each.prefix):
            return f"the puller named {each.prefix[:100]!r}, which is no absolute path"
        if each.ecosystem is not None and each.ecosystem not in ecosystems:
            return f"the puller made an environment of {each.ecosystem}, which no command needs"
    return ""
