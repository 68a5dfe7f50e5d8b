"""What the answers of JetStream mean to whoever asked."""

from __future__ import annotations

import msgspec
import pytest

from gatewright.bus.jetstream.api import ApiReply, decode_reply
from gatewright.bus.port import NO_RESPONDERS
from gatewright.errors import BusError


@pytest.mark.parametrize(("number", "reason"), [(10008, NO_RESPONDERS), (10009, NO_RESPONDERS), (10059, "jetstream_10059")])
def test_a_cluster_that_elects_a_leader_is_asked_again(number: int, reason: str) -> None:
    """``Connection.patiently`` repeats a call for which nobody was there; any other refusal stands."""
    answer = msgspec.json.encode({"error": {"code": 503, "err_code": number, "description": "temporarily unavailable"}})
    with pytest.raises(BusError) as caught:
        decode_reply(answer, ApiReply, "STREAM.INFO.RUNS")
    assert caught.value.reason == reason
