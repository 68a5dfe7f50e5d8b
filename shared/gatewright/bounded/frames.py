"""Frames between the two processes: a length of eight bytes, then the data."""

from __future__ import annotations

from typing import IO

_HEAD = 8


def write_frame(stream: IO[bytes], data: bytes) -> None:
    """Write a frame. Raises BrokenPipeError when the other side is gone."""
    stream.write(len(data).to_bytes(_HEAD, "big"))
    stream.write(data)
    stream.flush()


def read_frame(stream: IO[bytes]) -> bytes | None:
    """Return the next frame; None when the other side is gone, also in the middle of a frame."""
    head = stream.read(_HEAD)
    if len(head) < _HEAD:
        return None
    size = int.from_bytes(head, "big")
    data = stream.read(size)
    return data if len(data) == size else None
