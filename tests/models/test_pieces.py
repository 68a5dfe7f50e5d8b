"""However a stream is cut into pieces, the same events are read of it, and no key gets through."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatewright.errors import DeniedError
from gatewright.models.apis.event_stream import EventReader
from gatewright.models.gateway.upstream import KeyScrubber
from tests.models.provider import KEY

#: Much of what looks like the key's beginning.
_NEARLY = st.sampled_from([KEY, KEY[:-1], KEY[1:], KEY[:9], "sk-", "s", KEY + KEY, "sk-sk-scripted", "\n", "data: "])
_LINES = st.sampled_from(
    [b'data: {"a": 1}', b'data:{"b": 2}', b"event: x", b": ping", b"", b"data: [DONE]", b"data: {", b"data"]
)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    marks = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in pairwise(marks)]


@given(st.lists(_NEARLY, max_size=12), st.lists(st.integers(0, 10_000), max_size=12))
def test_a_key_gets_through_in_no_pieces(parts: list[str], places: list[int]) -> None:
    data = "".join(parts).encode()
    scrubber = KeyScrubber([KEY])
    out = b"".join(scrubber.feed(piece) for piece in cut(data, places)) + scrubber.finish()
    assert out == KeyScrubber([KEY]).whole(data)
    assert KEY.encode() not in out


@given(st.lists(_LINES, max_size=12), st.sampled_from([b"\n", b"\r\n"]), st.lists(st.integers(0, 10_000), max_size=12))
def test_events_do_not_depend_on_the_pieces(lines: list[bytes], end: bytes, places: list[int]) -> None:
    data = end.join(lines)

    def events(pieces: list[bytes]) -> list[str]:
        reader = EventReader()
        found = [event for piece in pieces for event in reader.feed(piece)]
        return [json.dumps(event) for event in (*found, *reader.finish())]

    assert events(cut(data, places)) == events([data])


def test_pieces_that_end_like_a_long_key_begins_get_through_whole() -> None:
    key = "".join(f"{KEY}{number}" for number in range(80))
    scrubber = KeyScrubber([key])
    pieces = [key[:-1].encode() + b"."] * 200
    assert b"".join(map(scrubber.feed, pieces)) + scrubber.finish() == b"".join(pieces)


def test_a_line_without_an_end_is_bounded() -> None:
    reader = EventReader(1000)
    assert list(reader.feed(b"x" * 1000)) == []
    with pytest.raises(DeniedError, match="one event"):
        list(reader.feed(b"x"))
