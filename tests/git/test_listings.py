"""What is remembered of trees, while mirrors are forgotten: the collector ends a mirror at any moment, in any thread."""

from __future__ import annotations

from typing import ClassVar

from gatewright.git.changes import TreeEntry, TreeListing, TreeListings


class _EndsItsMirror(tuple[TreeEntry, ...]):
    """Files of a tree whose mirror the collector ends while they are counted."""

    __slots__ = ()
    listings: ClassVar = TreeListings(most=5)

    def __len__(self) -> int:
        self.listings.forget("mirror")
        return 10


def test_a_mirror_that_ends_while_its_listing_is_kept_breaks_nothing() -> None:
    listings = _EndsItsMirror.listings
    listings.keep("mirror", "tree", TreeListing(_EndsItsMirror()))
    assert listings.get("mirror", "tree") is None
