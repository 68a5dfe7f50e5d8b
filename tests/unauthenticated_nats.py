"""A NATS server on which one connection may do everything, for tests of what the bus does, not of who may do it."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Self

from gatewright.app.stack.nats_server import NatsServer
from gatewright.bus.permissions import API_PREFIX
from gatewright.bus.server_config import BUS_ACCOUNT

USER = "everybody"


class OpenServer(NatsServer):
    """Its ``url`` holds a password, and no seed is needed."""

    password = ""

    @classmethod
    async def open(cls, directory: Path, *, port: int = -1, password: str | None = None, storage: int | None = None) -> Self:
        """Start it; the streams are those that ``directory`` holds. ``storage``: bytes that its account may keep."""
        password = password or secrets.token_hex(16)
        users = [{"user": USER, "password": password}]
        jetstream: object = "enabled" if storage is None else {"max_file": storage}
        account = {"jetstream": jetstream, "mappings": {f"{API_PREFIX}.>": "$JS.API.>"}, "users": users}
        self = await cls.launch(directory, {BUS_ACCOUNT: account}, directory, port=port)
        self.password = password
        return self

    @property
    def url(self) -> str:
        return super().url.replace("//", f"//{USER}:{self.password}@")
