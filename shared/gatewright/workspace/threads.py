"""Blocking work in a thread that is always awaited: nothing may be cleaned up while it still writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from gatewright.errors import UnavailableError
from gatewright.host_errors import host_error
from gatewright.sandbox.process.uncancelled import finish_uncancelled

P = ParamSpec("P")
T = TypeVar("T")


async def finish(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run ``work`` in a thread to its end; raise a cancellation afterwards.

    Raises the errors of ``work``; an OSError becomes HostError if it is this host's (no space, no permission), else
    UnavailableError (``workspace_unavailable``).
    """
    try:
        return await finish_uncancelled(asyncio.to_thread(work, *args, **kwargs))
    except OSError as error:
        words = f"the files of the workspace cannot be used: {error}"
        raise host_error(error) or UnavailableError(words, code="workspace_unavailable") from error
