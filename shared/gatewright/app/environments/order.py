"""Environments for a host that has only the bus: the files that decide what is installed, as an order to the puller.

1. the order has what ``prepare_environments`` reads of the baseline, or of a candidate, and names that it looks for; nothing
else of the repository  2. the puller checks each path and digest, and plans with these files as if they were the baseline
3. the sender accepts only the result of its own order, for languages of its own commands.
"""

from __future__ import annotations

import asyncio
import hashlib
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.go_install import VENDORED
from gatewright.app.environments.node_recipe import LOCKS
from gatewright.app.environments.plan import Installer, Note
from gatewright.app.environments.prepare import prepare_environments, read_inputs, wanted_ecosystems
from gatewright.contracts import EnvironmentOrder, EnvironmentResult, codec
from gatewright.contracts.environment_order import OrderedEnvironment, OrderedFile
from gatewright.ecosystems.node.members import MANIFEST
from gatewright.ecosystems.port import TreeFiles
from gatewright.errors import Fault, MalformedError
from gatewright.git.paths import path_fault
from gatewright.rules.environment_orders import OrderAnswer, OrderQuestion, result_fault
from gatewright.sandbox.environments import PREPARED, read_record

#: Bytes of all files of an order: in base64, with names, they fit into one message of the bus.
MOST_BYTES: Final = 5 << 20
_INVALID: Final = "environment_order_invalid"


@dataclass(frozen=True)
class OrderedTree:
    """A ``TreeFiles`` of an order: ``files`` by path, and ``names`` without content."""

    files: Mapping[str, bytes]
    names: frozenset[str] = frozenset()

    @property
    def paths(self) -> frozenset[str]:
        return self.names.union(self.files)

    async def read(self, path: str) -> bytes | None:
        """See ``TreeFiles.read``; None for a name without content."""
        return self.files.get(path)


@dataclass(frozen=True)
class _ReadTree:
    """``tree``, and what was read of it."""

    tree: TreeFiles
    files: dict[str, bytes] = field(default_factory=dict)

    @property
    def paths(self) -> frozenset[str]:
        return self.tree.paths

    async def read(self, path: str) -> bytes | None:
        """See ``TreeFiles.read``."""
        content = await self.tree.read(path)
        if content is not None:
            self.files[path] = content
        return content


async def environment_order(tree: TreeFiles, commands: Sequence[str]) -> EnvironmentOrder:
    """Return the order for ``commands`` on ``tree``. Raises NotPreparedError, as ``prepare_environments`` does."""
    seen = _ReadTree(tree)
    await read_inputs(seen, commands)  # 1
    if sum(map(len, seen.files.values())) > MOST_BYTES:
        words = f"the files that name packages have more than {MOST_BYTES >> 20} MiB, which the bus does not carry"
        raise NotPreparedError(f"{words}; prepare the environment where the roles run, and give --env DIR")
    files = tuple(
        OrderedFile(path=path, sha256=hashlib.sha256(content).hexdigest(), content=content)
        for path, content in sorted(seen.files.items())
    )
    stubs = "rust" in wanted_ecosystems(commands) and "Cargo.toml" in seen.files
    names = (path for path in tree.paths - seen.files.keys() if _is_looked_for(path) or (stubs and path.endswith(".rs")))
    return EnvironmentOrder(commands=tuple(commands), files=files, names=tuple(sorted(names)))


def _is_looked_for(path: str) -> bool:
    """Return whether the existence of the file alone may decide something."""
    name = posixpath.basename(path)
    return name == MANIFEST or path == VENDORED or (name in LOCKS and path.count("/") < 2)


def ordered_tree(order: EnvironmentOrder) -> OrderedTree:
    """Return the tree of an order. Raises MalformedError (``environment_order_invalid``) with all faults."""
    faults = tuple(_order_faults(order))
    if faults:
        raise MalformedError("the order of environments is invalid", faults=faults, code=_INVALID)
    return OrderedTree({each.path: each.content for each in order.files}, frozenset(order.names))


def _order_faults(order: EnvironmentOrder) -> Iterator[Fault]:  # 2
    seen: set[str] = set()
    named = [(f"/files/{at}/path", each.path) for at, each in enumerate(order.files)]
    for pointer, path in (*named, *((f"/names/{at}", name) for at, name in enumerate(order.names))):
        if path in seen:
            yield Fault(pointer, "invalid", "the order names this path twice")
        seen.add(path)
        if (fault := path_fault(path.encode())) is not None:
            yield Fault(pointer, "unsafe_path", f"the path {fault}")
    for at, each in enumerate(order.files):
        if hashlib.sha256(each.content).hexdigest() != each.sha256:
            yield Fault(f"/files/{at}/sha256", "digest_differs", "the content has another digest")
    if sum(len(each.content) for each in order.files) > MOST_BYTES:
        yield Fault("/files", "too_large", f"the files have more than {MOST_BYTES >> 20} MiB")


async def fill_order(home: Path, order: EnvironmentOrder, installer: Installer, note: Note) -> tuple[OrderedEnvironment, ...]:
    """Prepare the environments of an order. Raises MalformedError, and as ``prepare_environments`` does."""
    tree = ordered_tree(order)
    made = await prepare_environments(home, tree, order.commands, installer, note)
    return tuple(_describe_environment(prefix) for prefix in made)


def _describe_environment(prefix: Path) -> OrderedEnvironment:
    record = read_record(prefix)
    if record is None:
        return OrderedEnvironment(prefix=str(prefix))
    return OrderedEnvironment(
        prefix=str(prefix),
        ecosystem=record.ecosystem,
        record_sha256=hashlib.sha256((prefix / PREPARED).read_bytes()).hexdigest(),
        egress_sha256=(record.egress.head or None) if record.egress is not None else None,
    )


def check_result(order: EnvironmentOrder, result: EnvironmentResult) -> tuple[Path, ...]:
    """Return the prefixes of a result. Raises NotPreparedError for one that the order cannot have."""
    if fault := result_fault(wanted_ecosystems(order.commands), result):  # 3
        raise NotPreparedError(fault)
    return tuple(Path(each.prefix) for each in result.environments)


@dataclass(frozen=True)
class _AskedTree:
    """The tree of a question. ``missing`` collects paths whose content is not known yet."""

    question: OrderQuestion
    missing: list[str] = field(default_factory=list)

    @property
    def paths(self) -> frozenset[str]:
        return frozenset(self.question.paths)

    async def read(self, path: str) -> bytes | None:
        """See ``TreeFiles.read``."""
        if path not in self.question.files and path in self.question.paths:
            self.missing.append(path)
        return self.question.files.get(path)


def answer_question(question: bytes) -> bytes:
    """Return the ``OrderAnswer`` to an ``OrderQuestion``: for a child process, which has no repository."""
    asked = msgspec.msgpack.decode(question, type=OrderQuestion)
    tree, ecosystems = _AskedTree(asked), tuple(wanted_ecosystems(asked.commands))
    try:
        order = codec.encode(asyncio.run(environment_order(tree, asked.commands)))
        answer = OrderAnswer(order, ecosystems=ecosystems)
    except NotPreparedError as error:
        answer = OrderAnswer(fault=error.message, ecosystems=ecosystems)
    if tree.missing:
        answer = OrderAnswer(missing=tuple(dict.fromkeys(tree.missing)))
    return msgspec.msgpack.encode(answer)
