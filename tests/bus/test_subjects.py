"""Subjects, patterns and ids as the bus takes them; the topology in its own words."""

from __future__ import annotations

import pytest

from gatewright.bus.permissions import access_of
from gatewright.bus.subjects import check_pattern, check_subject, header_id, matches
from gatewright.bus.topology import (
    CLAIM_SUBJECT,
    LEAVE_SUBJECT,
    LIVE_SUBJECT,
    QUESTION_SUBJECT,
    STREAMS,
    TASK_ROLES,
    consumers,
    stream_of,
    task_subject,
)
from gatewright.errors import MalformedError


@pytest.mark.parametrize(
    ("pattern", "subject", "covers"),
    [
        ("gw.run.r", "gw.run.r", True),
        ("gw.run.*", "gw.run.r", True),
        ("gw.run.*", "gw.run.r.s", False),
        ("gw.*.r", "gw.run.r", True),
        ("gw.>", "gw.run.r", True),
        ("gw.run.>", "gw.run", False),
        ("gw.run.r", "gw.run.R", False),
    ],
)
def test_a_pattern_covers_the_same_subjects_as_in_nats(pattern: str, subject: str, *, covers: bool) -> None:
    assert matches(pattern, subject) is covers


@pytest.mark.parametrize("text", ["gw.>.run", "gw.r*n", "gw..run", ">", "gw.run.a\n", "gw.\u00fc"])
def test_what_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(MalformedError):
        check_pattern(text)


def test_every_queue_lies_in_a_stream_and_no_two_overlap() -> None:
    queues = consumers(("default", "gpu"))
    for queue in queues:
        assert stream_of(queue.subject) == queue.stream
    subjects = [queue.subject for queue in queues]
    assert len(set(subjects)) == len(subjects)


def test_every_subject_a_role_may_publish_is_consumed() -> None:
    unstored = (CLAIM_SUBJECT, LIVE_SUBJECT, QUESTION_SUBJECT, LEAVE_SUBJECT)
    stored = [*(subject for stream in STREAMS for subject in stream.subjects), *unstored]
    for role in TASK_ROLES:
        for subject in access_of(role).publish:
            assert any(matches(kept, subject.replace(">", "digest.0")) for kept in stored)


def test_a_task_subject_is_a_subject_for_every_role() -> None:
    for role in TASK_ROLES:
        assert check_subject(task_subject(role))


def test_a_plain_id_stays_and_any_other_becomes_its_digest() -> None:
    assert header_id("run-1:task_result.v1") == "run-1:task_result.v1"
    long, odd = header_id("x" * 129), header_id("a b")
    assert len({long, odd, header_id("a  b"), header_id("\ud800")}) == 4
    assert long.startswith("sha256:")
