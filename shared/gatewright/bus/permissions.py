"""Who may do what on the bus, as subjects: derived from the topology for one identity at a time, and enforced by the server.

Who may dispatch to whom is thereby a property of the bus: only the gatekeeper gives tasks and writes the ledger. The gatekeeper
and operators live in the account that holds the streams. Everybody else is a *guest*: an account of its own that reaches
exactly the subjects listed here. A guest's reply subjects lie in its own account too; in a shared one, a role could name the
ledger as the place for an answer of the server, which would write it there with its own rights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gatewright.bus import topology as t
from gatewright.bus.identities import DEFAULT_PUBLISHER, OPERATOR, WATCHER, publisher_of
from gatewright.bus.subjects import matches
from gatewright.errors import ConfigurationError

#: What clients write instead of ``$JS.API``: under that name, every account has a JetStream API of its own.
API_PREFIX = "gw.js"
_SERVER_PREFIX = "$JS.API"
_VERBS = ("PING", "INFO", "STATS")
#: Where answers to another account's request go.
_FOREIGN_REPLIES = "_R_.>"


@dataclass(frozen=True, slots=True)
class Access:
    """What one identity may do. ``publish``: send, stored or asked. ``hear``: receive as it is sent.

    ``api``: calls of JetStream; ``serve``: subjects of questions that it answers; ``queues``: consumers that it pulls from and
    settles.
    """

    identity: str
    publish: tuple[str, ...]
    hear: tuple[str, ...] = ()
    serve: tuple[str, ...] = ()
    queues: tuple[t.Consumer, ...] = ()
    api: tuple[str, ...] = ()
    guest: bool = True

    @property
    def inbox(self) -> str:
        """Where its answers arrive; a name of its own, so that nobody else may listen there."""
        return f"_INBOX_{self.identity}.>"

    def calls(self) -> tuple[str, ...]:
        """All of the JetStream API that it may call, without the prefix."""
        pulled = [f"CONSUMER.{verb}.{q.stream}.{q.durable}" for q in self.queues for verb in ("MSG.NEXT", "INFO")]
        return (*self.api, *pulled)

    def settles(self) -> tuple[str, ...]:
        """Where it says what became of a delivery."""
        return tuple(f"$JS.ACK.{q.stream}.{q.durable}.>" for q in self.queues)

    def sends(self) -> tuple[str, ...]:
        """Every subject that it may publish to, as it writes them."""
        prefix = (API_PREFIX,) if self.guest else (API_PREFIX, _SERVER_PREFIX)
        calls = (f"{each}.{call}" for each in prefix for call in self.calls())
        return (*self.publish, *calls, *self.settles(), *((_FOREIGN_REPLIES,) if self.serve else ()))

    def receives(self) -> tuple[str, ...]:
        """Every subject that it may subscribe to."""
        # A service also listens where all of an account are asked at once; in an account of its own nobody asks there.
        everybody = tuple(f"$SRV.{verb}" for verb in _VERBS) if self.serve and self.guest else ()
        return (self.inbox, *self.hear, *self.serve, *everybody)


def may_publish(access: Access, subject: str) -> bool:
    """Whether the server takes a message under ``subject`` from this identity."""
    return any(matches(pattern, subject) for pattern in access.sends())


def access_of(identity: str, pools: tuple[str, ...] = (t.DEFAULT_POOL,)) -> Access:
    """The row of one identity, in a system whose roles have these pools. Raises ConfigurationError for an unknown one."""
    if identity == "gatekeeper":
        return _gatekeeper(pools)
    if identity == OPERATOR:
        return _operator(pools)
    if identity == WATCHER:
        return Access(WATCHER, (), (t.WATCH_SUBJECT, t.CANCEL_SUBJECT), api=("STREAM.MSG.GET.RUNS",))
    publisher = publisher_of(identity)
    if publisher is not None:
        subjects = (*publisher_subjects(publisher).values(), _ARTIFACTS)
        return Access(identity, subjects, (t.WATCH_SUBJECT,), api=("STREAM.MSG.GET.RUNS", _GET_ARTIFACT))
    role = next((role for role in t.TASK_ROLES if role == identity), None)
    if role is None:
        raise ConfigurationError(f"{identity!r} is no identity of the bus", code="identity_invalid")
    queues = tuple(queue for queue in t.consumers(pools) if queue.owner == role)
    return Access(
        role,
        (t.result_subject(role), t.dead_subject(role), _ARTIFACTS),
        (t.CANCEL_SUBJECT,),
        serve=service_subjects(role),
        queues=queues,
        api=(_GET_ARTIFACT,),
    )


def publisher_subjects(publisher: str) -> Mapping[str, str]:
    """Where a publisher speaks, by what it wants: its name is the last token, which the server holds it to."""
    ending = "" if publisher == DEFAULT_PUBLISHER else f".{publisher}"
    wants = {
        "submit": t.SUBMIT_SUBJECT,
        "status": t.STATUS_SUBJECT,
        "request": t.REQUEST_SUBJECT,
        "contract": t.CONTRACT_SUBJECT,
        "abort": t.ABORT_SUBJECT,
    }
    return {name: f"{subject}{ending}" for name, subject in wants.items()}


def service_subjects(role: str) -> tuple[str, ...]:
    """The subjects of the NATS services protocol on which a role is found."""
    return tuple(f"$SRV.{verb}.gw-{role}{ending}" for verb in _VERBS for ending in ("", ".*"))


_ARTIFACTS = f"$O.{t.ARTIFACT_BUCKET}.>"
_LOCKS = f"$KV.{t.LOCK_BUCKET}.>"
_GET_ARTIFACT = f"STREAM.MSG.GET.{t.ARTIFACT_STREAM}"
#: The bus is set up with these; nobody may delete or purge a stream.
_SET_UP = (
    *(f"STREAM.{verb}.{name}" for name in t.STREAM_NAMES for verb in ("INFO", "CREATE", "UPDATE")),
    *(f"CONSUMER.{verb}.{name}.>" for name in t.STREAM_NAMES for verb in ("INFO", "CREATE")),
)
_REPLAY = tuple(f"CONSUMER.{verb}.{{}}.*" for verb in ("MSG.NEXT", "INFO", "DELETE"))


def _replay(stream: str) -> tuple[str, ...]:
    return tuple(call.format(stream) for call in _REPLAY)


def _gatekeeper(pools: tuple[str, ...]) -> Access:
    return Access(
        "gatekeeper",
        ("gw.task.>", "gw.run.*", t.CANCEL_SUBJECT, t.dead_subject("gatekeeper"), _ARTIFACTS, _LOCKS, f"_INBOX_{OPERATOR}.>"),
        (t.CANCEL_SUBJECT,),
        serve=("$SRV.>", *(f"{subject}{ending}" for subject in (t.SUBMIT_SUBJECT, t.STATUS_SUBJECT) for ending in ("", ".*"))),
        queues=tuple(queue for queue in t.consumers(pools) if queue.owner == "gatekeeper"),
        api=(
            # A task that nobody was able to refuse is taken off its queue by the gatekeeper.
            *(*_SET_UP, *_replay("RUNS"), _GET_ARTIFACT, "STREAM.MSG.DELETE.TASKS"),
            *(f"STREAM.MSG.GET.{name}" for name in ("RUNS", "INTAKE", "TASKS", "RESULTS", "EXHAUSTED", t.LOCK_STREAM)),
        ),
        guest=False,
    )


def _operator(pools: tuple[str, ...]) -> Access:
    asked = tuple(f"$SRV.{verb}{ending}" for verb in _VERBS for ending in ("", ".*", ".*.*"))
    put_back = ("gw.task.>", "gw.result.>", "gw.intake.>", "gw.dead.>")
    pausing = tuple(f"CONSUMER.PAUSE.{queue.stream}.{queue.durable}" for queue in t.consumers(pools))
    return Access(
        OPERATOR,
        (*publisher_subjects(DEFAULT_PUBLISHER).values(), *put_back, *asked, _ARTIFACTS),
        (t.WATCH_SUBJECT, t.CANCEL_SUBJECT),
        api=(
            *("INFO", "STREAM.NAMES", "STREAM.LIST", "CONSUMER.NAMES.*", "CONSUMER.LIST.*"),
            *(*_SET_UP, *_replay("RUNS"), *_replay("DEAD"), *pausing),
            *(f"STREAM.MSG.GET.{name}" for name in t.STREAM_NAMES),
        ),
        guest=False,
    )
