"""The pages, and the handler of each path. No page changes a run: a decision is signed where the key is."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

import msgspec
from jinja2 import Environment
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from gatewright.app.console.access_check import (
    FORM_COOKIE,
    SESSION_COOKIE,
    SESSION_SECONDS,
    SignedIn,
    read_form,
    same_form,
    status_of,
)
from gatewright.app.console.bundles import BundleShelf, ChangeShelf, discard
from gatewright.app.console.common_look import CommonLook, fingerprint
from gatewright.app.console.drawing import row_html, sections_of
from gatewright.app.console.events import PageStream
from gatewright.app.console.roles import may
from gatewright.app.feed.agent_words import AgentWords
from gatewright.app.feed.link import LedgerLink
from gatewright.clock import Clock
from gatewright.contracts.people.approvals import ApprovalRule
from gatewright.contracts.vocabulary import RunId
from gatewright.errors import GatewrightError, MalformedError
from gatewright.ledger.role_bindings import role_binding_read_model
from gatewright.view.board import Board
from gatewright.view.budgets import budget_bars
from gatewright.view.crew import crew_lanes
from gatewright.view.detail import RunDetail, detail_of
from gatewright.view.filters import choices_of, counts_of, filter_of, lists_of
from gatewright.view.needs import approval_commands, needs_of
from gatewright.view.resuming import event_id
from gatewright.view.revisions import trail_of
from gatewright.view.rows import OPEN_STAGES, BoardRow, with_processes, with_target
from gatewright.work_documents.approval_rule_words import rule_words

#: Lines of one list of ended runs, and of one of open runs, on a page.
MOST_ENDED_SHOWN, MOST_OPEN_SHOWN = 100, 500
#: Maximum number of repositories whose rules are shown.
MOST_REPOSITORIES = 10
#: Bytes of a form that is sent before a sign-in.
_SMALL_FORM = 16_384
#: Maximum number of live pages.
MOST_STREAMS = 200


@dataclass(slots=True)
class ConsolePages:
    """``secure``: cookies require TLS, which a proxy before this server provides. ``agent``: the signing agent.

    ``submits``: whether operators have a form to submit. ``provider``: the host name of the sign-in provider. ``words``:
    the agents' live output.
    """

    link: LedgerLink
    shelf: BundleShelf
    changes: ChangeShelf
    templates: Environment
    signed_in: SignedIn
    clock: Clock
    secure: bool = False
    agent: str = ""
    submits: bool = False
    provider: str = ""
    words: AgentWords | None = None
    streams: int = 0
    look: CommonLook | None = None

    def routes(self) -> list[Route | Mount]:
        return [
            Route("/", self.board),
            Route("/needs", self.needs),
            Route("/policies", self.policies),
            Route("/runs/{run_id}", self.run),
            Route("/runs/{run_id}/bundle.zip", self.bundle),
            Route("/events", self.events),
            Route("/sign-in", self.sign_in, methods=["GET", "POST"]),
            Route("/sign-out", self.sign_out, methods=["POST"]),
            Route("/static/report.css", self.report_css),
            Mount("/static", StaticFiles(packages=[("gatewright.app.console", "static")])),
        ]

    async def board(self, request: Request) -> Response:
        """Show all runs by stage."""
        board, now = (await self.link.board_follower()).board, self.clock.now()
        chosen = filter_of(request.query_params)
        lists = lists_of(board, chosen)
        shown = {stage: rows[: MOST_OPEN_SHOWN if stage in OPEN_STAGES else MOST_ENDED_SHOWN] for stage, rows in lists.items()}
        drawn = {stage: [row_html(self.templates, row, now) for row in rows] for stage, rows in shown.items()}
        return self.page(
            request,
            "board.html",
            board,
            lists=drawn,
            counts=counts_of(board, chosen),
            chosen=chosen,
            choices=choices_of(board),
            most=MOST_ENDED_SHOWN,
            empty=not board.rows,
        )

    async def needs(self, request: Request) -> Response:
        """Show everything that waits for a person, longest first."""
        follower = await self.link.board_follower()
        asks = {each.request_id: each for row in follower.board.rows.values() for each in row.asks}
        return self.page(request, "needs.html", follower.board, asks=asks)

    async def run(self, request: Request) -> Response:
        """Show one run."""
        follower = await self.link.board_follower()
        board = follower.board
        try:
            detail = await self.detail(request)
            account = await self.shelf.account(detail.run)
            claimed = follower.claims.processes.get(detail.run.run_id, {})
            row = with_target(with_processes(detail.row, claimed), follower.claims.moved.get(detail.run.run_id))
            detail = replace(detail, row=row)
            verification = await self.shelf.verified(detail.run) if request.query_params.get("verify") == "1" else None
        except GatewrightError as error:
            return self.refused(request, error)
        index = await self.changes.index(detail, account)
        results = await self.shelf.results(detail.run)
        sections = sections_of(detail, account, index, request.query_params.get("match", ""))
        here = self.shelf.folder(detail.run) is not None
        return self.page(
            request,
            "run.html",
            board,
            detail=detail,
            sections=sections,
            verification=verification,
            bundle_is_here=here,
            results=results,
            asked_now=list(zip(detail.row.asks, detail.row.summaries, strict=True)),
            commands={each.request_id: approval_commands(each) for each in detail.row.asks},
            roles=role_binding_read_model(detail.run),
            crew=crew_lanes(detail.run, detail.gates),
            bars=budget_bars(detail.run, self.clock.now()),
            trail=trail_of(detail.run, detail.records),
            asked=tuple(detail.run.approvals.values()),
            agent_entries=self.words.entries(detail.run.run_id) if self.words is not None else (),
        )

    async def policies(self, request: Request) -> Response:
        """Show the policies of the newest run, and who must approve changes, by repository."""
        board = (await self.link.board_follower()).board
        newest: dict[str, BoardRow] = {}
        for row in sorted(board.rows.values(), key=lambda row: row.order, reverse=True):
            newest.setdefault(row.repository, row)
        first, accepted = next(iter(newest.values()), None), None
        groups: dict[tuple[ApprovalRule, ...], list[str]] = {}
        for row in list(newest.values())[:MOST_REPOSITORIES]:
            with contextlib.suppress(GatewrightError):
                detail = detail_of(await self.link.client.events(row.run_id), self.clock.now())
                if detail is not None:
                    accepted = accepted or detail.run.accepted
                    groups.setdefault(detail.run.accepted.approval_rules, []).append(row.repository)
        drawn = [{"repositories": urls, "rules": [rule_words(rule) for rule in rules]} for rules, urls in groups.items()]
        return self.page(request, "policies.html", board, newest=first, accepted=accepted, groups=drawn)

    async def bundle(self, request: Request) -> Response:
        """The bundle of a sealed run as a file to take away."""
        await self.link.board_follower()
        try:
            detail = await self.detail(request)
            if detail.run.sealed is None:
                raise MalformedError(f"{detail.run.run_id} is not sealed yet", code="run_not_ended")
            file = await self.shelf.archive(detail.run)
        except GatewrightError as error:
            return self.refused(request, error)
        name = f"{detail.run.run_id}.zip"
        done = BackgroundTask(discard, file)
        return FileResponse(file, media_type="application/octet-stream", filename=name, background=done)

    async def events(self, request: Request) -> Response:
        """Stream the updates of an open page."""
        if self.streams >= MOST_STREAMS:
            return Response("too many pages are open\n", 503, media_type="text/plain")
        follower = await self.link.board_follower()
        if self.look is None or self.look.follower is not follower:
            self.look = CommonLook(follower, lambda row: row_html(self.templates, row, self.clock.now()), self.clock.now)
        query = request.query_params
        view = query.get("view", "")
        stream = PageStream(
            self.look,
            chosen=filter_of(query) if view == "board" else None,
            run_id=query.get("run", "") if view == "run" else "",
            needs=query.get("needs", ""),
            words=self.words,
            heard=int(heard) if (heard := query.get("heard", "")).isascii() and heard.isdecimal() and len(heard) < 16 else 0,
        )
        position = request.headers.get("last-event-id") or query.get("after", "")
        return StreamingResponse(self._count_stream(stream.run(position)), media_type="text/event-stream")

    async def report_css(self, _request: Request) -> Response:
        """Return the style sheet of the report's sections."""
        return Response(files("gatewright.app.report").joinpath("page.css").read_bytes(), media_type="text/css")

    async def sign_in(self, request: Request) -> Response:
        """Show the form for the token, or process it."""
        cookie = request.cookies.get(FORM_COOKIE, "")
        if request.method == "POST":
            form = await self._small_form(request)
            if same_form(cookie, form.get("mark", "")):
                session = self.signed_in.sign_in(form.get("token", ""))
                if session is not None:
                    response = RedirectResponse("/", 303)
                    self._cookie(response, SESSION_COOKIE, session)
                    return response
        mark = cookie if len(cookie) >= 32 else secrets.token_urlsafe(32)
        template = self.templates.get_template("sign_in.html")
        wrong = request.method == "POST"
        known = self.signed_in
        text = template.render(
            mark=mark, wrong=wrong, wanted=known.wanted, tokens=bool(known.tokens), provider=self.provider, error=None
        )
        answer = HTMLResponse(text, 403 if wrong else 200)
        self._cookie(answer, FORM_COOKIE, mark)
        return answer

    async def sign_out(self, request: Request) -> Response:
        """Ends the session of this browser."""
        form = await self._small_form(request)
        if not same_form(request.cookies.get(FORM_COOKIE, ""), form.get("mark", "")):
            return Response("this form was not made here\n", 403, media_type="text/plain")
        self.signed_in.sign_out(request.cookies.get(SESSION_COOKIE, ""))
        response = RedirectResponse("/sign-in", 303)
        response.delete_cookie(SESSION_COOKIE)
        return response

    async def _small_form(self, request: Request) -> dict[str, str]:
        """Return the form of a possibly unknown person; an oversized or malformed one is empty."""
        with contextlib.suppress(MalformedError):
            return await read_form(request, _SMALL_FORM)
        return {}

    async def detail(self, request: Request) -> RunDetail:
        """Raises MalformedError (``run_unknown``), GatewrightError as the client does."""
        run_id = request.path_params["run_id"]
        try:
            checked = msgspec.convert(run_id, RunId)
        except msgspec.ValidationError:
            checked = ""
        detail = detail_of(await self.link.client.events(checked), self.clock.now()) if checked else None
        if detail is None:
            raise MalformedError(f"there is no run {run_id[:80]}", code="run_unknown")
        return detail

    async def _count_stream(self, stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        self.streams += 1
        try:
            async for event in stream:
                yield event
        finally:
            self.streams -= 1

    def refused(self, request: Request, error: GatewrightError) -> Response:
        follower = self.link.follower
        board = follower.board if follower is not None else Board()
        return self.page(request, "error.html", board, status=status_of(error), error=error)

    def page(self, request: Request, template: str, board: Board, *, status: int = 200, **values: Any) -> Response:
        follower = self.link.follower
        now = self.clock.now()
        found = needs_of(board, follower.letters, now, follower.silent) if follower is not None else ()
        cookie = request.cookies.get(FORM_COOKIE, "")
        mark = cookie if len(cookie) >= 32 else secrets.token_urlsafe(32)
        role = self.signed_in.role_of(request.cookies.get(SESSION_COOKIE, ""))
        text = self.templates.get_template(template).render(
            now=now,
            at=event_id(board),
            needs=found,
            needs_mark=fingerprint(found),
            connected=follower is not None and follower.connected,
            mark=mark,
            signs_in=self.signed_in.wanted,
            role=role or "viewer",
            agent=self.agent if role is not None and may(role, "approver") else "",
            origin=f"{'https' if self.secure else 'http'}://{request.headers.get('host', '')}",
            submits=self.submits and role is not None and may(role, "operator"),
            path=request.url.path,
            **values,
        )
        answer = HTMLResponse(text, status)
        if mark != cookie:
            self._cookie(answer, FORM_COOKIE, mark)
        return answer

    def _cookie(self, response: Response, name: str, value: str) -> None:
        response.set_cookie(
            name, value, max_age=int(SESSION_SECONDS), httponly=True, samesite="strict", secure=self.secure, path="/"
        )
