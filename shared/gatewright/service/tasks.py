"""The process of a role that takes tasks: its handler, the runner, and the handler's report about this host."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from gatewright.bus.topology import Role, task_consumers
from gatewright.errors import GatewrightError, SandboxError
from gatewright.host_errors import check_room, host_errors
from gatewright.service.mirror_care import look_after
from gatewright.service.process import S, Service, run_process
from gatewright.tasks.handler import Probing, TaskHandler
from gatewright.tasks.runner import Runner, RunnerOptions

#: Seconds between two looks at a host that could not do the work.
_PROBE_AGAIN = 15.0


def run_service(
    role: Role,
    make_handler: Callable[[S], TaskHandler[Any]],
    settings_type: type[S],
    *,
    before: Callable[[S], object] | None = None,
) -> int:
    """Serve the tasks of ``role`` until the process receives a signal to stop; return its exit code.

    ``make_handler`` is called once, with the settings; ``before`` precedes it, while there is only one thread. A role's
    main is ``raise SystemExit(run_service(...))``.
    """

    async def body(service: Service, settings: S) -> None:
        tending = asyncio.create_task(look_after(settings.mirror_room(role), service.log))
        try:
            await serve_tasks(service, make_handler(settings), settings)
        finally:
            tending.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await tending

    return run_process(role, body, settings_type, before=before)


async def serve_tasks(service: Service, handler: TaskHandler[Any], settings: S) -> None:
    """Register, then run tasks until ``service.stop`` is set. Raises what ``Runner.run`` raises."""
    options = RunnerOptions(
        concurrency=settings.concurrency,
        drain=settings.drain_seconds,
        grace=settings.grace_seconds,
        room=lambda: check_room(settings.home),
    )
    assert service.role != "puller"  # noqa: S101 - narrows the type: it has no tasks
    runner = Runner(
        service.role,
        handler,
        service.bus,
        clock=service.clock,
        log=service.log,
        metrics=service.metrics,
        options=options,
        consumers=task_consumers(service.role, settings.pool),
        spans=service.spans,
    )
    probing = asyncio.create_task(_probe(service, handler))
    try:
        await service.register()
        await runner.run(service.stop)
    finally:
        probing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await probing


async def _probe(service: Service, handler: TaskHandler[Any]) -> None:
    """Keep the process unready while its handler reports that it cannot work; tasks fail with the same cause."""
    if not isinstance(handler, Probing):
        return
    service.readiness.lacks("probe", "not finished yet")
    while True:
        try:
            with host_errors():
                facts = await handler.probe()
        except GatewrightError as error:
            if isinstance(error, SandboxError):
                service.metrics.sandbox_failed("probe")
            service.log.error("probe_failed", code=error.reason, cause=error.message)  # noqa: TRY400 - the words name the cause
            service.readiness.lacks("probe", error.message)
            await asyncio.sleep(_PROBE_AGAIN)
        else:
            service.log.info("probe_passed", **facts)
            service.readiness.has("probe")
            return
