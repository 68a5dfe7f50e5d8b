"""``schema``: schemas of documents; also reads documents that commands are given."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gatewright.app.cli.options import JsonOutput
from gatewright.app.cli.outcome import Exit
from gatewright.app.cli.output import emit, reported, write_line
from gatewright.errors import Fault, MalformedError
from gatewright.view.safe_text import printable

if TYPE_CHECKING:
    from gatewright.contracts import RunRequest, TaskContract

schema = typer.Typer(help="List, print and apply the JSON Schemas of all documents.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    schema.command("list")(list_schemas)
    schema.command("show")(show)
    schema.command("validate")(validate)
    app.add_typer(schema, name="schema")


@reported
def list_schemas(json_output: JsonOutput = False) -> None:
    """List the schemas."""
    from gatewright.contracts import schemas

    entries = [{"name": name, "title": str(schemas.load(name).get("title", ""))} for name in schemas.names()]
    if json_output:
        emit({"schemas": entries})
        return
    for entry in entries:
        write_line(f"{entry['name']:<24} {entry['title']}")


@reported
def show(
    name: Annotated[str, typer.Argument(help="Schema name, such as task_contract.v1")], json_output: JsonOutput = False
) -> None:
    """Print a schema."""
    from gatewright.contracts import schemas

    loaded = schemas.load(name)
    if json_output:
        emit(loaded)
    else:
        write_line(json.dumps(loaded, indent=2, ensure_ascii=False))


@reported
def validate(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="JSON document (- reads standard input)")],
    name: Annotated[str | None, typer.Option("--schema", help="Schema name (default: derived from the fields)")] = None,
    json_output: JsonOutput = False,
) -> None:
    """Validate a document against its schema.

    The output names each fault by JSON pointer. Exit code 1 means that the document is not valid.
    """
    from gatewright.contracts import forms

    data = read_document(file)
    chosen = name or recognise_schema(data)
    form, faults = forms.read(chosen, data)
    if json_output:
        emit({"schema": chosen, "form": form, "valid": not faults, "faults": [fault._asdict() for fault in faults]})
    else:
        words = "" if form == "gatewright" else ", in CortexPilot's form: it is checked, and taken nowhere"
        write_line(f"{file}: {'valid' if not faults else 'not valid'} under {chosen}{words}")
        for fault in faults:
            write_line(f"  {printable(fault.pointer or '/')}: {printable(fault.message)} [{fault.code}]")
    raise typer.Exit(Exit.FAILED if faults else Exit.GOOD)


def read_document(name: str) -> bytes:
    """Return the bytes of a file, or of standard input for ``-``. Raises MalformedError (code ``invalid_input``)."""
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise MalformedError(f"{name} cannot be read: {error.strerror}", code="invalid_input") from error


def submittable_schema(data: bytes) -> str:
    """Return ``task_contract.v1`` or ``run_request.v1``: a request has ``request``, a contract ``task_id``.

    Raises MalformedError if it is neither.
    """
    fields = _fields(data)
    if "request" in fields:
        return "run_request.v1"
    if "task_id" in fields:
        return "task_contract.v1"
    raise MalformedError("neither a run request (it has `request`) nor a task contract (it has `task_id`)")


def recognise_schema(data: bytes) -> str:
    """Detect the schema of a document: of those whose required fields it has, the one that requires the most.

    Schemas that know all its fields come first.

    A schema with one required field matches only if it knows all other fields: a contract that lacks a field is not a small
    request. Otherwise the result is that of ``submittable_schema``.

    Raises:
        MalformedError: no schema matches.
    """
    from gatewright.contracts import forms, schemas

    fields = _fields(data)
    fitting = {
        name: most
        for name, forms_of_it in forms.required_fields().items()
        if (most := max((len(required) for required in forms_of_it if required <= fields), default=0))
    }
    knowing = {name: most for name, most in fitting.items() if fields <= schemas.load(name)["properties"].keys()}
    fitting = knowing or fitting
    best = [name for name, most in fitting.items() if most == max(fitting.values())]
    if len(best) == 1 and (fitting[best[0]] > 1 or fields <= schemas.load(best[0])["properties"].keys()):
        return best[0]
    try:
        return submittable_schema(data)
    except MalformedError as error:
        raise MalformedError("the fields of this document fit no schema: name one with --schema") from error


def _fields(data: bytes) -> frozenset[str]:
    """Return the top-level field names of a document; none unless it is an object. Raises MalformedError (``not_json``)."""
    from gatewright.foreign_documents import UnreadableDocumentError, read_json

    try:
        loaded = read_json(data)
    except UnreadableDocumentError as error:
        raise MalformedError(f"not JSON: {error}", faults=(Fault("", "not_json", str(error)),), code="not_json") from error
    return frozenset(loaded) if isinstance(loaded, dict) else frozenset()


def read_submittable(name: str) -> RunRequest | TaskContract:
    """Read a request or contract from a file or standard input. Raises MalformedError with every fault."""
    from gatewright.contracts import RunRequest, TaskContract, codec

    data = read_document(name)
    if submittable_schema(data) == "run_request.v1":
        return codec.decode(data, RunRequest)
    return codec.decode(data, TaskContract)
