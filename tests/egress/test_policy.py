"""What egress.json accepts, and which addresses belong to a source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from gatewright.egress.policy import EGRESS_FILE, PUBLIC, EgressPolicy, EgressSource, is_host, source_of

GOOD: dict[str, Any] = {"name": "own", "hosts": ["own.example"]}
BAD: list[dict[str, Any]] = [
    {"hosts": []},
    {"hosts": ["*"]},
    {"hosts": ["*.*.example"]},
    {"hosts": ["Own.example"]},
    {"hosts": ["own.example."]},
    {"hosts": ["https://own.example"]},
    {"hosts": ["own.example/path"]},
    {"hosts": ["own.example:0"]},
    {"hosts": ["own.example:65536"]},
    {"hosts": ["own.example:x"]},
    {"hosts": ["10.0.0.1"]},
    {"hosts": ["10.0.0.1:8080"]},
    {"hosts": ["2130706433"], "private": True},
    {"hosts": ["0x7f.1"], "private": True},
    {"hosts": ["127.1"], "private": True},
    {"hosts": ["öwn.example"]},
    {"name": "Own"},
    {"index": "simple"},
    {"index": "/a?b"},
    {"credential": "a b"},
    {"ecosystem": "perl"},
    {"methods": ["POST"]},
]


@pytest.mark.every_case
@pytest.mark.parametrize("fields", BAD)
def test_a_source_that_would_open_too_much_is_refused(fields: dict[str, Any]) -> None:
    EgressSource.model_validate(GOOD)
    with pytest.raises(ValidationError):
        EgressSource.model_validate(GOOD | fields)


def test_two_sources_with_one_name_are_refused() -> None:
    with pytest.raises(ValidationError, match="one name"):
        EgressPolicy.model_validate({"version": "1", "sources": [GOOD, GOOD]})


def test_without_a_file_the_public_registries_are_allowed(tmp_path: Path) -> None:
    assert EGRESS_FILE.default is not None
    assert EGRESS_FILE.default().sources == PUBLIC
    assert EGRESS_FILE.parse(tmp_path, b'{"version": "1"}').sources == PUBLIC
    assert EGRESS_FILE.parse(tmp_path, b'{"version": "1", "sources": []}').sources == ()


@pytest.mark.parametrize(
    ("place", "source"),
    [
        (("https", "pypi.org", 443), "pypi"),
        (("https", "pypi.org", 8443), None),
        (("http", "pypi.org", 443), None),
        (("https", "a.pypi.org", 443), None),
        (("https", "a.wide.example", 443), "wide"),
        (("https", "wide.example", 443), None),
        (("https", "evilwide.example", 443), None),
        (("http", "10.0.0.1", 3141), "plain"),
        (("https", "10.0.0.1", 443), None),
    ],
)
@pytest.mark.every_case
def test_an_address_belongs_to_the_source_of_its_parts(place: tuple[str, str, int], source: str | None) -> None:
    wide = EgressSource(name="wide", hosts=("*.wide.example",))
    plain = EgressSource(name="plain", hosts=("10.0.0.1:3141",), private=True, http=True)
    belongs = source_of((*PUBLIC, wide, plain), *place)
    assert (belongs and belongs.name) == source


@pytest.mark.parametrize("host", ["a" * 64 + ".example", "a." * 130 + "example", "-a.example", "a-.example", "a..b", "", "1.2"])
@pytest.mark.every_case
def test_a_text_that_is_no_host_is_refused(host: str) -> None:
    assert not is_host(host)
    assert is_host("a_b.c-d.example")
