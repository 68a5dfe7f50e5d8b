"""``approvals watch``: notify people of new requests on the screen, by a command or by a webhook.

One digest covers all new requests. It holds the fields of the list and no more: no patch, no text of the order, no key. A
failed notice is retried after a pause, and never delays a run. What waits is asked of the gatekeeper, so a restarted process
repeats notices of requests that still wait; the key of a notice shows a receiver which it has.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatewright.app.cli.options import JsonOutput
from gatewright.app.cli.output import emit, note, reported, write_line
from gatewright.app.cli.people.inbox import open_inbox, waiting
from gatewright.view.safe_text import printable

if TYPE_CHECKING:
    from gatewright.app.cli.context import CommandContext
    from gatewright.client.approvals import ApprovalInbox
    from gatewright.contracts.people.approvals import ApprovalStanding

#: Timeout of a command or a webhook in seconds.
_PATIENCE = 10.0


@reported
def watch(
    *,
    command: Annotated[
        str, typer.Option(metavar="CMD", help="Command that receives each digest as JSON on standard input")
    ] = "",
    webhook: Annotated[str, typer.Option(metavar="URL", help="Address that receives each digest by POST")] = "",
    every: Annotated[float, typer.Option(min=0.2, metavar="SECONDS", help="Time between two queries of the gatekeeper")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Report the requests that wait now, and exit")] = False,
    json_output: JsonOutput = False,
) -> None:
    """Report new requests here, to a command or to a webhook."""
    import asyncio

    from gatewright.app.cli.context import find_place

    asyncio.run(watch_inbox(find_place(), Notifier(command, webhook), every, once=once, json_output=json_output))


@dataclass
class Notifier:
    """Sends notices. ``received``: requests that each channel has received, with their numbers of delegations at that time.

    ``failures``: failed calls of the webhook since the last good one; it is called again at ``due``, by ``clock`` in seconds.
    """

    command: str = ""
    webhook: str = ""
    received: dict[str, set[str]] = field(default_factory=dict)
    failures: int = 0
    due: float = 0.0
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        from gatewright.errors import ConfigurationError

        if self.webhook and not self.webhook.startswith(("https://", "http://127.0.0.1", "http://localhost", "http://[::1]")):
            raise ConfigurationError("a webhook is an https:// address, or one of this host")

    def new(self, way: str, found: Sequence[ApprovalStanding]) -> list[ApprovalStanding]:
        """Return the requests that a channel has not received yet."""
        known = self.received.setdefault(way, set())
        return [each for each in found if _notice_key(each) not in known]

    def given(self, way: str, found: Sequence[ApprovalStanding]) -> None:
        """Record the requests that a channel has received."""
        self.received.setdefault(way, set()).update(_notice_key(each) for each in found)

    def send_notices(self, found: Sequence[ApprovalStanding]) -> bool:
        """Send new requests to command and webhook, if it is due; return whether no call failed."""
        import msgspec

        delivered = True
        for way, send in (("command", self._run_command), ("webhook", self._post)):
            new = self.new(way, found) if getattr(self, way) else []
            if not new or (way == "webhook" and self.clock() < self.due):
                continue
            if send(msgspec.json.encode(digest(new), order="deterministic")):
                self.given(way, new)
            else:
                delivered = False
        return delivered

    def _run_command(self, data: bytes) -> bool:
        import shlex
        import subprocess

        try:
            finished = subprocess.run(shlex.split(self.command), input=data, timeout=_PATIENCE, check=False)
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            note(f"the command for notices failed: {type(error).__name__}")
            return False
        if finished.returncode != 0:
            note(f"the command for notices ended with exit code {finished.returncode}")
        return finished.returncode == 0

    def _post(self, data: bytes) -> bool:
        from gatewright.pause import retry_pause

        delivered, retry_after = self._call_webhook(data)
        self.failures = 0 if delivered else self.failures + 1
        self.due = 0.0 if delivered else self.clock() + retry_pause(self.failures, retry_after)
        return delivered

    def _call_webhook(self, data: bytes) -> tuple[bool, float | None]:
        """Return whether the webhook accepted a digest, and the seconds to wait that it asks for, if any.

        The header ``Idempotency-Key`` is equal for equal digests.
        """
        import hashlib
        import urllib.request
        from http.client import HTTPException
        from urllib.error import HTTPError

        from gatewright.pause import retry_after_seconds

        headers = {"Content-Type": "application/json", "Idempotency-Key": hashlib.sha256(data).hexdigest()}
        try:
            request = urllib.request.Request(self.webhook, data=data, headers=headers)  # noqa: S310 - http(s) only
            with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:  # noqa: S310 - the same
                return 200 <= answer.status < 300, None
        except HTTPError as error:
            note(f"the webhook for notices answered {error.code}")
            return False, retry_after_seconds(error.headers.get("Retry-After"))
        # A response that is not HTTP raises HTTPException, which is not an OSError.
        except (OSError, HTTPException, ValueError) as error:
            note(f"the webhook for notices failed: {type(error).__name__}")
            return False, None


def _notice_key(standing: ApprovalStanding) -> str:
    """Return the key of a notice: a request that was delegated is sent again."""
    return f"{standing.request.request_id} {len(standing.delegations)}"


def digest(found: Sequence[ApprovalStanding]) -> dict[str, Any]:
    """Build one document of all new requests, with enough to notice them and without confidential content."""
    from gatewright.rules.people.delegations import holders
    from gatewright.rules.transfers import transfer_lines

    return {
        "waiting": len(found),
        "requests": [
            {
                "request_id": each.request.request_id,
                "run_id": each.request.run_id,
                "rule": each.request.rule,
                "risk": each.request.risk,
                "approvers": list(holders(each)),
                "expires_at": each.request.expires_at,
                "transfers": list(transfer_lines(each.request.transfers)),
                "show": f"gatewright approvals show {each.request.request_id}",
            }
            for each in found
        ],
    }


async def watch_inbox(place: CommandContext, notifier: Notifier, every: float, *, once: bool, json_output: bool) -> None:
    """Query repeatedly; a bus that is away is retried.

    ``once``: query one time. Then UnavailableError is raised, also for a notice that was not delivered (``notice_failed``).
    """
    import asyncio

    from gatewright.errors import UnavailableError

    if once:
        async with open_inbox(place) as inbox:
            delivered = await _notify_new(inbox, notifier, json_output=json_output)
        if not delivered:
            raise UnavailableError("a notice was not delivered, see above", code="notice_failed")
        return
    while True:
        try:
            async with open_inbox(place) as inbox:
                while True:
                    if not await _notify_new(inbox, notifier, json_output=json_output):
                        note("a notice was not delivered; it is sent again after a pause")
                    await asyncio.sleep(every)
        except UnavailableError as error:
            note(f"no gatekeeper answers ({error.reason}); it is asked again")
            await asyncio.sleep(every)


async def _notify_new(inbox: ApprovalInbox, notifier: Notifier, *, json_output: bool) -> bool:
    """Print new requests, and send them to command and webhook; return whether every notice was delivered."""
    import asyncio

    found = await waiting(inbox)
    _show(notifier, found, json_output=json_output)
    return await asyncio.to_thread(notifier.send_notices, found)


def _show(notifier: Notifier, found: Sequence[ApprovalStanding], *, json_output: bool) -> None:
    from gatewright.rules.transfers import transfer_lines

    new = notifier.new("screen", found)
    notifier.given("screen", new)
    if new and json_output:
        emit(digest(new))
    for each in () if json_output else new:
        request = each.request
        facts = f"risk {request.risk}  until {request.expires_at}  {request.rule}: {request.why}"
        write_line(printable(f"{request.request_id}  {facts}"))
        for line in transfer_lines(request.transfers):
            write_line(printable(f"  {line}"))
