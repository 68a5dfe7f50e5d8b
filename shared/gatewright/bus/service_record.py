"""The description of a service under ``$SRV.PING``, ``$SRV.INFO`` and ``$SRV.STATS`` (NATS ADR-32). No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

#: Instances of one service share its requests.
QUEUE_GROUP = "q"

_TYPES = "io.nats.micro.v1"


class EndpointRecord(msgspec.Struct):
    """An endpoint and its statistics; times in nanoseconds."""

    name: str
    subject: str
    queue_group: str = QUEUE_GROUP
    num_requests: int = 0
    num_errors: int = 0
    last_error: str = ""
    processing_time: int = 0
    average_processing_time: int = 0

    def count(self, seconds: float, refusal: str = "") -> None:
        """Note a request that took so long, and the reason when it was refused."""
        self.num_requests += 1
        self.processing_time += int(seconds * 1e9)
        self.average_processing_time = self.processing_time // self.num_requests
        if refusal:
            self.num_errors += 1
            self.last_error = refusal


class ServiceRecord(msgspec.Struct):
    """An instance of a service; ``started`` in RFC 3339, ``identity`` is its identity on the bus.

    ``facts`` returns current facts about the process, for operators.
    """

    name: str
    id: str
    version: str
    started: str
    endpoints: list[EndpointRecord]
    identity: str = ""
    facts: Callable[[], Mapping[str, str]] = dict

    def answer(self, verb: str) -> bytes:
        """The JSON document for ``PING``, ``INFO`` or ``STATS``."""
        facts: dict[str, object] = {
            "type": f"{_TYPES}.{verb.lower()}_response",
            "name": self.name,
            "id": self.id,
            "version": self.version,
            "metadata": ({"identity": self.identity} if self.identity else {}) | dict(self.facts()),
        }
        if verb == "INFO":
            facts["description"] = ""
            facts["endpoints"] = [
                {"name": one.name, "subject": one.subject, "queue_group": one.queue_group, "metadata": {}}
                for one in self.endpoints
            ]
        elif verb == "STATS":
            facts["started"] = self.started
            facts["endpoints"] = self.endpoints
        return msgspec.json.encode(facts)
