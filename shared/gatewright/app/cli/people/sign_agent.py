"""``sign-agent``: sign decisions of the live page on the person's own host."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from gatewright.app.cli.output import is_interactive, reported, write_line
from gatewright.app.cli.people.signing import As, Key, signing_identity
from gatewright.view.safe_text import printable


def register(app: typer.Typer) -> None:
    app.command("sign-agent")(sign_agent)


@reported
def sign_agent(
    console: Annotated[
        list[str] | None, typer.Option(metavar="URL", help="Console whose page may ask", show_default="http://127.0.0.1:8790")
    ] = None,
    *,
    key: Key = None,
    person: As = "",
    http: Annotated[str, typer.Option(metavar="HOST:PORT", help="Loopback address to listen on")] = "127.0.0.1:8791",
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File with the code that the page must present", show_default="new code, printed"),
    ] = None,
) -> None:
    """Sign decisions of the live page with your own key.

    The agent shows each decision in this terminal, and asks before it signs. Ctrl-C stops it.
    """
    import asyncio
    import secrets

    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.people.agent_server import AgentAccess, SigningAgent, check_agent_address, origin_of, serve_agent
    from gatewright.app.http_access import read_address, read_token
    from gatewright.clock import SystemClock

    host, port = read_address(http)
    check_agent_address(host)
    origins = frozenset(map(origin_of, console or ("http://127.0.0.1:8790", "http://localhost:8790")))
    code = read_token(token_file) if token_file is not None else secrets.token_hex(32)
    access = AgentAccess(frozenset({f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}"}), origins, code)
    terminal = SigningTerminal.own()
    agent = SigningAgent(access, *signing_identity(find_place(), person, key), SystemClock(), terminal.agrees)
    write_line(printable(f"signs for {agent.person}, with {agent.key}, what is decided on {', '.join(sorted(origins))}"))
    write_line("it asks here before each signature, and signs nothing else")
    if token_file is None:
        write_line(f"the code for the page: {code}")
    asyncio.run(serve_agent(agent, host, port))


class SigningTerminal:
    """A question in the terminal. Input from before the question is ignored; the question ends when the page has gone.

    ``descriptor``: terminal to read; questions are written to standard output.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def own(cls) -> SigningTerminal:
        """Return the terminal of this process. Raises ConfigurationError without one: the agent never signs without asking."""
        from gatewright.errors import ConfigurationError

        if not is_interactive():
            raise ConfigurationError("it asks before it signs: start it in a terminal", code="configuration_invalid")
        return cls(sys.stdin.fileno())

    async def agrees(self, lines: Sequence[str], word: str) -> bool:
        """Print ``lines``, which must be printable, and return whether ``word`` was typed. Cancellation ends the question."""
        from gatewright.app.cli.output import forget_typed, typed_line

        for line in lines:
            write_line(line)
        forget_typed(self._descriptor)
        write_line(f"type {word} to sign, anything else to refuse: ")
        return (await typed_line(self._descriptor)).strip() == word
