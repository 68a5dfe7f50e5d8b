"""A name and an address as the author of a commit. Pure."""

from __future__ import annotations

import re

import msgspec

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
