"""A run request as people write it into the form of the live page. Pure.

The fields of the form are the rows of the table of options (``gatewright.order_form``) that have a ``form``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from gatewright.app.console.access_check import SignedInPerson
from gatewright.app.order_document import order_document
from gatewright.contracts import RunRequest, codec
from gatewright.errors import Fault, MalformedError
from gatewright.executor_kinds import EXECUTOR_KINDS
from gatewright.order_form.rows import FormField, Kind, Row, Section
from gatewright.order_form.run_options import ANY_AGENT, order_rows, row

#: Maximum bytes of a submitted form, where most characters of a patch take one byte and some three.
MOST_BYTES: Final = 6_000_000
#: The ways to make the change: the kinds of executor whose option the form shows.
MAKERS: Final = {name: kind.label for name, kind in EXECUTOR_KINDS.items() if row(kind.option).form is not None}
#: Name of the orderer if the sign-in names no person.
_NO_PERSON = "the live page"
#: The value of a box that is ticked.
_TICKED = "on"


def form_sections() -> dict[str, tuple[tuple[Row, FormField], ...]]:
    """The rows that the form shows, and how, by the part of the form."""
    shown = [(each, each.form) for each in order_rows() if each.form is not None]
    return {section: tuple(pair for pair in shown if pair[1].section is section) for section in Section}


def request_of(fields: Mapping[str, str], person: SignedInPerson | None = None) -> RunRequest:
    """Return the request of a form; empty lines are ignored.

    ``person`` has sent the form: the orderer of the run and author of its commit; None: the sign-in names no person. Raises
    MalformedError (``invalid_input``) with a fault for each missing or wrong field.
    """
    maker = fields.get("maker", "")
    shown = [each for part in form_sections().values() for each in part if each[1].maker in {"", maker}]
    missing = [
        Fault(f"/{each.key}", "required", form.required)
        for each, form in shown
        if form.required and not fields.get(each.key, "").strip()
    ]
    if maker not in MAKERS:
        missing.append(Fault("/maker", "required", "select who makes the change"))
    if missing:
        raise MalformedError("this cannot be run", faults=tuple(missing), code="invalid_input")
    values = {each.name: _form_value(each, form, fields.get(each.key, "")) for each, form in shown}
    if maker == "agent" and not values["agent"]:
        values["agent"] = ANY_AGENT
    document: dict[str, Any] = {
        **order_document(values),
        "requested_by": person.names[0] if person is not None else _NO_PERSON,
        "ordered_by": person.names if person is not None else (),
    }
    if person is not None and person.author is not None:
        document["author"] = msgspec.to_builtins(person.author)
    if fields.get("idempotency_key", "").strip():
        document["idempotency_key"] = fields["idempotency_key"].strip()
    return codec.decode(msgspec.json.encode(document), RunRequest)


def _form_value(each: Row, form: FormField, text: str) -> Any:
    """Return a person's input in the form that ``order_document`` accepts."""
    if each.name == "patch":
        # Browsers send the ends of lines as CR LF.
        return (text.replace("\r\n", "\n").rstrip("\n") + "\n").encode() if text.strip() else b""
    if each.kind is Kind.FLAG:
        return text == _TICKED
    if each.kind.many:
        lines = text.splitlines() if form.rows > 1 else [text]
        return tuple(line.strip() for line in lines if line.strip())
    return text.strip()
