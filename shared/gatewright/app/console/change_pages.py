"""The change of a run, piece by piece: the list of its files, and the lines of one file.

Each piece names the change that it is a piece of. A change that was replaced meanwhile is refused, so that a person does not
read one change and decide another.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from gatewright.app.console.access_check import status_of
from gatewright.app.console.bundles import ChangeShelf
from gatewright.app.console.change_browser import ChangeIndex, draw_file, draw_tree
from gatewright.app.console.drawing import LIMITS, as_markup
from gatewright.app.console.pages import ConsolePages
from gatewright.errors import DeniedError, GatewrightError, MalformedError


@dataclass(slots=True)
class ChangePages:
    """The pages of a change. With ``part=1`` an answer is only the fragment, for a script; else it is a page."""

    pages: ConsolePages
    changes: ChangeShelf

    def routes(self) -> list[Route]:
        return [Route("/runs/{run_id}/files", self.files), Route("/runs/{run_id}/files/{number:int}", self.file)]

    async def files(self, request: Request) -> Response:
        """The files that the filter ``match`` lets through."""
        try:
            run_id, index = await self._index(request)
        except GatewrightError as error:
            return self._refusal_page(request, error)
        return self._piece(draw_tree(index, run_id, request.query_params.get("match", ""), LIMITS))

    async def file(self, request: Request) -> Response:
        """The lines of one file, after the first ``from`` of them."""
        number = int(request.path_params["number"])
        skipped = request.query_params.get("from", "0")
        try:
            run_id, index = await self._index(request)
            if not 1 <= number <= len(index.files):
                raise MalformedError(f"the change has {len(index.files)} files; there is no file {number}", code="not_found")
        except GatewrightError as error:
            return self._refusal_page(request, error)
        start = int(skipped) if skipped.isascii() and skipped.isdecimal() and len(skipped) < 10 else 0
        drawn = draw_file(index, run_id, number, start, LIMITS)
        if request.query_params.get("part") == "1":
            return self._piece(drawn)
        board = (await self.pages.link.board_follower()).board
        return self.pages.page(
            request, "file.html", board, run_id=run_id, index=index, number=number, lines=as_markup(drawn), start=start
        )

    async def _index(self, request: Request) -> tuple[str, ChangeIndex]:
        """Return the requested change. Raises MalformedError (``run_unknown``), DeniedError (another change)."""
        await self.pages.link.board_follower()
        detail = await self.pages.detail(request)
        account = await self.pages.shelf.account(detail.run)
        index = await self.changes.index(detail, account)
        if index is None:
            raise MalformedError(f"{detail.run.run_id} has no change that can be read here", code="artifact_unavailable")
        wanted = request.query_params.get("change", index.key)
        if wanted != index.key:
            raise DeniedError("the change was replaced since the page was loaded: load the page again", code="approval_void")
        return detail.run.run_id, index

    def _refusal_page(self, request: Request, error: GatewrightError) -> Response:
        if request.query_params.get("part") != "1":
            return self.pages.refused(request, error)
        text = self.pages.templates.get_template("piece_refused.html").render(error=error)
        return HTMLResponse(text, status_of(error))

    def _piece(self, drawn: Iterable[Element]) -> Response:
        return HTMLResponse(as_markup(drawn))
