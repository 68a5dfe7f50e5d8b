"""The adapters by kind of forge."""

from __future__ import annotations

import ssl
import time
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

import httpx2

from gatewright.app.forge import gitea, github, gitlab
from gatewright.app.forge.http import ForgeHttp, HttpLimits
from gatewright.app.forge.port import Forge
from gatewright.contracts.forge_policy import ForgeKind
from gatewright.errors import ConfigurationError
from gatewright.version import __version__


class _Adapter(NamedTuple):
    """``page_size``: name of the parameter for the items of a page."""

    make: Callable[[ForgeHttp, str], Forge]
    request_headers: Callable[[str], dict[str, str]]
    page_size: str


class _TokenAccess(httpx2.Auth):
    """Adds the headers with the token to each call."""

    def __init__(self, token: Callable[[], str], project: str, headers: Callable[[str], dict[str, str]]) -> None:
        self._token = token
        self._project = project
        self._headers = headers

    def read(self) -> str:
        """Return the token. Raises ConfigurationError for characters that no token has."""
        token = self._token()
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise ConfigurationError(f"the token for {self._project} is empty, or has blanks or control characters")
        return token

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Send the request with the headers of the forge, once."""
        request.headers.update(self._headers(self.read()))
        yield request


_ADAPTERS: Final[Mapping[ForgeKind, _Adapter]] = {
    "github": _Adapter(github.GitHubForge, github.request_headers, "per_page"),
    "gitlab": _Adapter(gitlab.GitLabForge, gitlab.request_headers, "per_page"),
    "gitea": _Adapter(gitea.GiteaForge, gitea.request_headers, "limit"),
}


@asynccontextmanager
async def connect_forge(
    kind: ForgeKind,
    api: str,
    project: str,
    token: Callable[[], str],
    *,
    limits: HttpLimits | None = None,
    now: Callable[[], float] = time.time,
) -> AsyncIterator[Forge]:
    """Yield one project on a forge; its connections end with the block.

    Args:
        kind: kind of the forge.
        api: base address of its API: ``https://api.github.com``, ``https://HOST/api/v3`` of GitHub Enterprise,
            ``https://HOST/api/v4`` of GitLab, ``https://HOST/api/v1`` of Gitea and Forgejo.
        project: full name of the project (``owner/name``, on GitLab also ``group/subgroup/name``).
        token: reads an access token of the forge. Each call reads it, so that a replaced token needs no restart.
        limits: bounds of each call.
        now: seconds of the epoch.

    Raises:
        ConfigurationError: the token has characters that no token has.
    """
    adapter, bounds = _ADAPTERS[kind], limits or HttpLimits()
    access = _TokenAccess(token, project, adapter.request_headers)
    access.read()
    # No compressed answers: few bytes could unpack to very many. No proxy and no .netrc of the environment.
    headers = {"User-Agent": f"gatewright/{__version__}", "Accept-Encoding": "identity"}
    async with httpx2.AsyncClient(
        base_url=api,
        headers=headers,
        auth=access,
        timeout=bounds.seconds,
        verify=ssl.create_default_context(),
        trust_env=False,
        follow_redirects=False,
    ) as client:
        yield adapter.make(ForgeHttp(client, adapter.page_size, bounds, now), project)
