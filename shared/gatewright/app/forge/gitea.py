"""Gitea and Forgejo: their API follows GitHub's, and differs in some calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import msgspec

from gatewright.app.forge.github import GitHubForge
from gatewright.app.forge.port import ChangeRequest
from gatewright.app.forge.rest import is_hmac_of
from gatewright.contracts.forge_policy import ForgeKind


class _Tree(msgspec.Struct, frozen=True):
    sha: str


class _Content(msgspec.Struct, frozen=True):
    tree: _Tree


class _Commit(msgspec.Struct, frozen=True):
    commit: _Content


def request_headers(token: str) -> dict[str, str]:
    """Return the headers of each call."""
    return {"Authorization": f"token {token}", "Accept": "application/json"}


class GiteaForge(GitHubForge):
    """One repository on Gitea or Forgejo."""

    kind: ForgeKind = "gitea"
    delivery_headers: ClassVar[Sequence[str]] = ("x-gitea-delivery", "x-forgejo-delivery")
    event_headers: ClassVar[Sequence[str]] = ("x-gitea-event", "x-forgejo-event")
    writers: ClassVar[frozenset[str]] = frozenset({"owner", "admin", "write"})

    async def request_from(self, head_branch: str, base: str) -> ChangeRequest | None:
        """Return the newest change request from a branch of this project to ``base``, in any state.

        Gitea lists newest first, and has no filter for the head. Older versions also lack the one for the base.
        """
        return await self._newest(head_branch, base, {"base_branch": base})

    async def tree_of(self, commit: str) -> str:
        """Return the id of the tree of a commit."""
        return (await self._http.get(_Commit, *self._repository_path, "git", "commits", commit)).commit.tree.sha

    async def _merge_request(self, number: int, head: str) -> str | None:
        body = {"Do": "merge", "head_commit_id": head}
        await self._http.perform("POST", *self._repository_path, "pulls", number, "merge", body=body)
        return None

    def _is_genuine(self, headers: Mapping[str, str], body: bytes, secret: bytes) -> bool:
        """Return whether all signatures that are present are good: releases send one to three, all of the same kind."""
        plain = [headers[name] for name in ("x-gitea-signature", "x-forgejo-signature") if name in headers]
        if "x-hub-signature-256" not in headers:
            return bool(plain) and all(is_hmac_of(digits, body, secret) for digits in plain)
        return super()._is_genuine(headers, body, secret) and all(is_hmac_of(digits, body, secret) for digits in plain)
