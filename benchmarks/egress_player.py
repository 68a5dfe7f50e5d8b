"""Plays attempts inside a sandbox, without any package: ``python egress_player.py FILE``.

``FILE`` is JSON: ``attempts`` (name, target of CONNECT or null, name in TLS or null, text), and ``marks`` for the ways of
``hostile.py``, which lies beside this file. It prints a line of JSON for each one: name, time of its start, outcome. The clock
is the one of the whole machine, so that a server outside knows what belongs to an attempt.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import ssl
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

#: Seconds in which an answer must begin, and between two attempts: what arrives late still belongs to the first one.
_ANSWER, _PAUSE = 3.0, 0.1


def play(tunnel: str | None, sni: str | None, text: str) -> str:
    """Send an attempt to the proxy of this sandbox. Return the first line of the last answer."""
    proxy = urlsplit(os.environ["HTTPS_PROXY"])
    sent: socket.socket = socket.create_connection((proxy.hostname, proxy.port), _ANSWER)
    try:
        if tunnel is None:
            first, _, others = text.partition("\r\n")
            sent.sendall(f"{first}\r\n{_authorization(proxy.username, proxy.password)}{others}".encode("latin-1"))
            return _first_line(sent)
        head = f"CONNECT {tunnel} HTTP/1.1\r\nHost: {tunnel}\r\n{_authorization(proxy.username, proxy.password)}\r\n"
        sent.sendall(head.encode("latin-1"))
        answer = _first_line(sent)
        if " 200" not in answer:
            return answer
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # a hostile client does not check
        sent = context.wrap_socket(sent, server_hostname=sni)
        sent.sendall(text.encode("latin-1"))
        return _first_line(sent)
    finally:
        sent.close()


def _authorization(user: str | None, password: str | None) -> str:
    if user is None:
        return ""
    words = f"{unquote(user)}:{unquote(password or '')}"
    return f"Proxy-Authorization: Basic {base64.b64encode(words.encode()).decode()}\r\n"


def _first_line(receiving: socket.socket) -> str:
    """Return the first line of the next answer that is not ``100 Continue``."""
    data = b""
    while b"\r\n\r\n" not in data and (part := receiving.recv(1)):  # what follows an answer to CONNECT is TLS
        data += part
    first = data.partition(b"\r\n")[0].decode("latin-1")
    return _first_line(receiving) if " 100 " in first else first


def outcome(act: Callable[[], object]) -> str:
    try:
        return str(act() or "sent")
    except (OSError, ValueError) as error:
        return type(error).__name__


def main(place: Path) -> None:
    given: dict[str, Any] = json.loads(place.read_text())
    acts: dict[str, Callable[[], object]] = {name: partial(play, *words) for name, *words in given["attempts"]}
    if given["marks"]:
        import hostile  # type: ignore[import-not-found] # a copy beside this file

        acts |= hostile.ways(given["marks"])
    for name, act in acts.items():
        started = time.monotonic()
        print(json.dumps([name, started, outcome(act)]), flush=True)
        time.sleep(_PAUSE)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
