"""The log of a pull: a chain in which every change shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gatewright.egress.record import EgressLog, EgressRecord, parse_egress_log
from gatewright.errors import VerificationError


@pytest.fixture
def log(tmp_path: Path) -> EgressLog:
    log = EgressLog(tmp_path / "egress.log")
    for number in range(4):
        log.append(
            EgressRecord(
                "pypi", "pypi.org", "GET", f"/simple/{number}/", "allowed", "2026-01-02T03:04:05.000Z", "", "1.1.1.1", 200
            )
        )
    return log


def test_a_log_is_read_as_it_was_written(log: EgressLog) -> None:
    records = parse_egress_log(log.path.read_bytes(), log.head)
    assert [(each.n, each.path) for each in records] == [(number + 1, f"/simple/{number}/") for number in range(4)]
    assert parse_egress_log(log.path.read_bytes()) == records


def test_a_log_is_continued(log: EgressLog) -> None:
    again = EgressLog(log.path)
    assert again.head == log.head
    again.append(EgressRecord("", "", "", "", "refused", ""))
    assert parse_egress_log(log.path.read_bytes(), again.head)[-1].n == 5


def check_altered(log: EgressLog, lines: list[bytes], head: str) -> None:
    log.path.write_bytes(b"".join(lines))
    with pytest.raises(VerificationError) as caught:
        parse_egress_log(log.path.read_bytes(), head)
    assert caught.value.reason == "egress_log_altered"


@pytest.mark.every_case
@pytest.mark.parametrize("number", range(4))
def test_every_change_of_a_line_shows(log: EgressLog, number: int) -> None:
    lines = log.path.read_bytes().splitlines(keepends=True)
    fields = json.loads(lines[number])
    for name, value in fields.items():
        other = value + 1 if isinstance(value, int) else "refused" if name == "decision" else value + "x"
        changed = json.dumps(fields | {name: other}, separators=(",", ":"), sort_keys=True).encode() + b"\n"
        check_altered(log, [*lines[:number], changed, *lines[number + 1 :]], log.head)
    for changed in (b"", b"{}\n", b"\n", lines[number] * 2, lines[number].replace(b":", b": "), lines[number][:-1]):
        check_altered(log, [*lines[:number], changed, *lines[number + 1 :]], log.head)
    check_altered(log, [*lines[:number], lines[(number + 1) % 4], *lines[number + 1 :]], log.head)


def test_missing_and_reordered_lines_show(log: EgressLog) -> None:
    lines = log.path.read_bytes().splitlines(keepends=True)
    check_altered(log, lines[::-1], log.head)
    check_altered(log, lines[:3], log.head)
    check_altered(log, lines[1:], "")
    check_altered(log, [], log.head)
    check_altered(log, [*lines, b"{"], log.head)
    log.path.write_bytes(b"".join(lines[:3]))
    assert len(parse_egress_log(log.path.read_bytes())) == 3


def test_an_altered_log_is_not_continued(log: EgressLog) -> None:
    log.path.write_bytes(log.path.read_bytes().replace(b"pypi.org", b"evil.org", 1))
    with pytest.raises(VerificationError):
        EgressLog(log.path)
