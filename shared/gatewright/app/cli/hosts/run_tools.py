"""Tools of a host for runs: start one, preview decisions, follow it, read its output, abort it, verify and read its bundle."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Concatenate

from mcp_types import CallToolResult
from pydantic import Field

from gatewright.app.cli.bundle_sources import receive_bundle, trust
from gatewright.app.cli.dry_run import ChangeLocation, ask_gates, read_contract, verdict_lines
from gatewright.app.cli.evidence import Checked, verification_document
from gatewright.app.cli.evidence import verdict_lines as verification_lines
from gatewright.app.cli.hosts.access import Detail, HostAccess, Tools, answer, excerpt, refuse_known_errors
from gatewright.app.cli.runs.listing import run_details, run_entry
from gatewright.app.cli.runs.result import closing_words, read_stream, result_of, streams_of
from gatewright.app.cli.runs.sources import find_run
from gatewright.app.cli.settings import operator_access
from gatewright.app.cli.show import ReadModelKind, read_model
from gatewright.app.order_document import order_document
from gatewright.client.client import json_of
from gatewright.client.reverts import RevertChoices
from gatewright.contracts import RunRequest, TaskContract, codec
from gatewright.errors import MalformedError, UnavailableError
from gatewright.evidence.verification.verify import verify
from gatewright.ledger.role_bindings import role_contract_summary
from gatewright.order_form.rows import Row, ToolArgument
from gatewright.order_form.run_options import order_rows
from gatewright.view.merge_queue import place_words

#: Maximum seconds that one call waits for the end of a run: hosts limit a tool to about a minute.
LONGEST_WAIT = 50
_MOST_FILES = 2000
#: Maximum bytes of a bundle's file for a host; ``gatewright`` reads larger ones.
_LARGEST = 16 << 20

RunName = Annotated[str, Field(max_length=80, description="A run id, or the beginning of one.")]


def submitting(
    tool: Callable[Concatenate[Tools, ...], Awaitable[CallToolResult]],
) -> Callable[Concatenate[Tools, ...], Awaitable[CallToolResult]]:
    """Expand the argument ``values`` of a tool into the rows of the table of options that tools show, each by its key."""
    shown = [(row, row.tool) for row in order_rows() if row.tool is not None]
    before, *after = inspect.signature(tool, eval_str=True).parameters.values()
    rows = [
        inspect.Parameter(
            row.key,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if argument.required else None,
            annotation=_annotation(row, argument),
        )
        for row, argument in shown
    ]
    others = [each for each in after if each.name != "values"]

    @functools.wraps(tool)
    async def with_rows(self: Tools, /, **given: Any) -> CallToolResult:
        return await tool(self, values={row.name: given.pop(row.key, None) for row, _ in shown}, **given)

    parameters = [before.replace(kind=inspect.Parameter.POSITIONAL_ONLY), *rows, *others]
    with_rows.__signature__ = inspect.Signature(parameters, return_annotation=CallToolResult)  # type: ignore[attr-defined]
    return with_rows


def _annotation(row: Row, argument: ToolArgument) -> Any:
    description = argument.description or row.help
    if row.kind.many:
        return Annotated[list[str], Field(max_length=argument.most, description=description)]
    least = 1 if argument.required else None
    text = str if argument.required else str | None
    return Annotated[text, Field(min_length=least, max_length=argument.most, description=description)]


@dataclass(frozen=True, slots=True)
class SubmittingTools:
    """Tools that start or abort runs."""

    access: HostAccess

    @refuse_known_errors
    @submitting
    async def submit_run(
        self,
        *,
        values: Mapping[str, Any],
        fields: Annotated[
            dict[str, Any] | None, Field(description="Further fields of run_request.v1: baseline_ref, environment, budget ...")
        ] = None,
    ) -> CallToolResult:
        """Order a change: it lands only if it stays within `paths`, passes every gate and makes `tests` succeed.

        Discloses to Gatewright, and to the agents and models that its operator configured: the request, the patch and the
        repository's committed content. Returns the run id at once; follow it with wait_for_run.
        """
        document = self._document(values, fields or {})
        async with self.access.client() as client:
            run_id = await client.submit_request(document, patience=float(LONGEST_WAIT))
        return answer({"run_id": run_id, "follow_with": "wait_for_run"})

    @refuse_known_errors
    async def revert_run(
        self,
        run_id: RunName,
        reason: Annotated[str, Field(min_length=1, max_length=1000)],
        tests: Annotated[list[str] | None, Field(max_length=200, description="Default: the commands of the run.")] = None,
    ) -> CallToolResult:
        """Order a run that takes back what a run landed, on the same branch. All gates apply."""
        choices = RevertChoices("mcp host", self.access.ordered_by, reason=reason, tests=tuple(tests or ()))
        async with self.access.client() as client:
            reverting = await client.revert(run_id, choices, access=operator_access())
        return answer({"run_id": reverting, "follow_with": "wait_for_run"})

    @refuse_known_errors
    async def abort_run(self, run_id: RunName, reason: Annotated[str, Field(min_length=1, max_length=1000)]) -> CallToolResult:
        """End an open run of this publisher. Nothing of it lands; its evidence is kept."""
        async with self.access.client() as client:
            found = await client.get(run_id)
            await client.abort(found.run_id, reason)
        return answer({"run_id": found.run_id, "asked": not found.ended, "status": found.status})

    def _document(self, values: Mapping[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
        """Build a run_request.v1. Raises MalformedError for two ways to make the change, or for no repository."""
        patch = values.get("patch")
        if patch is not None and values.get("agent") is not None:
            raise MalformedError("a change is made by a patch or by an agent, not by both", code="invalid_input")
        place = values.get("repo") or (str(self.access.repository) if self.access.repository is not None else None)
        if place is None:
            raise MalformedError("no repository is named, and this server was given none", code="invalid_input")
        given = fields.get("repository") or {}
        if not isinstance(given, dict):
            raise MalformedError("fields.repository is an object, as in run_request.v1", code="invalid_input")
        return {
            **fields,
            # An empty list of paths or tests stays empty, regardless of ``fields``.
            "allowed_paths": [],
            "acceptance_tests": [],
            **order_document({**values, "patch": _bytes_of(patch) if patch is not None else None}),
            "repository": {"url": place, **given},
            "requested_by": "mcp host",
            "ordered_by": self.access.ordered_by,
        }


def _bytes_of(patch: str) -> bytes:
    try:
        return patch.encode()
    except UnicodeEncodeError as error:
        raise MalformedError(f"the patch holds half of a character: {error}", code="invalid_input") from error


@dataclass(frozen=True, slots=True)
class FollowingTools:
    """Read-only tools."""

    access: HostAccess

    @refuse_known_errors
    async def explain_policy(
        self, document: Annotated[dict[str, Any], Field(description="A run_request.v1 or task_contract.v1.")]
    ) -> CallToolResult:
        """Show what the gates of this host's policies would decide about a request or contract. It starts no run."""
        data = json_of(document)
        contract = "task_id" in document and "request" not in document
        submitted = codec.decode(data, TaskContract) if contract else codec.decode(data, RunRequest)
        compiled = await asyncio.to_thread(read_contract, submitted)
        asked = await asyncio.to_thread(
            ask_gates,
            compiled,
            ChangeLocation(),
            judge_policy=True,
            publisher=self.access.publisher,
            kind="contract" if contract else "request",
        )
        violations = [violation for report in asked.reports for violation in report.violations]
        role = role_contract_summary(codec.decode(compiled, TaskContract))
        words = verdict_lines(asked)
        return answer({"passed": asked.passed, "words": words, "violations": violations, "role_contract_summary": role})

    @refuse_known_errors
    async def run_status(self, run_id: RunName, detail: Detail = "compact") -> CallToolResult:
        """Show a run: its result, refused gates, the process of each task and since when, and what to do next.

        `full` has every task and gate.
        """
        return answer(await self._report_progress(run_id, detail))

    @refuse_known_errors
    async def wait_for_run(
        self, run_id: RunName, seconds: Annotated[int, Field(ge=1, le=LONGEST_WAIT)] = 30, detail: Detail = "compact"
    ) -> CallToolResult:
        """Wait until a run has ended and is sealed, or for `seconds`, and return its state. Call again while it is open."""
        async with self.access.client() as client:
            with contextlib.suppress(UnavailableError):
                await client.ended((await client.get(run_id)).run_id, timeout=float(seconds))
        return answer(await self._report_progress(run_id, detail))

    @refuse_known_errors
    async def list_runs(self, limit: Annotated[int, Field(ge=1, le=100)] = 20, before: RunName | None = None) -> CallToolResult:
        """List this publisher's runs, newest first; with `before`, those older than that run."""
        async with self.access.runs() as source:
            page = await source.page(limit, before)
        return answer({"runs": [run_entry(view, page.claims) for view in page.views], "more": page.more})

    @refuse_known_errors
    async def merge_queues(
        self, branch: Annotated[str, Field(max_length=1000, description="Only queues of this branch.")] = ""
    ) -> CallToolResult:
        """List merge queues with this publisher's runs: what is ahead of each, positions under test, and holds.

        Runs of other publishers are counted and not named.
        """
        async with self.access.client() as client:
            queues = await client.merge_queues(branch=branch)
        places = {run.run_id: place_words(queue, run.run_id, datetime.now(UTC)) for queue in queues for run in queue.entries}
        return answer({"queues": queues, "places": places})

    @refuse_known_errors
    async def run_roles(self, run_id: RunName, model: ReadModelKind = "role_binding_read_model") -> CallToolResult:
        """List the assignees of a run's tasks, as a read model of its contracts. Only the contract orders and permits."""
        async with self.access.runs() as source:
            return answer(await read_model(model, source, await find_run(source, run_id)))

    @refuse_known_errors
    async def read_log(
        self,
        run_id: RunName,
        stream: Annotated[
            int, Field(ge=0, le=10_000, description="Number of the output, from 0; without it all are listed.")
        ] = -1,
        first_line: Annotated[int, Field(ge=1)] = 1,
        lines: Annotated[int, Field(ge=1, le=2000)] = 200,
    ) -> CallToolResult:
        """Read the output of a run's commands, without secrets."""
        async with self.access.runs() as source:
            view = await source.view(await find_run(source, run_id))
            streams = streams_of(view.run)
            if stream < 0:
                return answer({"run_id": view.run.run_id, "streams": [each.title for each in streams]})
            if stream >= len(streams):
                raise MalformedError(f"{view.run.run_id} has {len(streams)} outputs, from 0 on", code="invalid_input")
            data = await read_stream(streams[stream], view, source.output)
        text = (data or b"").decode("utf-8", "replace")
        return answer({"run_id": view.run.run_id, "title": streams[stream].title, **excerpt(text, first_line, lines)})

    async def _report_progress(self, wanted: str, detail: Detail) -> Any:
        async with self.access.runs() as source:
            view = await source.view(await find_run(source, wanted))
            waits, claims = await source.waits(view), await source.claims(view.run.run_id)
        if detail == "full":
            return run_details(view, waits=waits, claims=claims)
        refused = [gate for gate in view.gates if gate.verdict == "FAIL"]
        return {
            "result": result_of(view),
            "state": view.run.state,
            "attempt": view.run.attempt,
            "ended": view.run.ended,
            "refused_by": [{"gate": gate.gate, "code": gate.code, "summary": gate.summary} for gate in refused],
            "in_hand": run_entry(view, claims).in_hand,
            "waits": waits,
            "words": closing_words(view),
        }


@dataclass(frozen=True, slots=True)
class EvidenceTools:
    """Tools for bundles of the publisher's own runs. The gatekeeper sends no others."""

    access: HostAccess

    @refuse_known_errors
    async def verify_run(self, run_id: RunName, detail: Detail = "compact") -> CallToolResult:
        """Verify the signed bundle of an ended run, on this host, with the keys that its home folder trusts."""
        trusted = await asyncio.to_thread(trust, (), self.access.place)
        async with self._bundle(run_id) as bundle:
            result = await asyncio.to_thread(verify, bundle, [each.public for each in trusted])
        signer = next((each.known for each in trusted if each.public.key_id == result.signer), None)
        checked = Checked(result, signer)
        if detail == "full":
            return answer(verification_document(checked))
        return answer(
            {"ok": result.ok, "outcome": result.outcome, "run_id": result.run_id, "words": verification_lines(checked)}
        )

    @refuse_known_errors
    async def list_bundle(self, run_id: RunName) -> CallToolResult:
        """List the files of the bundle of an ended run, with their sizes in bytes."""
        async with self._bundle(run_id) as bundle:
            files = await asyncio.to_thread(_list_files, bundle)
        listed = [{"path": path, "bytes": size} for path, size in files[:_MOST_FILES]]
        return answer({"run_id": bundle.name, "files": listed, "cut": len(files) > _MOST_FILES})

    @refuse_known_errors
    async def read_bundle_file(
        self,
        run_id: RunName,
        path: Annotated[str, Field(max_length=1000, description="As list_bundle names it.")],
        first_line: Annotated[int, Field(ge=1)] = 1,
        lines: Annotated[int, Field(ge=1, le=2000)] = 400,
    ) -> CallToolResult:
        """Read lines of one text file of a bundle: a report, the patch, events. It is not verified: use verify_run."""
        text = await self.bundle_text(run_id, path)
        return answer({"path": path, **excerpt(text, first_line, lines)})

    async def bundle_text(self, run_id: str, path: str) -> str:
        """Return a text file of a bundle. Raises MalformedError if the bundle has no file of that name."""
        async with self._bundle(run_id) as bundle:
            sizes = dict(await asyncio.to_thread(_list_files, bundle))
            if path not in sizes or sizes[path] > _LARGEST:
                raise MalformedError(
                    f"the bundle of {bundle.name} has no file {path} that could be shown", code="invalid_input"
                )
            data = await asyncio.to_thread((bundle / path).read_bytes)
        if b"\0" in data:
            raise MalformedError(f"{path} is no text", code="invalid_input")
        return data.decode("utf-8", "replace")

    @contextlib.asynccontextmanager
    async def _bundle(self, wanted: str) -> AsyncIterator[Path]:
        """Yield the bundle in a temporary folder. Raises as ``received`` does."""
        async with self.access.runs() as source:
            run_id = await find_run(source, wanted)
        with tempfile.TemporaryDirectory(prefix="gatewright-host-") as folder:
            async with self.access.client() as client:
                bundle = await receive_bundle(client, run_id, Path(folder))
            yield bundle


def _list_files(bundle: Path) -> list[tuple[str, int]]:
    """Return regular files with their sizes, by name. Archives were checked when they were unpacked."""
    found = (path for path in bundle.rglob("*") if path.is_file() and not path.is_symlink())
    return sorted((path.relative_to(bundle).as_posix(), path.stat().st_size) for path in found)
