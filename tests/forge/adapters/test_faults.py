"""Each method of the port meets each fault of a forge: one of two families of errors, and never the token in a message."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from gatewright.app.forge.adapters import connect_forge
from gatewright.app.forge.port import Check, CheckState, Forge, ForgeUnavailableError
from gatewright.contracts.forge_policy import ForgeKind
from gatewright.errors import ConfigurationError, DeniedError, GatewrightError
from tests.forge.adapters.worlds import FEATURE, KINDS, NOW, RUN_HEAD, world_of
from tests.forge.standin.faults import Fault
from tests.forge.standin.server import TOKEN, Standin
from tests.forge.standin.state import commit_id

Method = Callable[[Forge], Awaitable[Any]]


async def list_open(forge: Forge) -> Any:
    return [request async for request in forge.open_requests()]


METHODS: Mapping[str, Method] = {
    "request": lambda forge: forge.request(FEATURE),
    "request_from": lambda forge: forge.request_from("feature", "main"),
    "open_requests": list_open,
    "open_request": lambda forge: forge.open_request("run-1", "main", "A title", "A body"),
    "close_request": lambda forge: forge.close_request(FEATURE),
    "checks": lambda forge: forge.checks(RUN_HEAD),
    "set_check": lambda forge: forge.set_check("gatewright", Check(RUN_HEAD, CheckState.PENDING, "Started.")),
    "comment": lambda forge: forge.comment(FEATURE, "marker"),
    "add_comment": lambda forge: forge.add_comment(FEATURE, "A text"),
    "edit_comment": lambda forge: forge.edit_comment(FEATURE, 1, "A text"),
    "may_write": lambda forge: forge.may_write("ana"),
    "merge": lambda forge: forge.merge(FEATURE, commit_id("feature")),
    "tree_of": lambda forge: forge.tree_of(RUN_HEAD),
}
_WORDS = b'{"message": "No \\u001b[31m, and your token is %s\\n"}' % TOKEN.encode()
_RESET = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(NOW) + 90)}
#: By name: the fault, the reason of the error, and the seconds that the forge asks to wait.
FAULTS: Mapping[str, tuple[Fault, str, float | None]] = {
    "internal error": (Fault(status=500, body=_WORDS), "forge_unavailable", None),
    "bad gateway with a page": (Fault(status=502, body=b"<html>502</html>"), "forge_unavailable", None),
    "busy for seconds": (Fault(status=503, headers={"Retry-After": "17"}), "forge_unavailable", 17.0),
    "busy until a date": (
        Fault(status=429, headers={"Retry-After": "Thu, 01 Jan 2026 00:01:00 GMT"}),
        "forge_unavailable",
        60.0,
    ),
    "busy for a century": (Fault(status=429, headers={"Retry-After": "3155760000"}), "forge_unavailable", 3600.0),
    "busy until nonsense": (Fault(status=503, headers={"Retry-After": "tomorrow"}), "forge_unavailable", None),
    "limit used up": (Fault(status=403, headers=_RESET, body=_WORDS), "forge_unavailable", 90.0),
    "second limit": (
        Fault(status=403, body=b'{"message": "You have exceeded a secondary rate limit."}'),
        "forge_unavailable",
        None,
    ),
    "forbidden": (Fault(status=403, body=_WORDS), "forge_denied", None),
    "token expired": (Fault(status=401, body=_WORDS), "forge_denied", None),
    "unprocessable": (Fault(status=422, body=_WORDS), "forge_refused", None),
    "conflict": (Fault(status=409, body=b'{"message": ["a", {"b": 1}]}'), "forge_refused", None),
    "redirect": (Fault(status=301, headers={"Location": "http://127.0.0.1:9/"}), "forge_refused", None),
    "cut answer": (Fault("cut"), "forge_unavailable", None),
    "endless body": (Fault("huge"), "forge_unavailable", None),
    "compressed": (Fault(status=200, headers={"Content-Encoding": "gzip"}), "forge_unavailable", None),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_every_fault_of_a_forge_is_one_error_of_every_method(fault: str, standin: Standin) -> None:
    injected, reason, wait = FAULTS[fault]
    async with world_of(standin) as world:
        for name, method in METHODS.items():
            world.standin.recover()
            world.standin.fail(replace(injected))
            error = await error_of(method, world.forge)
            assert (name, error.reason) == (name, reason)
            assert getattr(error, "retry_after", None) == wait


@pytest.mark.parametrize("body", [b'{"number": 1', b"[1]", b'"text"', b"null", b"\xff\xfe", b"[" * 5000, b'{"id": "1"}', b""])
async def test_an_answer_that_cannot_be_read_is_no_answer(body: bytes, standin: Standin) -> None:
    # The answers to these two calls have no content of interest.
    methods = {name: method for name, method in METHODS.items() if name not in ("set_check", "edit_comment")}
    async with world_of(standin) as world:
        world.standin.fail(Fault(status=200, body=body))
        for name, method in methods.items():
            error = await error_of(method, world.forge)
            assert (name, error.reason) == (name, "forge_unavailable")


async def test_a_forge_that_never_answers_is_left_in_time(standin: Standin) -> None:
    async with world_of(standin, seconds=0.2) as world:
        world.standin.fail(Fault("hang"))
        assert (await error_of(METHODS["request"], world.forge)).reason == "forge_unavailable"
        assert (await error_of(METHODS["add_comment"], world.forge)).reason == "forge_unavailable"


@pytest.mark.parametrize("name", ["open_requests", "comment", "checks"])
async def test_a_list_that_never_ends_is_left(name: str, standin: Standin) -> None:
    async with world_of(standin) as world:
        world.standin.fail(Fault("endless"))
        assert (await error_of(METHODS[name], world.forge)).reason == "forge_unavailable"
        assert len(world.standin.app.calls) <= 6


async def test_a_token_follows_no_redirect(standin: Standin) -> None:
    with Standin(standin.kind) as elsewhere:
        async with world_of(standin) as world:
            world.standin.fail(Fault(status=307, headers={"Location": elsewhere.api + "/user"}))
            for method in METHODS.values():
                assert (await error_of(method, world.forge)).reason == "forge_refused"
        assert elsewhere.app.calls == []


async def test_a_wrong_token_is_denied(standin: Standin) -> None:
    async with world_of(standin, token="another-token") as world:
        for method in METHODS.values():
            assert (await error_of(method, world.forge)).reason == "forge_denied"


async def test_a_replaced_token_needs_no_restart(standin: Standin) -> None:
    tokens = ["another-token"]
    async with connect_forge(standin.kind, standin.api, standin.project, lambda: tokens[-1]) as forge:
        assert (await error_of(METHODS["request"], forge)).reason == "forge_denied"
        tokens.append(TOKEN)
        await METHODS["request"](forge)
        tokens.append("two words")
        with pytest.raises(ConfigurationError, match="blanks"):
            await METHODS["request"](forge)
    standin.reset()


async def test_a_message_hides_the_sent_token_also_when_another_has_replaced_it(standin: Standin) -> None:
    read: list[str] = []

    def token() -> str:
        read.append("read")
        return TOKEN if len(read) <= 2 else "another-token"  # at the start, and for the one call

    standin.fail(Fault(status=401, body=_WORDS))
    async with connect_forge(standin.kind, standin.api, standin.project, token) as forge:
        assert "***" in str(await error_of(METHODS["request"], forge))
    standin.reset()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_host_that_refuses_connections_is_unavailable(kind: ForgeKind) -> None:
    with Standin(kind) as standin:
        api = standin.api
    async with connect_forge(kind, api, standin.project, lambda: TOKEN) as forge:
        assert (await error_of(METHODS["request"], forge)).reason == "forge_unavailable"


@pytest.mark.parametrize("login", [".", "..", ""])
async def test_a_login_of_dots_is_no_part_of_a_path(login: str, standin: Standin) -> None:
    async with world_of(standin) as world:
        if standin.kind == "gitlab":  # it finds a login by a parameter
            assert not await world.forge.may_write(login)
            return
        with pytest.raises(DeniedError) as caught:
            await world.forge.may_write(login)
        assert caught.value.reason == "forge_refused"
        assert world.standin.app.calls == []


@pytest.mark.parametrize("token", ["", "a b", "secret\r\nX-Admin: 1", "secr\u00e9t"])
async def test_a_token_that_breaks_a_header_is_refused_without_showing_it(token: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        async with connect_forge("github", "http://127.0.0.1:9", "acme/shop", lambda: token):
            pass
    assert "secr" not in str(caught.value)


async def error_of(method: Method, forge: Forge) -> GatewrightError:
    """Return the error of a call: of one of two classes, on one line, without the token, also in its traceback."""
    with pytest.raises((ForgeUnavailableError, DeniedError)) as caught:
        await method(forge)
    assert str(caught.value).isprintable()
    assert TOKEN not in "".join(traceback.format_exception(caught.value))
    return caught.value
