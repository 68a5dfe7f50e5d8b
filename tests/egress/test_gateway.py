"""The gateway as an honest installer sees it."""

from __future__ import annotations

import hashlib

from tests.egress.registry import FILES, INDEX, Registry, get, served


async def test_an_installer_reads_a_page_of_a_registry(registry: Registry) -> None:
    async with served(registry) as door:
        reply = await door.ask(f"{INDEX}:{registry.port}", get(registry, "/simple/demo/"))
    assert (reply.status, reply.body, reply.cut) == (200, b"index", False)
    assert registry.paths == ["GET /simple/demo/"]
    line = door.log[0]
    assert (line.source, line.host, line.ip, line.path) == ("index", f"{INDEX}:{registry.port}", "127.0.0.1", "/simple/demo/")
    assert (line.status, line.bytes, line.decision, line.reason) == (200, 5, "allowed", "")
    assert line.sha256 == hashlib.sha256(b"index").hexdigest()
