"""Git objects in memory, by id."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from gatewright.contracts.queue_receipt import Blob, GitObject, QueueReceipt
from gatewright.git.refs import object_id, write_tree
from gatewright.queue.receipt import missing_objects

DIGITS = 40


@dataclass
class ObjectStore:
    """Trees and commits of a repository without contents."""

    objects: dict[str, GitObject] = field(default_factory=dict)

    def tree(self, files: Mapping[str, Blob]) -> str:
        """The id of a tree with these files, by path."""
        entries: dict[bytes, Blob] = {}
        folders: defaultdict[str, dict[str, Blob]] = defaultdict(dict)
        for path, each in files.items():
            name, _, below = path.partition("/")
            if below:
                folders[name][below] = each
            else:
                entries[name.encode()] = each
        for name, inside in folders.items():
            entries[name.encode()] = Blob(mode="40000", object_id=self.tree(inside))
        return self._add(GitObject(kind="tree", data=write_tree(entries)))

    def commit(self, tree: str, parent: str, message: str) -> str:
        """The id of a commit; ``parent`` is empty for the first one."""
        who = "Gatewright <gatewright@localhost> 1767225600 +0000"
        header = [f"tree {tree}", *([f"parent {parent}"] if parent else []), f"author {who}", f"committer {who}"]
        return self._add(GitObject(kind="commit", data=("\n".join(header) + f"\n\n{message}").encode()))

    def needed_by(self, document: QueueReceipt) -> list[GitObject]:
        """The objects that a receipt needs, fetched step by step."""
        have: dict[str, GitObject] = {}
        while missing := missing_objects(document, have.values()):
            have |= {each: self.objects[each] for each in missing}
        return list(have.values())

    def _add(self, made: GitObject) -> str:
        found = object_id(made.kind, made.data, DIGITS)
        self.objects[found] = made
        return found
