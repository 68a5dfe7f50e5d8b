"""The stand-in as an ASGI application: routes, faults, and a record of all calls."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar
from urllib.parse import parse_qsl, unquote

from tests.forge.standin.faults import Fault
from tests.forge.standin.state import ForgeState, RefusalError

T = TypeVar("T")

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
_NOT_FOUND = 404
_HUGE_PART = b"[" * 65_536


@dataclass(frozen=True)
class Call:
    """``route``: method and template of the path; ``names``: what its placeholders stand for."""

    method: str
    path: str
    route: str
    names: Mapping[str, str]
    query: Mapping[str, str]
    body: Any

    def number(self, name: str) -> int:
        return int(self.names[name])


@dataclass(frozen=True)
class Reply:
    """``more``: whether another page follows."""

    status: int
    document: Any
    more: bool = False


class Face(Protocol):
    """An API over the state."""

    state: ForgeState
    #: Path of the API below the server.
    root: str

    @property
    def routes(self) -> Mapping[str, Callable[[Call], Reply]]: ...
    def is_authorised(self, headers: Mapping[str, str]) -> bool: ...
    def refusal(self, status: int, message: str) -> Any: ...
    def check_call(self, call: Call) -> Sequence[str]:
        """Return what is wrong with a call of the client by the official description."""
        ...

    def check_reply(self, call: Call, reply: Reply) -> Sequence[str]:
        """Return what is wrong with an answer of the stand-in by the official description."""
        ...


@dataclass
class StandinApp:
    """``violations``: differences from the official description, by either side."""

    face: Face
    faults: list[Fault] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        call, headers = await self._read(scope, receive)
        self.calls.append(call)
        fault = next((fault for fault in self.faults if fault.meets(call.method, call.path)), None)
        if fault is not None:
            fault.times -= 1
        if fault is None or fault.performed or fault.kind == "endless":
            reply = self._perform(call, headers)
        if fault is None or fault.kind == "endless":
            link = f'<http://elsewhere.example{call.path}?page=2>; rel="next"' if reply.more or fault is not None else ""
            extra = {"Link": link} if link else {}
            await _answer(send, reply.status, json.dumps(reply.document).encode(), extra)
        else:
            await _fail(fault, receive, send)

    def _perform(self, call: Call, headers: Mapping[str, str]) -> Reply:
        if not self.face.is_authorised(headers):
            return Reply(401, self.face.refusal(401, "Bad credentials"))
        handler = self.face.routes.get(call.route)
        if handler is None:
            self.violations.append(f"{call.method} {call.path}: there is no such call")
            return Reply(_NOT_FOUND, self.face.refusal(_NOT_FOUND, "Not Found"))
        self.violations += self.face.check_call(call)
        try:
            reply = handler(call)
        except RefusalError as error:
            reply = Reply(error.status, self.face.refusal(error.status, error.message))
        self.violations += self.face.check_reply(call, reply)
        return reply

    async def _read(self, scope: Message, receive: Receive) -> tuple[Call, Mapping[str, str]]:
        content = b""
        while True:
            message = await receive()
            content += message.get("body", b"")
            if not message.get("more_body"):
                break
        path = scope["raw_path"].decode().removeprefix(self.face.root)
        route, names = self._route(scope["method"], path)
        query = dict(parse_qsl(scope["query_string"].decode(), keep_blank_values=True))
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        return Call(scope["method"], path, route, names, query, json.loads(content) if content else None), headers

    def _route(self, method: str, path: str) -> tuple[str, Mapping[str, str]]:
        """Match undecoded segments, as a project of GitLab is one of them."""
        segments = path.split("/")
        for route in self.face.routes:
            wanted_method, template = route.split(" ", 1)
            parts = template.split("/")
            pairs = list(zip(parts, segments, strict=False))
            alike = len(parts) == len(segments) and all(part == one or part.startswith("{") for part, one in pairs)
            if wanted_method == method and alike:
                return route, {part.strip("{}"): unquote(one) for part, one in pairs if part.startswith("{")}
        return f"{method} {path}", {}


def one_page(items: Sequence[T], call: Call, size_name: str) -> tuple[Sequence[T], bool]:
    """Return the requested page, and whether another follows."""
    size, page = int(call.query.get(size_name, "30")), int(call.query.get("page", "1"))
    return items[(page - 1) * size : page * size], len(items) > page * size


async def _answer(send: Send, status: int, body: bytes, headers: Mapping[str, str]) -> None:
    described = {"Content-Type": "application/json", **headers}
    pairs = [(name.lower().encode(), value.encode()) for name, value in described.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})


async def _fail(fault: Fault, receive: Receive, send: Send) -> None:
    match fault.kind:
        case "hang":
            while (await receive())["type"] != "http.disconnect":
                pass
        case "cut":
            # An application that returns early: the server ends the connection.
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"100")]})
            await send({"type": "http.response.body", "body": b'{"number": ', "more_body": True})
        case "huge":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for _ in range(1024):
                await send({"type": "http.response.body", "body": _HUGE_PART, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        case _:
            await _answer(send, fault.status, fault.body, fault.headers)
