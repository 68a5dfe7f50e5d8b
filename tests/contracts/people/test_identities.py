"""The canonical form of people: what is one person, what is not, and that any text has one form in bounded time."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatewright.contracts.people.identities import identities_of, person_key, same_person


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ana", "ANA"),
        ("ana@example.org", "Ana <ANA@EXAMPLE.ORG>"),
        ("Straße", "STRASSE"),
        ("e\u0301va@example.org", "\u00c9VA@example.org"),
        ("ana@b\u00fccher.example", "ana@xn--bcher-kva.example"),
        ("ana@example.org", "ana@example\u3002org."),
        ('"ana"@example.org', "ana@example.org"),
        ("  ana\u00a0 lytic ", "Ana Lytic"),
        ("ana@example.org", "ana @ example.org"),
        ("a\u200bn\u00ada", "ana"),
        ("<ana@example.org>", "ana@example.org"),
        ('"Lytic, Ana" <ana@example.org>', "ana@example.org"),
        ("Ana \uff1cana@example.org\uff1e", "ana@example.org"),
    ],
)
def test_spellings_of_one_person(one: str, other: str) -> None:
    assert same_person(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ana", "anna"),
        ("ana@example.org", "ana@example.com"),
        ("ana", "ana@example.org"),
        ("ana.lytic@example.org", "analytic@example.org"),
        ("ana@xn--bcher-kva.example", "ana@bucher.example"),
        ("Ana <ben@example.org>", "Ana <ana@example.org>"),
    ],
)
def test_two_people(one: str, other: str) -> None:
    assert not same_person(one, other)


def test_a_name_with_an_address_names_both() -> None:
    assert identities_of("Ana Lytic <ANA@example.org>", "", " \u200b ") == {"ana lytic", "ana@example.org"}
    assert identities_of("Ben <>", "<x") == {"ben", "<x"}


_WORDS = st.text(st.characters(categories=["L", "Nd"], exclude_characters="\u0345"), min_size=1, max_size=20)


@given(_WORDS, _WORDS)
def test_case_and_form_make_no_other_person(local: str, domain: str) -> None:
    address = f"{local}@{domain}.example"
    key = person_key(address)
    assert person_key(key) == key
    for other in (address.casefold(), unicodedata.normalize("NFD", address), unicodedata.normalize("NFC", address)):
        assert same_person(address, f"Somebody <{other}>")


@pytest.mark.parametrize("text", ["xn--" + "a" * 59 + ".", "<" * 10, "a@" + "xn--\u0301" * 9, "@", "<>", "a@b@c"])
def test_hostile_text_has_a_canonical_form(text: str) -> None:
    assert person_key(text * 2_000) == person_key(text.upper() * 2_000)
    assert identities_of(text * 2_000) == frozenset()
