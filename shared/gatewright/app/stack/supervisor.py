"""The embedded stack: a NATS server and the role processes on this host, kept alive together and stopped together.

It knows how they are started, not what they do. It holds the home folder while it runs and announces itself in
``stack.json``. Start it from the main thread: its processes die with the thread that started them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gatewright.app.stack import state
from gatewright.app.stack.fork_server import SERVICES, START_ORDER, Ahead, ForkServer, open_fork_server
from gatewright.app.stack.launch import ProcessPlan, Running, execute
from gatewright.app.stack.nats_server import NatsServer
from gatewright.app.stack.own_policies import write_own_policies
from gatewright.app.stack.processes import Identity, adopt_orphans, end_descendants, identity, own_children, snapshots
from gatewright.app.stack.start_patience import StartPatience, progress_of
from gatewright.app.stack.store_watch import until_restart_helps
from gatewright.app.stack.supervised_process import RestartPolicy, RestartRecord, SupervisedProcess
from gatewright.bus import identities
from gatewright.bus.identities import OPERATOR, PROVISIONER, PULLER, BusAddress, bus_keys, process_identity, seed_file
from gatewright.bus.ledger_layout import PARTITIONS, read_partitions
from gatewright.bus.stream_settings import DAYS, SIZES, StreamSettings
from gatewright.clock import Clock, SystemClock
from gatewright.environment_state import MADE
from gatewright.errors import BusError, HostError, UnavailableError
from gatewright.evidence.signing.keys import home_key
from gatewright.host_errors import check_room, host_errors, until_room
from gatewright.sandbox.offers import OFFERS_FILE, clear_offers
from gatewright.tasks.inputs import EVERY

log = logging.getLogger(__name__)

#: Those that may call models; the gatekeeper and the test runner never do, and see no key.
MODEL_ROLES = frozenset({"pm", "techlead", "worker", "reviewer"})

_ENVIRONMENTS = "GATEWRIGHT_ENVIRONMENTS"
_CASSETTE = "GATEWRIGHT_CASSETTE"
_OFFERS = "GATEWRIGHT_ENVIRONMENT_OFFERS"
_POLICIES = "GATEWRIGHT_POLICIES"
_KEY = "GATEWRIGHT_KEY"
_OWN_REGISTRIES = "GATEWRIGHT_OWN_REGISTRIES"
_PULLER_PROGRAM = "gatewright.app.puller"
_PING_SECONDS = 0.5
_PING_PAUSE = 0.03


@dataclass(frozen=True, slots=True, kw_only=True)
class StackOptions:
    """Options of a stack. ``home`` is absolute; ``environments`` are prefixes that contracts may name.

    ``model_keys`` are variables with providers' keys, only for the roles that call models. ``repository_keys`` are
    variables of single roles, by role: credentials of repositories. ``shared``: others may submit to it; otherwise it
    serves one run. ``base_environment`` is all that the roles inherit. ``grace``: seconds that a process has to end by
    itself. ``adopt``: also end what the roles leave behind, with all that this process has started since. Each role is a
    package of ``package``, run as a program.
    """

    home: Path
    base_environment: Mapping[str, str]
    model_keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    repository_keys: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    workers: int = 1
    environments: tuple[Path, ...] = ()
    shared: bool = False
    grace: float = 3.0
    adopt: bool = False
    #: Whether the owner of the home is asked about CI files where no policies are named (``own_policies``).
    owner_rule: bool = True
    #: Variables of installers, for a puller with this host's own registries; None for no puller.
    puller: Mapping[str, str] | None = field(default=None, repr=False)
    roles: tuple[str, ...] = START_ORDER
    policy: RestartPolicy = field(default_factory=RestartPolicy)
    package: str = SERVICES
    #: See ``gatewright.app.stack.lingering``; 0 and empty for a stack that does not linger.
    linger: float = 0.0
    fingerprint: str = ""
    #: A fork server for these roles that may have been opened by now.
    ahead: Ahead = field(default_factory=Ahead, repr=False, compare=False)

    def module(self, role: str) -> str:
        """The program of a role."""
        return f"{self.package}.{role}"


class Supervisor:
    """One embedded stack: ``start`` it, use ``address``, watch ``broken``, ``stop`` it."""

    def __init__(self, options: StackOptions, clock: Clock | None = None) -> None:
        self.options = options
        self._clock = clock or SystemClock()
        self._held = contextlib.ExitStack()
        self._store = options.home / "nats"
        self._offers = options.home / OFFERS_FILE
        self._policies = options.base_environment.get(_POLICIES, "")
        self._server: NatsServer | None = None
        self._spared: Mapping[int, Identity] = {}
        self._server_keeper: asyncio.Task[None] | None = None
        self._fork_server: ForkServer | None = None
        self._kept: list[SupervisedProcess] = []
        self._starting: asyncio.Future[list[None]] | None = None
        self._ready = False
        self._running = False
        self._fault = ""

    @property
    def address(self) -> BusAddress:
        """The bus as an operator reaches it; the same for as long as the stack runs."""
        if self._server is None:
            raise UnavailableError("the stack is not running", code="no_stack")
        return self._server.address(OPERATOR)

    @property
    def environments(self) -> tuple[str, ...]:
        """Return the prefixes that contracts may name: those of the operator's own setting, and those of the options."""
        settled = self.options.base_environment.get(_ENVIRONMENTS, "").split(os.pathsep)
        pulled = () if self.options.puller is None else (str(self.options.home.resolve() / MADE / EVERY),)
        return tuple(dict.fromkeys(filter(None, (*settled, *map(str, self.options.environments), *pulled))))

    @property
    def _streams(self) -> StreamSettings:
        """Raises ConfigurationError."""
        environment = self.options.base_environment
        return StreamSettings.of(environment.get(SIZES, ""), environment.get(DAYS, ""))

    @property
    def _partitions(self) -> int:
        """Return the number of streams of the ledger. Raises ConfigurationError."""
        return read_partitions(self.options.base_environment.get(PARTITIONS, ""))

    @property
    def members(self) -> tuple[state.Member, ...]:
        """The processes as they are now: the NATS server, the fork server while it lives, the roles."""
        members = [state.Member("nats-server", self._server.pid)] if self._server else []
        if self._fork_server is not None and self._fork_server.alive:
            members.append(state.Member("fork-server", self._fork_server.pid))
        return (*members, *(kept.member for kept in self._kept))

    async def start(self) -> None:
        """Start everything; return when each role has a process, while these are still starting.

        Raises UnavailableError (code ``home_in_use``) if another stack has the home folder, or if the NATS server does not
        start, ConfigurationError if a program is missing. All started processes are stopped then.
        """
        await self.begin()
        try:
            await self._all_started()
        except BaseException:
            await self.stop()
            raise

    async def begin(self) -> None:
        """``start``, but return when the NATS server answers: processes of roles may still be missing.

        ``broken`` and ``ready`` report their failures.
        """
        self._held.enter_context(state.exclusive(self.options.home))
        self._running = True
        try:
            clear_offers(self._offers)
            if self.options.adopt:
                self._spared = own_children()
                self._held.callback(adopt_orphans())
            self._fork_server = self.options.ahead.take() or await self._open_fork_server()
            # Imported only now: the NATS client takes as long as the fork server's start, and on another core.
            from gatewright.bus.jetstream.setup import ensure_topology

            check_room(self.options.home)
            if not self._policies and self.options.owner_rule:
                key = self.options.base_environment.get(_KEY, "")
                self._policies = str(write_own_policies(self.options.home, Path(key) if key else home_key(self.options.home)))
            identities.make(
                bus_keys(self.options.home), (process_identity("worker", n + 1) for n in range(self.options.workers))
            )
            self._server = await self._launch_server()
            self._server_keeper = asyncio.create_task(self._keep_server(), name="keep nats-server")
            for plan in self._plans():
                self._kept.append(self._supervise_process(plan))
            # The topology is made while the roles are starting: they find it complete.
            making = ensure_topology(self._server.address(PROVISIONER), settings=self._streams)
            self._starting = asyncio.gather(*(kept.start() for kept in self._kept))
            await making
        except BaseException:
            await self.stop()
            raise

    async def ready(self, seconds: float, most: float | None = None) -> None:
        """Return when every role answers on the bus, and announce it in ``stack.json``.

        Raises UnavailableError: ``not_ready``, naming who is silent, after ``seconds`` without progress or ``most`` altogether
        (without ``most`` after ``seconds``); ``role_keeps_dying`` with the cause as soon as a role is given up.
        """
        watching = asyncio.ensure_future(self.broken())
        try:
            await self._until_answered(seconds, most or seconds, watching)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        self._ready = True
        self._announce()

    async def _until_answered(self, seconds: float, most: float, watching: asyncio.Future[None]) -> None:
        """Ping the roles until each has answered. ``watching`` is ``broken``: an error in it ends the wait."""
        from gatewright.bus.jetstream.bus import JetStreamBus
        from gatewright.bus.jetstream.starting import repeat_until_answered

        await self._all_started()
        silent, patience = set(self.options.roles), StartPatience(seconds, most, self._clock.monotonic)
        async with contextlib.AsyncExitStack() as opened:
            bus = await repeat_until_answered(lambda: JetStreamBus.connect(self.address, name="supervisor"), seconds=seconds)
            opened.push_async_callback(bus.close)
            while silent:
                if watching.done():
                    watching.result()
                for role in tuple(silent):
                    with contextlib.suppress(BusError):
                        await bus.request(f"$SRV.PING.gw-{role}", b"", schema="", timeout=_PING_SECONDS)
                        silent.discard(role)
                if silent and patience.is_over(progress_of):
                    names = ", ".join(sorted(silent))
                    raise UnavailableError(f"no answer after {patience.waited:.0f} s from: {names}", code="not_ready")
                await asyncio.sleep(_PING_PAUSE)

    async def broken(self) -> None:
        """Wait until something cannot be kept alive; raises UnavailableError with its name and the end of its log."""
        watching: list[asyncio.Future[None]] = [asyncio.ensure_future(kept.given_up()) for kept in self._kept]
        if self._server_keeper is not None:
            watching.append(asyncio.shield(self._server_keeper))
        watching.append(asyncio.ensure_future(self._all_started()))
        try:
            done, _ = await asyncio.wait(watching, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)

    async def stop(self, *, idle: bool = False) -> None:
        """End every process, the roles before the server, and leave nothing behind. Safe to call twice.

        ``idle``: no work is in progress, so no role waits for pending deliveries; a message delivered anyway would be
        redelivered to the next stack after a while.
        """
        if not self._running:
            return
        self._running = False
        if self._starting is not None:
            # A late fork ends with the fork server.
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        number = signal.SIGINT if idle else signal.SIGTERM
        seen = snapshots(kept.member.pid for kept in self._kept if kept.member.pid)
        await asyncio.gather(*(kept.stop(self.options.grace, number=number, seen=seen) for kept in self._kept))
        if self._server_keeper is not None:
            self._server_keeper.cancel()
            await asyncio.gather(self._server_keeper, return_exceptions=True)
        if self._fork_server is not None:
            await self._fork_server.close()
        if self._server is not None:
            await self._server.stop()
        if self.options.adopt:
            await end_descendants(os.getpid(), self._spared)
        self._kept.clear()
        self._server = None
        state.remove(self.options.home)
        clear_offers(self._offers)
        self._held.close()

    async def _all_started(self) -> None:
        if self._starting is not None:
            await asyncio.shield(self._starting)

    async def _open_fork_server(self) -> ForkServer:
        options = self.options
        return await open_fork_server(options.home, options.base_environment, options.roles, options.package)

    def _supervise_process(self, plan: ProcessPlan) -> SupervisedProcess:
        return SupervisedProcess(
            plan,
            launch=self._launch,
            policy=self.options.policy,
            clock=self._clock,
            on_change=self._announce,
            check_space=lambda: check_room(self.options.home),
        )

    async def _launch(self, plan: ProcessPlan) -> Running:
        """Fork it from the fork server; without one, start it the plain way, which only takes longer."""
        if self._fork_server is not None and self._fork_server.alive:
            with contextlib.suppress(UnavailableError):
                return await self._fork_server.fork(plan)
        return await execute(plan)

    async def _keep_server(self) -> None:
        """Restart the server under the same address when it ends by itself; clients reconnect.

        The same if it stores nothing although the disk has space again: only a restart cures that.
        """
        record = RestartRecord()
        while (server := self._server) is not None:
            born = self._clock.monotonic()
            try:
                await self._until_restart(server)
                log.warning("nats-server: the disk has space again; restarting it")
                await server.stop()
                self._server = await self._start_server(server.port)
            except UnavailableError:
                record = record.died(self.options.policy, self._clock.monotonic() - born)
                if record.hopeless(self.options.policy):
                    raise
                await asyncio.sleep(record.delay(self.options.policy))
                self._server = await self._start_server(server.port)
            self._announce()

    async def _until_restart(self, server: NatsServer) -> None:
        """Return when ``server`` must be restarted; raises UnavailableError if it ended by itself."""
        ending = asyncio.create_task(server.ended())
        watching = asyncio.create_task(until_restart_helps(server.page, self._store, self._announce_fault))
        try:
            await asyncio.wait({ending, watching}, return_when=asyncio.FIRST_COMPLETED)
            for task in (ending, watching):
                if task.done():
                    task.result()
        finally:
            for task in (ending, watching):
                task.cancel()
            await asyncio.gather(ending, watching, return_exceptions=True)

    async def _start_server(self, port: int = -1) -> NatsServer:
        """Start it once the disk has space: without any it would end immediately."""
        await until_room(self._store)
        self._fault = ""
        return await self._launch_server(port)

    async def _launch_server(self, port: int = -1) -> NatsServer:
        return await NatsServer.start(self._store, port=port, keys=bus_keys(self.options.home), partitions=self._partitions)

    def _announce_fault(self, fault: str) -> None:
        self._fault = fault
        if fault:
            log.warning("nats-server stores nothing: %s; work waits until there is disk space", fault)
        self._announce()

    def _plans(self) -> Iterator[ProcessPlan]:
        options = self.options
        environment = {
            **options.base_environment,
            "GATEWRIGHT_NATS_URL": self.address.url,
            "GATEWRIGHT_HOME": str(options.home),
            _ENVIRONMENTS: os.pathsep.join(self.environments),
            _OFFERS: str(self._offers),
        }
        if self._policies:
            environment[_POLICIES] = self._policies
        if not options.shared:
            # A single run is too short to read metrics.
            environment["GATEWRIGHT_METRICS_PORT"] = "-1"
        for role in options.roles:
            for number in range(1, options.workers + 1 if role == "worker" else 2):
                name = f"{role}-{number}" if role == "worker" else role
                log = options.home / "logs" / f"{name}.log"
                # One identity per process: what one of them receives, the others do not see.
                who = process_identity("worker", number) if role == "worker" else role
                own = {**environment, "GATEWRIGHT_NATS_SEED": str(seed_file(bus_keys(options.home), who))}
                own |= options.model_keys if role in MODEL_ROLES else {}
                own |= options.repository_keys.get(role, {})
                yield ProcessPlan(name, self.options.module(role), own, options.home, log)
        if options.puller is not None and environment.get(_OWN_REGISTRIES) != "false":
            seed = str(seed_file(bus_keys(options.home), PULLER))
            own = {**options.puller, **environment, "GATEWRIGHT_NATS_SEED": seed, _OWN_REGISTRIES: "true"}
            yield ProcessPlan(PULLER, _PULLER_PROGRAM, own, options.home, options.home / "logs" / "puller.log")

    def _announce(self) -> None:
        """Rewrite ``stack.json``: a process was started, or all are ready. On a full disk the old one stays."""
        who = identity(os.getpid())
        if who is None or self._server is None or not self._running:
            return
        with contextlib.suppress(HostError), host_errors():
            state.write(self.options.home, self._state(who))

    def _state(self, who: Identity) -> state.StackState:
        return state.StackState(
            pid=os.getpid(),
            boot=who.boot,
            started=who.started,
            url=self.address.url,
            keys=str(bus_keys(self.options.home)),
            home=str(self.options.home),
            shared=self.options.shared,
            workers=self.options.workers,
            ready=self._ready,
            environments=self.environments,
            ledger_partitions=self._partitions,
            members=self.members,
            cassette=self.options.base_environment.get(_CASSETTE, ""),
            offers=str(self._offers),
            policies=self._policies,
            linger=self.options.linger,
            fingerprint=self.options.fingerprint,
            fault=self._fault,
        )
