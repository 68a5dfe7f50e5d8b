"""Permissions on the bus as subjects, derived from the topology for each identity and enforced by the server.

The bus thereby decides who may dispatch to whom: only the gatekeeper dispatches tasks and writes the ledger. It, operators
and the provisioner live in the account that holds the streams. Every other identity is a *guest*: an account of its own
that reaches exactly the subjects listed here. A guest's reply subjects are in its own account too. In a shared account, a
role could name the ledger as the reply subject of a server call, and the server would write it there with its own rights.
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
    PULLER,
    RESIDENTS,
    WATCHER,
    publisher_of,
    role_of,
)
from gatewright.errors import ConfigurationError

#: The clients' prefix for ``$JS.API``: under that name, every account has a JetStream API of its own.
API_PREFIX = "gw.js"
_SERVER_PREFIX = "$JS.API"
_VERBS = ("PING", "INFO", "STATS")
#: The reply subjects of another account's requests.
_FOREIGN_REPLIES = "_R_.>"


@dataclass(frozen=True, slots=True)
class AccountLimits:
    """The limits of one account: concurrent ``connections``, and ``subscriptions`` of each connection.

    ``payload``: bytes of one message; 0 means the server's maximum.
    """

    connections: int = 64
    subscriptions: int = 500
    payload: int = 0


#: Processes of a role share an identity; each has about twenty subscriptions, however many tasks it handles.
ROLE_LIMITS = AccountLimits(connections=1024, subscriptions=100)
#: All gatekeepers, operators and provisioners together: a gatekeeper awaits many answers at once, and serves each publisher
#: on a connection of its own.
RESIDENT_LIMITS = AccountLimits(connections=1024, subscriptions=10_000)
#: Permissions hold the subject of a request, and not what it asks for. The shortest request that has a stream list the subjects
#: of its messages, `{"subjects_filter":">"}`, has 23 bytes; one for the next page of names, `{"offset":256}`, fits.
_OBSERVER_LIMITS = AccountLimits(payload=22)


@dataclass(frozen=True, slots=True)
class Access:
    """The permissions of one identity. ``publish``: subjects to send to. ``hear``: subjects to receive as they are sent.

    ``api``: calls of JetStream; ``serve``: subjects of requests that it answers; ``queues``: consumers that it pulls from
    and settles. ``peer_sends`` and ``peer_receives``: subjects that it sends to, and receives from, other guests
    directly, because the server passes nothing between guests through the account of the bus.
    """

    identity: str
    publish: tuple[str, ...]
    hear: tuple[str, ...] = ()
    serve: tuple[str, ...] = ()
    queues: tuple[t.Consumer, ...] = ()
    api: tuple[str, ...] = ()
    limits: AccountLimits = AccountLimits()
    peer_sends: tuple[str, ...] = ()
    peer_receives: tuple[str, ...] = ()

    @property
    def guest(self) -> bool:
        """Return whether it has an account of its own, without streams."""
        return self.identity not in RESIDENTS

    @property
    def inbox(self) -> str:
        """Return the inbox pattern for its replies, under its own name so that no other identity can subscribe to it."""
        return f"_INBOX_{self.identity}.>"

    def calls(self) -> tuple[str, ...]:
        """Return all JetStream API calls that it may make, without the prefix."""
        pulled = [f"CONSUMER.{verb}.{q.stream}.{q.durable}" for q in self.queues for verb in ("MSG.NEXT", "INFO")]
        return (*self.api, *pulled)

    def settles(self) -> tuple[str, ...]:
        """Return the subjects on which it settles deliveries."""
        return tuple(f"$JS.ACK.{q.stream}.{q.durable}.>" for q in self.queues)

    def sends(self) -> tuple[str, ...]:
        """Return every subject that it may publish to, in the client's spelling."""
        prefix = (API_PREFIX,) if self.guest else (API_PREFIX, _SERVER_PREFIX)
        calls = (f"{each}.{call}" for each in prefix for call in self.calls())
        return (*self.publish, *self.peer_sends, *calls, *self.settles(), *((_FOREIGN_REPLIES,) if self.serve else ()))

    def receives(self) -> tuple[str, ...]:
        """Return every subject that it may subscribe to."""
        return (self.inbox, *self.hear, *self.peer_receives, *self.serve)


def access_of(
    identity: str,
    pools: tuple[str, ...] = (t.DEFAULT_POOL,),
    publishers: tuple[str, ...] = (DEFAULT_PUBLISHER,),
    partitions: int = 1,
) -> Access:
    """Return the permissions of one identity in a system with these pools, publishers and ledger partitions.

    Raises ConfigurationError for an unknown identity.
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
    if identity == PULLER:
        served = (t.ENVIRONMENT_SUBJECT, f"{t.ENVIRONMENT_SUBJECT}.*", *service_subjects(PULLER))
        return Access(PULLER, (), serve=served)
    publisher = publisher_of(identity)
    if publisher is not None:
        own = f"DIRECT.GET.{t.upload_stream(publisher).name}.{own_uploads(publisher)}"
        subjects = (*publisher_subjects(publisher).values(), own_uploads(publisher))
        # It discusses agents' requests in its own runs with the workers only.
        answers, asked = (t.answer_subject(publisher),), (t.question_subject(publisher),)
        return Access(identity, subjects, api=(own,), peer_sends=answers, peer_receives=asked)
    role = role_of(identity)
    if role is None:
        raise ConfigurationError(f"{identity!r} is no identity of the bus", code="identity_invalid")
    queues = tuple(queue for queue in t.consumers(pools) if queue.owner == role)
    return Access(
        identity,
        (
            *(t.result_subject(role), t.dead_subject(role), t.claim_subject(role), own_artifacts(identity)),
            *(_AGENT_SENDS if role == "worker" else ()),
        ),
        (t.CANCEL_SUBJECT, *(_AGENT_RECEIVES if role == "worker" else ())),
        serve=service_subjects(role),
        queues=queues,
        api=(_GET_ARTIFACT,),
        limits=ROLE_LIMITS,
        peer_sends=(t.QUESTION_SUBJECT,) if role == "worker" else (),
        peer_receives=(t.ANSWER_SUBJECT,) if role == "worker" else (),
    )


#: Only workers run agents that report progress and put requests to the run's publisher, which may be the operator.
_AGENT_SENDS = (t.live_subject("worker"), t.LEAVE_SUBJECT, t.question_subject(OPERATOR_PUBLISHER))
_AGENT_RECEIVES = (t.answer_subject(OPERATOR_PUBLISHER),)


def publisher_subjects(publisher: str) -> Mapping[str, str]:
    """Return a publisher's subjects by purpose; the server restricts it to subjects that end in its name."""
    ending = "" if publisher == DEFAULT_PUBLISHER else f".{publisher}"
    wants = {
        "submit": t.SUBMIT_SUBJECT,
        "status": t.STATUS_SUBJECT,
        "events": t.EVENTS_SUBJECT,
        "runs": t.RUNS_SUBJECT,
        "bundle": t.BUNDLE_SUBJECT,
        "context": t.CONTEXT_SUBJECT,
        "summon": t.SUMMON_SUBJECT,
        "merge": t.MERGE_SUBJECT,
        "environment": t.ENVIRONMENT_SUBJECT,
        "request": t.REQUEST_SUBJECT,
        "contract": t.CONTRACT_SUBJECT,
        "abort": t.ABORT_SUBJECT,
    }
    return {name: f"{subject}{ending}" for name, subject in wants.items()}


def own_artifacts(writer: str) -> str:
    """Return the pattern of artifacts that only this identity writes."""
    return f"gw.artifact.{writer}.>"


def own_uploads(publisher: str) -> str:
    """Return the pattern of uploads that only this publisher writes."""
    return f"gw.upload.{publisher}.>"


def service_subjects(role: str) -> tuple[str, ...]:
    """The subjects of the NATS services protocol on which a role is found: with all others, by its name, as one process."""
    return tuple(f"$SRV.{verb}{ending}" for verb in _VERBS for ending in ("", f".gw-{role}", f".gw-{role}.*"))


def purge_ledger(stream: str) -> str:
    """Takes entries out of the ledger. It could be shrunk by a limit as well: the provisioner may do either, and no other."""
    return f"STREAM.PURGE.{stream}"


#: The call that removes artifacts to which nothing refers, and those for dead letters.
PURGE_ARTIFACTS = f"STREAM.PURGE.{t.ARTIFACTS.name}"
GET_DEAD = "STREAM.MSG.GET.DEAD"
DELETE_DEAD = "STREAM.MSG.DELETE.DEAD"


def _expire(partitions: int) -> tuple[str, ...]:
    """Return the calls that expire data for retention; the provisioner may read snapshots and set limits anyway."""
    return (*(purge_ledger(name) for name in _ledger(partitions)), PURGE_ARTIFACTS, GET_DEAD, DELETE_DEAD)


def _ledger(partitions: int) -> tuple[str, ...]:
    """Return the names of the ledger's streams."""
    return tuple(t.ledger_stream(number, partitions).name for number in range(partitions))


_LOCKS = f"$KV.{t.LOCK_BUCKET}.>"
_GET_ARTIFACT = f"STREAM.MSG.GET.{t.ARTIFACTS.name}"
#: The server reports its rights to each connection; setup reads the list of publishers from them.
OWN_RIGHTS = "$SYS.REQ.USER.INFO"


#: Subjects for acknowledging the chunks of a snapshot, and for sending a restore.
_SNAPSHOTS = ("$JS.SNAPSHOT.ACK.>", "$JS.SNAPSHOT.RESTORE.>")


def _own_streams(publishers: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(stream.name for publisher in publishers for stream in t.publisher_streams(publisher))


def _keep_and_bring_back(publishers: tuple[str, ...], partitions: int) -> tuple[str, ...]:
    """Backups. The server brings a stream back only where there is none of its name."""
    kept = dict.fromkeys((*t.stream_names(partitions), *_own_streams(publishers)))
    return tuple(f"STREAM.{verb}.{name}" for name in kept for verb in ("SNAPSHOT", "RESTORE"))


def _set_up(publishers: tuple[str, ...], partitions: int) -> tuple[str, ...]:
    """Return the calls of setup. No identity may delete a stream, and only the provisioner may update one, as limits drop
    data."""
    own = _own_streams(publishers)
    names = t.stream_names(partitions)
    queued = (*names, *(queue.stream for queue in t.intake_consumers(publishers)))
    return (
        *(f"STREAM.{verb}.{name}" for name in (*names, *own) for verb in ("INFO", "CREATE", "UPDATE")),
        *(f"CONSUMER.{verb}.{name}.>" for name in queued for verb in ("INFO", "CREATE")),
    )


def created_uploads(sends: Iterable[str]) -> tuple[str, ...]:
    """Return the publishers whose upload streams a connection with these publish permissions may create."""
    created = (subject.partition(".STREAM.CREATE.")[2] for subject in sends)
    return tuple(sorted({publisher for publisher in map(t.uploader_of, created) if publisher}))


def _create_missing(publishers: tuple[str, ...], partitions: int) -> tuple[str, ...]:
    """Return the calls that create what an empty server lacks; creating an existing stream does not change it."""
    return tuple(call for call in _set_up(publishers, partitions) if not call.startswith("STREAM.UPDATE."))


def _replay(stream: str) -> tuple[str, ...]:
    """Return the calls for a temporary consumer that reads a stream once."""
    return (f"CONSUMER.CREATE.{stream}.>", *(f"CONSUMER.{verb}.{stream}.*" for verb in ("MSG.NEXT", "INFO", "DELETE")))


#: Reply subjects between servers while one copies a stream.
_SERVERS_ANSWER = "$JSC.R.*"


def _mirror(ledger: tuple[str, ...]) -> Access:
    """Return the permissions of another region's server that copies the ledger: create a consumer, receive, confirm."""
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
            t.queue_subject("*"),
            t.ENVIRONMENT_SUBJECT,
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
            t.MERGE_ACT_SUBJECT,
        ),
        queues=tuple(queue for queue in t.consumers(pools, publishers) if queue.owner == "gatekeeper"),
        api=(
            # A task that no process was able to refuse is taken off its queue by the gatekeeper.
            *_create_missing(publishers, partitions),
            *(call for name in (*ledger, t.MERGE_QUEUES) for call in _replay(name)),
            *(_GET_ARTIFACT, "STREAM.MSG.DELETE.TASKS"),
            *(
                f"STREAM.MSG.GET.{name}"
                for name in (
                    *ledger,
                    *intake,
                    t.MERGE_QUEUES,
                    "TASKS",
                    "RESULTS",
                    "EXHAUSTED",
                    t.LOCK_STREAM,
                    *_own_streams(publishers),
                )
            ),
        ),
        limits=RESIDENT_LIMITS,
    )


#: Asks every process of every role to report its presence and its facts.
ASK_PROCESSES = "$SRV.PING"


def _observer(pools: tuple[str, ...], publishers: tuple[str, ...], partitions: int) -> Access:
    """Return the permissions of a monitor: figures and names only. It reads no message, and no message it sends is stored."""
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
            t.MERGE_ACT_SUBJECT,
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
