"""``gatewright show --as`` and ``--packet``: documents that are derived from a run's bundle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from gatewright.app.bills_of_materials import EXPORTS
from gatewright.app.cli.bundle_sources import find_bundle, trusted_keys
from gatewright.app.cli.context import find_place
from gatewright.app.report.account import MAX_READ_BYTES, BundleAccount, read_account
from gatewright.app.report.packet import packet
from gatewright.contracts import CanonicalMemory, DecisionsLog, EnvironmentInventory, ProgressPacket, RunRequest, codec
from gatewright.contracts.vocabulary import Document
from gatewright.environment_inventory.summary import unexplained
from gatewright.errors import MalformedError
from gatewright.evidence import layout
from gatewright.evidence.projection.decisions import as_markdown, decisions_of
from gatewright.evidence.projection.history import RunHistory
from gatewright.evidence.verification.reading import runs_named
from gatewright.evidence.verification.verify import verify
from gatewright.order_artifacts.canonical_memory import MEMORY
from gatewright.run.state import Run
from gatewright.view.revisions import trail_of
from gatewright.work_documents.blocked import blocked_of
from gatewright.work_documents.brief import brief_of
from gatewright.work_documents.done import done_of
from gatewright.work_documents.provenance import provenance_of

KINDS = ("brief", "done", "blocked", "decisions", "trail", "provenance", "progress", "memory", "inventory")


def locate_bundle(given: str | None) -> Path:
    """Return the named bundle: a folder, a run, or for None the newest of the home folder. Raises MalformedError."""
    return find_bundle(given, find_place())


def packet_text(folder: Path) -> str:
    """Return the packet of the bundle in ``folder``, after verification with this host's key. Raises MalformedError."""
    return packet(read_account(folder), verify(folder, trusted_keys(None, find_place())))


def work_document(kind: str, folder: Path) -> Document:
    """Return the document ``kind`` of the run in ``folder``.

    Raises:
        MalformedError: the kind is unknown, the events describe no run, or the run has no such document.
    """
    if kind not in KINDS:
        known = ", ".join((*KINDS, *EXPORTS))
        raise MalformedError(f"a run cannot be printed as {kind!r}, only as {known}", code="invalid_input")
    account = read_account(folder)
    if account.run is None:
        raise MalformedError(f"{folder} records no run: {account.trouble}", code="run_unknown")
    if runs_named(folder) - {account.run.run_id}:
        raise MalformedError(
            f"{folder} holds the events of {account.run.run_id}, not of the run it is called by", code="other_run"
        )
    match kind:
        case "inventory":
            figures = account.run.tests.inventory if account.run.tests is not None else None
            place = layout.artifact(figures.sha256.lower()) if figures is not None else ""
            return _recorded_document(account, place, EnvironmentInventory)
        case "brief":
            return brief_of(account.run, account.records)
        case "blocked":
            return blocked_of(account.run, account.records)
        case "decisions":
            return decisions_of(account.run, account.records)
        case "trail":
            return trail_of(account.run, account.records)
        case "done":
            return done_of(_ended_history(account))
        case "progress":
            return _recorded_document(account, layout.PROGRESS_PACKET, ProgressPacket)
        case "memory":
            return _recorded_document(account, _memory_place(account.run), CanonicalMemory)
        case _:
            return provenance_of(_ended_history(account), account.listed)


def exported_inventory(kind: str, folder: Path) -> str:
    """Return the bill of materials ``kind`` of the environment that the last tests of a run used. Raises MalformedError."""
    inventory, run = work_document("inventory", folder), read_account(folder).run
    if run is None or run.tests is None or not isinstance(inventory, EnvironmentInventory):
        raise MalformedError(f"{folder} has no inventory", code="no_such_document")
    try:
        return EXPORTS[kind](inventory, run.run_id, run.tests.finished_at).decode()
    except ValueError as error:
        raise MalformedError(f"the inventory cannot be exported: {error}") from error


def document_lines(document: Document) -> Iterator[str]:
    """Format a document: decisions in their own format, packages as a table, everything else field by field."""
    if isinstance(document, DecisionsLog):
        yield from as_markdown(document)
    elif isinstance(document, EnvironmentInventory):
        for each in (package for tree in document.trees for package in tree.packages):
            yield f"{each.name:<32} {each.version:<16} {each.licence or 'not measured'}"
        yield from (f"{kind}: {line}" for kind, line in unexplained(document))
    else:
        yield from _fields(msgspec.to_builtins(document), "")


def _fields(value: Any, indent: str) -> Iterator[str]:
    items = value.items() if isinstance(value, Mapping) else (("-", each) for each in value)
    for name, each in items:
        label = f"{indent}{name}" if name == "-" else f"{indent}{name}:"
        if isinstance(each, Mapping) or (isinstance(each, Sequence) and not isinstance(each, str)):
            yield label if each else f"{label} none"
            yield from _fields(each, f"{indent}  ")
        else:
            yield f"{label} {'' if each is None else each}"


def _memory_place(run: Run) -> str:
    """Return the location of the memory that the run received of earlier runs; empty without one."""
    order = run.accepted.request or run.accepted.contract
    given = () if order is None else order.artifacts if isinstance(order, RunRequest) else order.inputs.artifacts
    return next((layout.artifact(each.sha256.lower()) for each in given if each.name == MEMORY), "")


def _recorded_document(account: BundleAccount, path: str, kind: type[Document]) -> Document:
    """Read a document that is a file of the bundle. Raises MalformedError (``no_such_document``), or as decoding does."""
    found = account.excerpt(path, MAX_READ_BYTES)
    if not found.size or found.left_out:
        words = f"there is no {kind.__name__} in {account.folder.name}: the run is open, or was given none"
        raise MalformedError(words, code="no_such_document")
    return codec.decode(found.head, kind)


def _ended_history(account: BundleAccount) -> RunHistory:
    if account.history is None:
        raise MalformedError(account.trouble or "the run has not ended", code="run_not_ended")
    return account.history
