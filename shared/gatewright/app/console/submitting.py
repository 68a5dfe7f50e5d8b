"""The form with which operators submit runs: judged live by the gates' own rules, then sent as a publisher."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from gatewright.app.console.access_check import SESSION_COOKIE, SignedInPerson, check_sender, read_form, status_of
from gatewright.app.console.orders import MAKERS, MOST_BYTES, form_sections, request_of
from gatewright.app.console.pages import ConsolePages
from gatewright.app.console.roles import may
from gatewright.client.client import Client
from gatewright.contracts import GateReport, RoleContractSummary, RunRequest
from gatewright.errors import DeniedError, GatewrightError, LimitError
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
