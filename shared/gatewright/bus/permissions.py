"""Who may do what on the bus, as subjects: derived from the topology for one identity at a time, and enforced by the server.

Who may dispatch to whom is thereby a property of the bus: only the gatekeeper gives tasks and writes the ledger. It,
operators and the provisioner live in the account that holds the streams. Every other identity is a *guest*: an account of its
own that reaches exactly the subjects listed here. A guest's reply subjects lie in its own account too; in a shared one, a role
could name the ledger as the place for an answer of the server, which would write it there with its own rights.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gatewright.bus import topology as t
from gatewright.bus.identities import (
    APPROVER,
    DEFAULT_PUBLISHER,
    MIRROR,
    OBSERVER,
    OPERATOR,
    OPERATOR_PUBLISHER,
    PROVISIONER,
    RESIDENTS,
    WATCHER,
    publisher_of,
    role_of,
)
from gatewright.errors import ConfigurationError

#: What clients write instead of ``$JS.API``: under that name, every account has a JetStream API of its own.
API_PREFIX = "gw.js"
_SERVER_PREFIX = "$JS.API"
_VERBS = ("PING", "INFO", "STATS")
#: Where answers to another account's request go.
_FOREIGN_REPLIES = "_R_.>"


@dataclass(frozen=True, slots=True)
class AccountLimits:
    """What one account may take of the server: ``connections`` at once, and ``subscriptions`` of each of them.

    ``payload``: bytes of one message; 0: what the server takes.
    """

    connections: int = 64
    subscriptions: int = 500
    payload: int = 0


#: Processes of a role share an identity; each has about twenty subscriptions, however many tasks it has in hand.
ROLE_LIMITS = AccountLimits(connections=1024, subscriptions=100)
#: All gatekeepers, operators and provisioners together: a gatekeeper listens for many answers at once, and to each publisher on
#: a connection of its own.
RESIDENT_LIMITS = AccountLimits(connections=1024, subscriptions=10_000)
#: Permissions hold the subject of a request, and not what it asks for. The shortest request that has a stream list the subjects
#: of its messages, `{"subjects_filter":">"}`, has 23 bytes; one for the next page of names, `{"offset":256}`, fits.
_OBSERVER_LIMITS = AccountLimits(payload=22)


@dataclass(frozen=True, slots=True)
class Access:
    """What one identity may do. ``publish``: send, stored or asked. ``hear``: receive as it is sent.

    ``api``: calls of JetStream; ``serve``: subjects of questions that it answers; ``queues``: consumers that it pulls from and
    settles. ``tell``: what it sends beside that to other guests, and ``told``: what it receives of them; from one guest to
    another the server hands nothing by way of the bus's own account.
    """

    identity: str
    publish: tuple[str, ...]
    hear: tuple[str, ...] = ()
    serve: tuple[str, ...] = ()
    queues: tuple[t.Consumer, ...] = ()
    api: tuple[str, ...] = ()
    limits: AccountLimits = AccountLimits()
    tell: tuple[str, ...] = ()
    told: tuple[str, ...] = ()

    @property
    def guest(self) -> bool:
        """Whether it has an account of its own, and not one with the streams."""
        return self.identity not in RESIDENTS

    @property
    def inbox(self) -> str:
        """Where its answers arrive; a name of its own, so that no other identity may listen there."""
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
        return (*self.publish, *self.tell, *calls, *self.settles(), *((_FOREIGN_REPLIES,) if self.serve else ()))

    def receives(self) -> tuple[str, ...]:
        """Every subject that it may subscribe to."""
        return (self.inbox, *self.hear, *self.told, *self.serve)


def access_of(
    identity: str,
    pools: tuple[str, ...] = (t.DEFAULT_POOL,),
    publishers: tuple[str, ...] = (DEFAULT_PUBLISHER,),
    partitions: int = 1,
) -> Access:
    """The row of one identity, in a system whose roles have these pools, that has these publishers and so many streams of its
    ledger.

    Raises ConfigurationError for an unknown one.
    """
    if identity == "gatekeeper":
        return _gatekeeper(pools, publishers, partitions)
    if identity == OPERATOR:
        return _operator(pools, publishers, partitions)
    if identity == PROVISIONER:
        return Access(
            PROVISIONER,
            (OWN_RIGHTS, *_SNAPSHOTS),
            api=(*_set_up(publishers, partitions), *_keep_and_bring_back(publishers, partitions), *_expire(partitions)),
            limits=RESIDENT_LIMITS,
        )
    if identity == WATCHER:
        reads = tuple(f"STREAM.MSG.GET.{name}" for name in _ledger(partitions))
        return Access(WATCHER, (), (t.WATCH_SUBJECT, t.CANCEL_SUBJECT), api=reads)
    if identity == OBSERVER:
        return _observer(pools, publishers, partitions)
    if identity == MIRROR:
        return _mirror(_ledger(partitions))
    if identity == APPROVER:
        return Access(APPROVER, t.APPROVER_SUBJECTS)
    publisher = publisher_of(identity)
    if publisher is not None:
        own = f"DIRECT.GET.{t.upload_stream(publisher).name}.{own_uploads(publisher)}"
        subjects = (*publisher_subjects(publisher).values(), own_uploads(publisher))
        # With the workers alone it speaks of what agents ask in its own runs.
        answers, asked = (t.answer_subject(publisher),), (t.question_subject(publisher),)
        return Access(identity, subjects, api=(own,), tell=answers, told=asked)
    role = role_of(identity)
    if role is None:
        raise ConfigurationError(f"{identity!r} is no identity of the bus", code="identity_invalid")
    queues = tuple(queue for queue in t.consumers(pools) if queue.owner == role)
    return Access(
        identity,
        (
            *(t.result_subject(role), t.dead_subject(role), t.claim_subject(role), own_artifacts(identity)),
            *(_AGENTS_SAY if role == "worker" else ()),
        ),
        (t.CANCEL_SUBJECT, *(_AGENTS_HEAR if role == "worker" else ())),
        serve=service_subjects(role),
        queues=queues,
        api=(_GET_ARTIFACT,),
        limits=ROLE_LIMITS,
        tell=(t.QUESTION_SUBJECT,) if role == "worker" else (),
        told=(t.ANSWER_SUBJECT,) if role == "worker" else (),
    )


#: Only workers have agents that say what they do, and ask the publisher of the run, which may be the operator.
_AGENTS_SAY = (t.live_subject("worker"), t.LEAVE_SUBJECT, t.question_subject(OPERATOR_PUBLISHER))
_AGENTS_HEAR = (t.answer_subject(OPERATOR_PUBLISHER),)


def publisher_subjects(publisher: str) -> Mapping[str, str]:
    """Where a publisher speaks, by what it wants: its name is the last token, which the server holds it to."""
    ending = "" if publisher == DEFAULT_PUBLISHER else f".{publisher}"
    wants = {
        "submit": t.SUBMIT_SUBJECT,
        "status": t.STATUS_SUBJECT,
        "events": t.EVENTS_SUBJECT,
        "runs": t.RUNS_SUBJECT,
        "bundle": t.BUNDLE_SUBJECT,
        "context": t.CONTEXT_SUBJECT,
        "summon": t.SUMMON_SUBJECT,
        "request": t.REQUEST_SUBJECT,
        "contract": t.CONTRACT_SUBJECT,
        "abort": t.ABORT_SUBJECT,
    }
    return {name: f"{subject}{ending}" for name, subject in wants.items()}


def own_artifacts(writer: str) -> str:
    """Where an identity writes artifacts, and no other does."""
    return f"gw.artifact.{writer}.>"


def own_uploads(publisher: str) -> str:
    """Where a publisher uploads, and no other does."""
    return f"gw.upload.{publisher}.>"


def service_subjects(role: str) -> tuple[str, ...]:
    """The subjects of the NATS services protocol on which a role is found: with all others, by its name, as one process."""
    return tuple(f"$SRV.{verb}{ending}" for verb in _VERBS for ending in ("", f".gw-{role}", f".gw-{role}.*"))


def purge_ledger(stream: str) -> str:
    """Takes entries out of the ledger. It could be shrunk by a limit as well: the provisioner may do either, and no other."""
    return f"STREAM.PURGE.{stream}"


#: The same of artifacts that nothing refers to, and of dead letters.
PURGE_ARTIFACTS = f"STREAM.PURGE.{t.ARTIFACTS.name}"
GET_DEAD = "STREAM.MSG.GET.DEAD"
DELETE_DEAD = "STREAM.MSG.DELETE.DEAD"


def _expire(partitions: int) -> tuple[str, ...]:
    """What lets expire what retention wants to go; a snapshot may be read, and a limit set, by the provisioner anyway."""
    return (*(purge_ledger(name) for name in _ledger(partitions)), PURGE_ARTIFACTS, GET_DEAD, DELETE_DEAD)


def _ledger(partitions: int) -> tuple[str, ...]:
    """The streams that the ledger lies in."""
    return tuple(t.ledger_stream(number, partitions).name for number in range(partitions))


_LOCKS = f"$KV.{t.LOCK_BUCKET}.>"
_GET_ARTIFACT = f"STREAM.MSG.GET.{t.ARTIFACTS.name}"
#: The server tells each connection what it may do: who sets up the bus learns there which publishers there are.
OWN_RIGHTS = "$SYS.REQ.USER.INFO"


#: Where a part of a snapshot is acknowledged, and where one is sent back to.
_SNAPSHOTS = ("$JS.SNAPSHOT.ACK.>", "$JS.SNAPSHOT.RESTORE.>")


def _own_streams(publishers: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(stream.name for publisher in publishers for stream in t.publisher_streams(publisher))


def _keep_and_bring_back(publishers: tuple[str, ...], partitions: int) -> tuple[str, ...]:
    """Backups. The server brings a stream back only where there is none of its name."""
    kept = dict.fromkeys((*t.stream_names(partitions), *_own_streams(publishers)))
    return tuple(f"STREAM.{verb}.{name}" for name in kept for verb in ("SNAPSHOT", "RESTORE"))


def _set_up(publishers: tuple[str, ...], partitions: int) -> tuple[str, ...]:
    """No identity may delete a stream, and the provisioner alone may change one: a limit can have a ledger forget."""
    own = _own_streams(publishers)
    names = t.stream_names(partitions)
    queued = (*names, *(queue.stream for queue in t.intake_consumers(publishers)))
    return (
        *(f"STREAM.{verb}.{name}" for name in (*names, *own) for verb in ("INFO", "CREATE", "UPDATE")),
        *(f"CONSUMER.{verb}.{name}.>" for name in queued for verb in ("INFO", "CREATE")),
    )


def created_uploads(sends: Iterable[str]) -> tuple[str, ...]:
    """The publishers whose streams a connection may create that may publish to these subjects."""
    created = (subject.partition(".STREAM.CREATE.")[2] for subject in sends)
    return tuple(sorted({publisher for publisher in map(t.uploader_of, created) if publisher}))


def _create_missing(publishers: tuple[str, ...], partitions: int) -> tuple[str, ...]:
    """On an empty server; what is there already is not changed by being created again."""
    return tuple(call for call in _set_up(publishers, partitions) if not call.startswith("STREAM.UPDATE."))


def _replay(stream: str) -> tuple[str, ...]:
    """A consumer of one's own, made for reading a stream once."""
    return (f"CONSUMER.CREATE.{stream}.>", *(f"CONSUMER.{verb}.{stream}.*" for verb in ("MSG.NEXT", "INFO", "DELETE")))


#: Where one server answers another that wants to copy a stream.
_SERVERS_ANSWER = "$JSC.R.*"


def _mirror(ledger: tuple[str, ...]) -> Access:
    """A server of another region that copies the ledger: it has a consumer made, is told of it, and says how much has come."""
    created = (f"CONSUMER.CREATE.{name}" for name in ledger)
    flow = tuple(f"$JS.FC.{name}.>" for name in ledger)
    return Access(MIRROR, flow, (_SERVERS_ANSWER,), api=tuple(created), limits=RESIDENT_LIMITS)


def _gatekeeper(pools: tuple[str, ...], publishers: tuple[str, ...], partitions: int) -> Access:
    ledger = _ledger(partitions)
    intake = (t.INTAKE_CONSUMER.stream, t.OPERATOR_INTAKE_CONSUMER.stream)
    return Access(
        "gatekeeper",
        (
            "gw.task.>",
            *(subject for number in range(partitions) for subject in t.ledger_stream(number, partitions).subjects),
            t.CANCEL_SUBJECT,
            t.dead_subject("gatekeeper"),
            own_artifacts("gatekeeper"),
            _LOCKS,
            f"_INBOX_{OPERATOR}.>",
            OWN_RIGHTS,
        ),
        (t.CANCEL_SUBJECT, t.CLAIM_SUBJECT),
        serve=(
            "$SRV.>",
            *(f"{subject}{ending}" for subject in (t.SUBMIT_SUBJECT, *t.QUESTION_SUBJECTS) for ending in ("", ".*")),
            *t.APPROVER_SUBJECTS,
            t.LEAVE_SUBJECT,
        ),
        queues=tuple(queue for queue in t.consumers(pools, publishers) if queue.owner == "gatekeeper"),
        api=(
            # A task that no process was able to refuse is taken off its queue by the gatekeeper.
            *_create_missing(publishers, partitions),
            *(call for name in ledger for call in _replay(name)),
            *(_GET_ARTIFACT, "STREAM.MSG.DELETE.TASKS"),
            *(
                f"STREAM.MSG.GET.{name}"
                for name in (*ledger, *intake, "TASKS", "RESULTS", "EXHAUSTED", t.LOCK_STREAM, *_own_streams(publishers))
            ),
        ),
        limits=RESIDENT_LIMITS,
    )


#: Asks every process of every role to say that it is there, and how it is.
ASK_PROCESSES = "$SRV.PING"


def _observer(pools: tuple[str, ...], publishers: tuple[str, ...], partitions: int) -> Access:
    """Figures and names: what waits, for how long, who answers. It reads no message, and nothing that it sends is kept."""
    streams = (call for call in _set_up(publishers, partitions) if call.startswith("STREAM.INFO."))
    queues = (f"CONSUMER.INFO.{queue.stream}.{queue.durable}" for queue in t.consumers(pools, publishers))
    return Access(OBSERVER, (ASK_PROCESSES,), api=("INFO", "STREAM.NAMES", *streams, *queues), limits=_OBSERVER_LIMITS)


def _operator(pools: tuple[str, ...], publishers: tuple[str, ...], partitions: int) -> Access:
    asked = tuple(f"$SRV.{verb}{ending}" for verb in _VERBS for ending in ("", ".*", ".*.*"))
    put_back = ("gw.task.>", "gw.result.>", "gw.intake.*", "gw.intake.*.*", "gw.dead.>")
    look = (call for call in _set_up(publishers, partitions) if ".INFO." in call)
    pausing = tuple(f"CONSUMER.PAUSE.{queue.stream}.{queue.durable}" for queue in t.consumers(pools, publishers))
    return Access(
        OPERATOR,
        (
            *(*publisher_subjects(OPERATOR_PUBLISHER).values(), *put_back, *asked, own_artifacts(OPERATOR)),
            t.answer_subject(OPERATOR_PUBLISHER),
        ),
        (t.WATCH_SUBJECT, t.CANCEL_SUBJECT, t.LIVE_SUBJECT, t.question_subject(OPERATOR_PUBLISHER)),
        api=(
            *("INFO", "STREAM.NAMES", "STREAM.LIST", "CONSUMER.NAMES.*", "CONSUMER.LIST.*"),
            *look,
            *(call for name in (*_ledger(partitions), "DEAD") for call in _replay(name)),
            *pausing,
            *(f"STREAM.MSG.GET.{name}" for name in (*t.stream_names(partitions), *_own_streams(publishers))),
        ),
        limits=RESIDENT_LIMITS,
    )
