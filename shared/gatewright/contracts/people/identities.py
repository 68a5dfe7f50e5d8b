"""Who is the same person: one canonical form of names, accounts and mail addresses. Pure.

Every comparison of people uses this module. ``Ana Lytic <ANA@Bücher.example>`` is ``ana@xn--bcher-kva.example``.
"""

from __future__ import annotations

import unicodedata
from typing import Final

#: Characters of one name and address.
LONGEST: Final = 1000
#: Labels of a domain are no longer than this (RFC 1035, section 2.3.4); a longer one is not decoded.
_LONGEST_LABEL: Final = 63
_PUNYCODE: Final = "xn--"
#: What Unicode takes for a full stop in a domain (UTS 46, section 2.3) and NFKC leaves as it is.
_FULL_STOP: Final = str.maketrans("\u3002", ".")
_NOT_IN_LABELS: Final = '.@<>" \u3002'
_QUOTES: Final = '" '
#: Characters that show nothing: controls and format characters, zero width space and marks of direction among them.
_INVISIBLE: Final = frozenset({"Cc", "Cf"})


def person_key(text: str) -> str:
    """The canonical form of one name, account or mail address; empty where nothing is left of it.

    1. without letter case and without another form of the same characters (NFKC), without invisible characters and surplus
    white space  2. of ``Name <address>`` the address  3. the domain in Unicode, also where it was written in punycode, and
    without a full stop at its end. Linear in the length of ``text``.
    """
    return _address_key(_name_and_address(_fold(text))[1])  # 1, 2, 3


def same_person(one: str, other: str) -> bool:
    """Return whether two names, accounts or mail addresses are spellings of the same one."""
    return person_key(one) == person_key(other)


def identities_of(*texts: str) -> frozenset[str]:
    """Everything that ``texts`` name, in its canonical form: of ``Name <address>`` the name as well as the address.

    A text of more than ``LONGEST`` characters names no person.
    """
    short = (text for text in texts if len(text) <= LONGEST)
    return frozenset(key for text in short for part in _name_and_address(_fold(text)) if (key := _address_key(part)))


def _fold(text: str) -> str:
    """Caseless matching of compatible characters (Unicode, D146), with single blanks and nothing invisible."""
    for _ in range(2):
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFD", text).casefold())
    seen = (char for char in text if char.isspace() or unicodedata.category(char) not in _INVISIBLE)
    return " ".join("".join(seen).split())


def _name_and_address(folded: str) -> tuple[str, str]:
    """Name and address of ``Name <address>``; no name, and the whole text, of anything else."""
    if not folded.endswith(">") or "<" not in folded:
        return "", folded
    name, _, address = folded[:-1].rpartition("<")
    name, address = name.strip(' "'), address.strip(" >")
    return (name, address) if address else ("", name)


def _address_key(address: str) -> str:
    local, at, domain = address.rpartition("@")
    if not at:
        return address
    labels = domain.translate(_FULL_STOP).strip(". ").split(".")
    return f"{local.strip(_QUOTES)}@{'.'.join(map(_unicode_label, labels))}".replace(" ", "")


def _unicode_label(label: str) -> str:
    """A label of a domain as people read it; one that is no punycode of such a label stays as it is."""
    if not label.startswith(_PUNYCODE) or len(label) > _LONGEST_LABEL:
        return label
    try:
        decoded = _fold(label.removeprefix(_PUNYCODE).encode("ascii").decode("punycode"))
    except UnicodeError:
        return label
    return label if decoded.isascii() or any(char in decoded for char in _NOT_IN_LABELS) else decoded
