"""A search service and the sites that it finds: one real HTTP server on loopback, with the endpoint of SearXNG."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from aiohttp import web


class Site:
    """Answers ``/search`` as SearXNG does, and each page by its path; ``seen`` has every request line."""

    def __init__(self, pages: Mapping[str, web.Response | str]) -> None:
        self.pages = dict(pages)
        self.seen: list[str] = []
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @property
    def root(self) -> str:
        return f"http://localhost:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(30)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    async def _start(self) -> None:
        self._runner = web.ServerRunner(web.Server(self._handle, access_log=None), shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "localhost", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.seen.append(f"{request.method} {request.raw_path}")
        if request.path == "/search" and "/search" not in self.pages and request.query.get("format") == "json":
            words = request.query["q"].lower().split()
            found = [
                path for path, page in self.pages.items() if isinstance(page, str) and any(w in page.lower() for w in words)
            ]
            results = [{"url": f"{self.root}{path}", "title": path, "content": "", "engine": "own"} for path in found]
            return web.json_response({"query": request.query["q"], "results": results, "suggestions": []})
        page = self.pages.get(request.path)
        if isinstance(page, web.Response):
            return web.Response(body=page.body, status=page.status, headers=page.headers)
        if page is None:
            return web.Response(status=404)
        return web.Response(text=page, content_type="text/html")
