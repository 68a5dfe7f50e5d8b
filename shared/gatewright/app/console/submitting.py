"""The form with which operators submit runs: judged live by the gates' own rules, then sent as a publisher."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from gatewright.app.console.access_check import SESSION_COOKIE, SignedInPerson, check_sender, read_form, status_of
from gatewright.app.console.pages import ConsolePages
from gatewright.app.console.roles import may
from gatewright.app.order_document import order_document
from gatewright.client.client import Client
from gatewright.contracts import GateReport, RoleContractSummary, RunRequest, codec
from gatewright.errors import DeniedError, Fault, GatewrightError, LimitError, MalformedError
from gatewright.executor_kinds import EXECUTOR_KINDS
from gatewright.order_form.rows import FormField, Kind, Row, Section
from gatewright.order_form.run_options import ANY_AGENT, order_rows, row
from gatewright.reasons import advice_for
from gatewright.view.filters import choices_of

#: Seconds that a gatekeeper is waited for which is starting.
_PATIENCE = 20.0
#: Branches that the form offers.
MOST_BRANCHES = 500


class Explanation(Protocol):
    """The gates' verdict on an unsent request; ``unjudged``: checks that could not run, described.

    ``role``: the role that its contract would resolve to.
    """

    @property
    def reports(self) -> tuple[GateReport, ...]: ...

    @property
    def unjudged(self) -> tuple[str, ...]: ...

    @property
    def role(self) -> RoleContractSummary: ...


@dataclass(frozen=True, slots=True)
class SubmitAccess:
    """Access for submitting. ``connect`` opens a publisher's connection; ``explain`` runs this host's gates, in a thread.

    ``environments``: those of the system; None if unknown here. ``branches``: of a repository, in a thread. All but
    ``environments`` raise GatewrightError.
    """

    connect: Callable[[], AbstractAsyncContextManager[Client]]
    explain: Callable[[RunRequest], Explanation]
    environments: Callable[[], tuple[str, ...] | None] = lambda: None
    branches: Callable[[str], tuple[str, ...]] = lambda _repository: ()


@dataclass(slots=True)
class SubmitPaths:
    """The submission paths; without ``access`` this console submits nothing."""

    pages: ConsolePages
    access: SubmitAccess | None
    _explaining: asyncio.Lock = field(default_factory=asyncio.Lock)
    _listing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def routes(self) -> list[Route]:
        return [
            Route("/submit", self.submit, methods=["GET", "POST"]),
            Route("/submit/check", self.check, methods=["POST"]),
            Route("/submit/branches", self.branches),
        ]

    async def submit(self, request: Request) -> Response:
        """Show the form, or submit it and redirect to the page of the run."""
        try:
            access = self._access(request)
            if request.method == "GET":
                return await self._form(request, {"idempotency_key": secrets.token_hex(16), "maker": "command"})
            fields = await self._read_form(request)
        except GatewrightError as error:
            return self.pages.refused(request, error)
        try:
            document = request_of(fields, self._person(request))
            async with access.connect() as client:
                run_id = await client.submit_request(document, patience=_PATIENCE)
        except GatewrightError as error:
            return await self._form(request, fields, error)
        return RedirectResponse(f"/runs/{run_id}", 303)

    async def check(self, request: Request) -> Response:
        """Show the verdict on the form's current content, rule by rule, as a fragment. Starts nothing."""
        try:
            access = self._access(request)
            document = request_of(await self._read_form(request), self._person(request))
            if self._explaining.locked():
                raise LimitError("the gates are asked about another request", code="service_busy")
            async with self._explaining:
                found = await asyncio.to_thread(access.explain, document)
        except GatewrightError as error:
            return self._part(error=error, found=None)
        return self._part(error=None, found=found)

    async def branches(self, request: Request) -> Response:
        """The branches of a repository that there is a run of, as choices for the form; none where they cannot be read."""
        try:
            access = self._access(request)
            url = request.query_params.get("repository", "")
            known = choices_of((await self.pages.link.board_follower()).board)["repository"]
            if self._listing.locked():
                raise LimitError("the branches of another repository are being read", code="service_busy")
            async with self._listing:
                found = await asyncio.to_thread(access.branches, url) if url in known else ()
        except GatewrightError:
            found = ()
        return HTMLResponse(self.pages.templates.get_template("branches.html").render(branches=found[:MOST_BRANCHES]))

    def _access(self, request: Request) -> SubmitAccess:
        """Raises DeniedError (``console_read_only``, ``role_not_allowed``)."""
        if self.access is None:
            raise DeniedError("nothing is submitted here: this console has no publisher's identity", code="console_read_only")
        role = self.pages.signed_in.role_of(request.cookies.get(SESSION_COOKIE, ""))
        if role is None or not may(role, "operator"):
            raise DeniedError(f"a {role} submits nothing here: it takes the role operator", code="role_not_allowed")
        return self.access

    def _person(self, request: Request) -> SignedInPerson | None:
        return self.pages.signed_in.person_of(request.cookies.get(SESSION_COOKIE, ""))

    async def _read_form(self, request: Request) -> dict[str, str]:
        """The fields of a form of this browser. Raises DeniedError."""
        fields = await read_form(request, MOST_BYTES)
        check_sender(request, self.pages.signed_in, fields.pop("mark", None), "operator")
        return fields

    async def _form(self, request: Request, fields: Mapping[str, str], error: GatewrightError | None = None) -> Response:
        board = (await self.pages.link.board_follower()).board
        return self.pages.page(
            request,
            "submit.html",
            board,
            status=200 if error is None else status_of(error),
            fields=fields,
            error=error,
            advice=advice_for(error.reason) if error is not None else None,
            makers=MAKERS,
            sections=form_sections(),
            person=self._person(request),
            repositories=choices_of(board)["repository"],
            environments=self.access.environments() if self.access is not None else None,
        )

    def _part(self, *, error: GatewrightError | None, found: Explanation | None) -> Response:
        violations = [each for report in found.reports for each in report.violations] if found is not None else []
        advice = dict.fromkeys(words for each in violations if (words := advice_for(each.code)))
        text = self.pages.templates.get_template("check.html").render(
            error=error, found=found, violations=violations, advice=list(advice)
        )
        return HTMLResponse(text)


# A run request as people write it into the form of the live page. Pure.
# The fields of the form are the rows of the table of options (``gatewright.order_form``) that have a ``form``.

#: Maximum bytes of a submitted form, where most characters of a patch take one byte and some three.
MOST_BYTES: Final = 6_000_000
#: The ways to make the change: the kinds of executor whose option the form shows.
MAKERS: Final = {name: kind.label for name, kind in EXECUTOR_KINDS.items() if row(kind.option).form is not None}
#: Name of the orderer if the sign-in names no person.
_NO_PERSON = "the live page"
#: The value of a box that is ticked.
_TICKED = "on"


def form_sections() -> dict[str, tuple[tuple[Row, FormField], ...]]:
    """The rows that the form shows, and how, by the part of the form."""
    shown = [(each, each.form) for each in order_rows() if each.form is not None]
    return {section: tuple(pair for pair in shown if pair[1].section is section) for section in Section}


def request_of(fields: Mapping[str, str], person: SignedInPerson | None = None) -> RunRequest:
    """Return the request of a form; empty lines are ignored.

    ``person`` has sent the form: the orderer of the run and author of its commit; None: the sign-in names no person. Raises
    MalformedError (``invalid_input``) with a fault for each missing or wrong field.
    """
    maker = fields.get("maker", "")
    shown = [each for part in form_sections().values() for each in part if each[1].maker in {"", maker}]
    missing = [
        Fault(f"/{each.key}", "required", form.required)
        for each, form in shown
        if form.required and not fields.get(each.key, "").strip()
    ]
    if maker not in MAKERS:
        missing.append(Fault("/maker", "required", "select who makes the change"))
    if missing:
        raise MalformedError("this cannot be run", faults=tuple(missing), code="invalid_input")
    values = {each.name: _form_value(each, form, fields.get(each.key, "")) for each, form in shown}
    if maker == "agent" and not values["agent"]:
        values["agent"] = ANY_AGENT
    document: dict[str, Any] = {
        **order_document(values),
        "requested_by": person.names[0] if person is not None else _NO_PERSON,
        "ordered_by": person.names if person is not None else (),
    }
    if person is not None and person.author is not None:
        document["author"] = msgspec.to_builtins(person.author)
    if fields.get("idempotency_key", "").strip():
        document["idempotency_key"] = fields["idempotency_key"].strip()
    return codec.decode(msgspec.json.encode(document), RunRequest)


def _form_value(each: Row, form: FormField, text: str) -> Any:
    """Return a person's input in the form that ``order_document`` accepts."""
    if each.name == "patch":
        # Browsers send the ends of lines as CR LF.
        return (text.replace("\r\n", "\n").rstrip("\n") + "\n").encode() if text.strip() else b""
    if each.kind is Kind.FLAG:
        return text == _TICKED
    if each.kind.many:
        lines = text.splitlines() if form.rows > 1 else [text]
        return tuple(line.strip() for line in lines if line.strip())
    return text.strip()
