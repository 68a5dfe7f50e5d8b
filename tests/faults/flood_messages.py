"""What a broken, a hostile and a merely confused client send: an endless deck of messages, each with what may become of it.

The deck is the same for the same seed. Nothing in it is an order that a gate would let through, and nothing is an answer to a
task that runs: whoever holds a role's credential may answer for it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from gatewright.bus import topology as t

EXAMPLES = Path(__file__).resolve().parents[2] / "shared" / "schemas" / "examples"
#: Kept by the server at most in one message, payload and headers.
TOO_LARGE = 8 * 1024 * 1024 + 1
#: What may become of a message. ``ignored``: it changes nothing, and a log line says so; ``noted``: every role logs it.
Fate = Literal["answered", "dead", "ignored", "duplicate", "refused", "noted"]
#: How it is sent: as a question, into a stream, to whoever listens, or as bytes on the wire.
Way = Literal["ask", "store", "tell", "wire"]


@dataclass(frozen=True)
class Shot:
    """One message, and what may become of it."""

    kind: str
    way: Way
    identity: str
    subject: str
    data: bytes
    fates: frozenset[Fate]
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """What a role has really said: honest, and old by now."""

    role: str
    schema: str
    data: bytes
    #: With which the task had been given out.
    token: str


OUTSIDE = {t.REQUEST_SUBJECT: "run_request.v1", t.CONTRACT_SUBJECT: "task_contract.v1", t.ABORT_SUBJECT: "abort_request.v1"}
ANSWERS = {
    "pm": "task_contract.v1",
    "techlead": "plan.v1",
    "worker": "task_result.v1",
    "reviewer": "review_report.v1",
    "testrunner": "test_report.v1",
}
TASKS = {"pm": "request_task.v1"} | dict.fromkeys(("techlead", "worker", "reviewer", "testrunner"), "task_contract.v1")


def example(schema: str) -> bytes:
    """A valid document of that schema."""
    return next(iter(sorted((EXAMPLES / schema / "valid").iterdir()))).read_bytes()


def spoil(chance: random.Random, data: bytes) -> bytes:
    """``data``, a JSON object, as something that no schema lets through."""
    return chance.choice(_DAMAGES)(chance, data)


def _other(chance: random.Random, data: bytes, value: Any) -> bytes:
    """One field exchanged for a value that is of no type that any schema asks for there."""
    document = msgspec.json.decode(data)
    document[chance.choice(sorted(document))] = value
    return msgspec.json.encode(document)


_DAMAGES: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    lambda _chance, _data: b"",
    lambda _chance, _data: b"null",
    lambda _chance, _data: b"[]",
    lambda _chance, _data: b"not json at all",
    lambda chance, data: data[: chance.randint(1, len(data) - 2)],
    lambda chance, data: data + chance.choice((b"}", data, b"\x00")),
    lambda chance, _data: b"[" * chance.choice((500, 100_000)),
    lambda chance, _data: b'{"a":' * chance.choice((500, 50_000)) + b"1" + b"}" * 500,
    lambda _chance, data: b'{"surprise": 1e400,' + data[1:],
    lambda chance, data: b'{"surprise": ' + b"9" * chance.choice((400, 5_000, 200_000)) + b"," + data[1:],
    lambda _chance, data: b'{"surprise": "\xff\xfe",' + data[1:],
    lambda _chance, data: b'{"surprise": "\\ud800",' + data[1:],
    lambda _chance, data: b'{"surprise\\u0000": 1,' + data[1:],
    lambda _chance, data: b"\xef\xbb\xbf\xff" + data,
    lambda chance, data: b"\x00" * chance.randint(1, 5000) + data,
    lambda chance, data: b'{"surprise": "' + b"x" * chance.choice((10_000, 300_000)) + b'",' + data[1:],
    lambda chance, data: _other(chance, data, {"surprise": {}}),
    lambda chance, data: _other(chance, data, [[[]]]),
)
_SCHEMAS = ("", "no_such.v9", "task_contract.v1\x7f", "../../etc/passwd", "*", ">", "transition.v1", "a" * 3000)


class Deck:
    """Deals messages. ``answers`` are honest ones of runs that have ended."""

    def __init__(self, seed: int, answers: Sequence[Answer]) -> None:
        self._chance = random.Random(seed)  # noqa: S311 - it is to be repeatable
        self._answers = answers
        self._number = 0
        self._last: Shot | None = None

    def deal(self) -> Iterator[Shot]:
        """For ever; every kind comes up again and again, in the same proportions."""
        kinds: tuple[tuple[int, Callable[[], Shot]], ...] = (
            (20, self._submission),
            (6, self._question),
            (24, self._intake),
            (22, self._result),
            (8, self._foreign_result),
            (8, self._unknown_run),
            (10, self._task),
            (12, self._old_answer),
            (6, self._repetition),
            (4, self._cancellation),
            (8, self._out_of_turn),
        )
        makers = [make for times, make in kinds for _ in range(times)]
        while True:
            self._chance.shuffle(makers)
            for make in makers:
                self._number += 1
                yield make()
            self._number += 1
            yield self._too_large()

    def _headers(self, schema: str) -> dict[str, str]:
        """Mostly as they should be, at times missing, wrong or far too long."""
        headers = {"Nats-Msg-Id": f"flood-{self._number}"}
        luck = self._chance.random()
        if luck < 0.7:
            headers["Gw-Schema"] = schema
        elif luck < 0.9:
            headers["Gw-Schema"] = self._chance.choice(_SCHEMAS[1:])
        if self._chance.random() < 0.1:
            headers["Gw-Padding"] = "x" * 60_000
        if self._chance.random() < 0.1:
            headers["traceparent"] = self._chance.choice(("00-zz-1-1", "x" * 1000, "00-" + "0" * 32 + "-" + "0" * 16 + "-00"))
        return headers

    def _spoilt(self, kind: str, way: Way, identity: str, subject: str, schema: str, fate: Fate) -> Shot:
        data = spoil(self._chance, example(schema))
        return Shot(kind, way, identity, subject, data, frozenset({fate}), self._headers(schema))

    def _submission(self) -> Shot:
        subject, schema = t.SUBMIT_SUBJECT, self._chance.choice(("run_request.v1", "task_contract.v1", "plan.v1"))
        return self._spoilt("gw.submit, malformed", "ask", "publisher", subject, schema, "answered")

    def _question(self) -> Shot:
        return self._spoilt("gw.status, malformed", "ask", "publisher", t.STATUS_SUBJECT, "status_request.v1", "answered")

    def _intake(self) -> Shot:
        subject = self._chance.choice(list(OUTSIDE))
        return self._spoilt("INTAKE, malformed", "store", "publisher", subject, OUTSIDE[subject], "dead")

    def _result(self) -> Shot:
        role = self._chance.choice(list(ANSWERS))
        return self._spoilt("RESULTS, malformed", "store", role, t.result_subject(role), ANSWERS[role], "dead")

    def _foreign_result(self) -> Shot:
        """A valid document, and no answer that this role could give."""
        role = self._chance.choice(list(ANSWERS))
        schema = self._chance.choice(
            [kind for kind in (*ANSWERS.values(), "run_request.v1", "submit_reply.v1") if kind != ANSWERS[role]]
        )
        headers = {"Gw-Schema": schema, "Nats-Msg-Id": f"flood-{self._number}"}
        fates: frozenset[Fate] = frozenset({"dead", "ignored"})
        return Shot("RESULTS, another role's document", "store", role, t.result_subject(role), example(schema), fates, headers)

    def _unknown_run(self) -> Shot:
        """A valid answer to a task that never was."""
        role = self._chance.choice([role for role in ANSWERS if role != "pm"])
        document = msgspec.json.decode(example(ANSWERS[role]))
        document["run_id"] = f"run-{self._number:020x}"
        headers = {"Gw-Schema": ANSWERS[role], "Nats-Msg-Id": f"flood-{self._number}"}
        data = msgspec.json.encode(document)
        return Shot(
            "RESULTS, an unknown run", "store", role, t.result_subject(role), data, frozenset({"dead", "ignored"}), headers
        )

    def _task(self) -> Shot:
        role = self._chance.choice(list(TASKS))
        queue = self._chance.choice([queue for queue in t.consumers() if queue.owner == role])
        return self._spoilt("TASKS, malformed", "store", "gatekeeper", queue.subject, TASKS[role], "dead")

    def _old_answer(self) -> Shot:
        """What was said and counted already, once more and out of order, under another message id."""
        old = self._chance.choice(self._answers)
        headers = {"Gw-Schema": old.schema, "Nats-Msg-Id": f"flood-{self._number}", "Gw-Task-Token": old.token}
        return Shot(
            "RESULTS, old answers", "store", old.role, t.result_subject(old.role), old.data, frozenset({"ignored"}), headers
        )

    def _repetition(self) -> Shot:
        """The same under the same message id: the second and later ones are the server's to drop."""
        old = self._answers[self._number % len(self._answers)]
        message_id = f"flood-again-{old.role}-{self._number % 5}"
        headers = {"Gw-Schema": old.schema, "Nats-Msg-Id": message_id, "Gw-Task-Token": old.token}
        fates: frozenset[Fate] = frozenset({"ignored", "duplicate"})
        return Shot("RESULTS, repetitions", "store", old.role, t.result_subject(old.role), old.data, fates, headers)

    def _cancellation(self) -> Shot:
        data = self._chance.choice(
            (b"", b"{}", b'"', b"[" * 50_000, b"\xff", b'"\\ud800"', b"1e999", b"[null]", b'{"run_id": 5}')
        )
        return Shot("gw.cancel, malformed", "tell", "gatekeeper", t.CANCEL_SUBJECT, data, frozenset({"noted"}))

    def _out_of_turn(self) -> Shot:
        """What the server has to refuse: an identity on a subject of somebody else."""
        identity, subject = self._chance.choice(
            (
                ("worker", t.result_subject("pm")),
                ("worker", "gw.run.run-0123456789"),
                ("reviewer", t.task_subject("worker")),
                ("testrunner", t.REQUEST_SUBJECT),
                ("publisher", t.result_subject("worker")),
                ("publisher", t.task_subject("worker")),
                ("publisher", f"{t.REQUEST_SUBJECT}.ci"),
                ("watcher", t.ABORT_SUBJECT),
                ("watcher", t.CANCEL_SUBJECT),
                ("pm", t.dead_subject("worker")),
            )
        )
        return Shot("out of turn", "tell", identity, subject, example("abort_request.v1"), frozenset({"refused"}))

    def _too_large(self) -> Shot:
        return Shot("more than 8 MiB", "wire", "publisher", t.REQUEST_SUBJECT, b"x" * TOO_LARGE, frozenset({"refused"}))
