"""A name and an address as the author of a commit, and the authors of several commits. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from gatewright.contracts.people.identities import person_key
from gatewright.contracts.vocabulary import NOT_IN_NAMES, Person

_NOT_IN_NAMES = re.compile(f"[{NOT_IN_NAMES}]")  # noqa: TID251 - linear: single characters
_LONGEST_NAME = 200


def commit_author(name: str, email: str) -> Person | None:
    """The person of that name and address as far as a commit can hold them, else None.

    What no commit can hold (line ends, angle brackets) is left out, as git itself does.
    """
    fields = {
        "name": " ".join(_NOT_IN_NAMES.sub("", name).split())[:_LONGEST_NAME],
        "email": "".join(_NOT_IN_NAMES.sub("", email).split()),
    }
    try:
        return msgspec.convert(fields, Person)
    except msgspec.ValidationError:
        return None


def distinct_authors(authors: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return the distinct people among names and addresses: the first of several spellings of one person."""
    by_person: dict[str, tuple[str, str]] = {}
    for name, email in authors:
        by_person.setdefault(person_key(email) or person_key(name), (name, email))
    return tuple(by_person.values())


def author_line(name: str, email: str) -> str:
    """Return an author as ``source_branch.authors`` holds one: ``Name <address>``, cut to the length of the field."""
    return f"{name[:200]} <{email[:300]}>"
