"""The gatekeeper as a process: its parts put together, and the loops that feed it. Nothing is judged or decided here."""

from __future__ import annotations

import asyncio
import contextlib
from importlib import metadata

from gatewright.bus.port import Delivery, Subscription
from gatewright.bus.topology import INTAKE_CONSUMER, RESULT_CONSUMER, SUBMIT_SUBJECT, Consumer
from gatewright.errors import ConfigurationError, UnavailableError
from gatewright.evidence import keys
from gatewright.evidence.signing import Signer
from gatewright.evidence.writer import BundleWriter
from gatewright.git.mirror import Mirrors
from gatewright.host_facts import program_versions
from gatewright.ledger.store import Ledger
from gatewright.secrets.scanner import SecretScanner
from gatewright.service.process import Service
from services.gatekeeper.artifact_cache import ArtifactCache
from services.gatekeeper.conductor import Conductor
from services.gatekeeper.desk import Desk
from services.gatekeeper.gates.judge import Gates
from services.gatekeeper.gates.locks import PathLocks
from services.gatekeeper.gates.secrets import SecretsCheck
from services.gatekeeper.policies import load
from services.gatekeeper.settings import Settings

#: Seconds that one look into a queue lasts; a stop is noticed that soon.
POLL = 0.1
#: Seconds between two attempts to seal what the disk did not take.
DEBTS = 2.0


async def serve(service: Service, settings: Settings) -> None:
    """Take messages until the process is told to leave; what is in hand is finished first, or comes again by redelivery."""
    conductor, desk = assemble(service, settings)
    async with contextlib.AsyncExitStack() as stack:
        queues = [await _open(service, consumer, stack) for consumer in (INTAKE_CONSUMER, RESULT_CONSUMER)]
        slots = asyncio.Semaphore(settings.parallel_inputs)
        async with asyncio.TaskGroup() as group:
            # Beside everything else: the first look for secrets waits for it, and the process ends when it cannot be had.
            group.create_task(asyncio.to_thread(desk.scanner.prepare))
            await conductor.resume()
            await service.register({SUBMIT_SUBJECT: desk.submit})
            group.create_task(_pay_debts(service, conductor))
            for consumer, queue in queues:
                group.create_task(_feed(service.stop, queue, consumer, desk, slots, group))
        if desk.background:
            await asyncio.wait(desk.background, timeout=settings.drain_seconds)


def assemble(service: Service, settings: Settings) -> tuple[Conductor, Desk]:
    """The gatekeeper's parts. Raises ConfigurationError when a policy file or the signing key cannot be used."""
    policies = load(settings.policies)
    signer = Signer(keys.load_or_create(settings.signing_key))
    ledger = Ledger(service.bus)

    async def has_ended(run_id: str) -> bool:
        run = (await ledger.load(run_id)).run
        return run is None or run.ended

    locks = PathLocks(service.bus, has_ended)
    mirrors = Mirrors(settings.directory("gatekeeper") / "mirrors")
    artifacts = ArtifactCache(service.bus)
    scanner = settings.scanner()
    gates = Gates(policies, mirrors, artifacts, locks, service.clock, versions(scanner), SecretsCheck(scanner))
    bundles = BundleWriter(settings.home / "runs")
    conductor = Conductor(service.bus, ledger, gates, bundles, signer, service.clock, service.log, service.metrics)
    return conductor, Desk(service.bus, conductor, service.log, service.metrics, scanner)


def versions(scanner: SecretScanner) -> dict[str, str]:
    """What decides here, for the manifest. Raises ConfigurationError when there is no git."""
    found = program_versions(securesystemslib=metadata.version("securesystemslib"), secret_scanner=scanner.name)
    if "git" not in found:
        raise ConfigurationError("git cannot be run")
    return found


async def _pay_debts(service: Service, conductor: Conductor) -> None:
    """Until the process is told to leave, try to seal what the disk did not take; meanwhile the process says so."""
    while not service.stop.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(service.stop.wait(), DEBTS)
        try:
            await conductor.pay_debts()
        except UnavailableError as error:
            service.log.warning("debts_left_for_later", code=error.reason, cause=error.message)
        if conductor.owed:
            service.readiness.lacks("evidence", next(iter(conductor.owed.values())))
        else:
            service.readiness.has("evidence")


async def _open(service: Service, consumer: Consumer, stack: contextlib.AsyncExitStack) -> tuple[Consumer, Subscription]:
    subscription = await service.bus.consume(consumer)
    stack.push_async_callback(subscription.close)
    return consumer, subscription


async def _feed(
    stop: asyncio.Event,
    queue: Subscription,
    consumer: Consumer,
    desk: Desk,
    slots: asyncio.Semaphore,
    group: asyncio.TaskGroup,
) -> None:
    while not stop.is_set():
        await slots.acquire()
        delivery = await queue.next(POLL)
        if delivery is None:
            slots.release()
            continue
        group.create_task(_hold(delivery, consumer.ack_wait, desk, slots))


async def _hold(delivery: Delivery, ack_wait: float, desk: Desk, slots: asyncio.Semaphore) -> None:
    """Handle one message, saying all the while that it is in hand."""

    async def beat() -> None:
        while True:
            await asyncio.sleep(ack_wait / 3)
            await delivery.in_progress()

    heart = asyncio.create_task(beat())
    try:
        await desk.handle(delivery)
    finally:
        heart.cancel()
        slots.release()
