"""``schema``: what documents the bus knows."""

from __future__ import annotations

from typing import Annotated

import typer

from gatewright.app.cli.options import JsonOutput
from gatewright.app.cli.output import emit, reported, say
from gatewright.view.safe_text import printable

schema = typer.Typer(help="The JSON Schemas of everything that crosses the bus.", no_args_is_help=True)


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
        say(f"{entry['name']:<24} {entry['title']}")


@reported
def show(name: Annotated[str, typer.Argument(help="For example task_contract.v1.")], json_output: JsonOutput = False) -> None:
    """Print a schema."""
    import json

    from gatewright.contracts import schemas

    loaded = schemas.load(name)
    if json_output:
        emit(loaded)
    else:
        say(json.dumps(loaded, indent=2, ensure_ascii=False))


@reported
def validate(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="A JSON document; - reads standard input.")],
    name: Annotated[
        str | None, typer.Option("--schema", help="The schema; by default the document is recognised by its fields.")
    ] = None,
    json_output: JsonOutput = False,
) -> None:
    """Check a document against its schema. Exit code 1 when it does not keep it; every fault is named by JSON pointer."""
    from gatewright.app.cli.checking.documents import read_document, recognised_schema
    from gatewright.app.cli.outcome import Exit
    from gatewright.contracts import forms

    data = read_document(file)
    chosen = name or recognised_schema(data)
    form, faults = forms.read(chosen, data)
    if json_output:
        emit({"schema": chosen, "form": form, "valid": not faults, "faults": [fault._asdict() for fault in faults]})
    else:
        words = "" if form == "gatewright" else ", in CortexPilot's form: it is checked, and taken nowhere"
        say(f"{file}: {'valid' if not faults else 'not valid'} under {chosen}{words}")
        for fault in faults:
            say(f"  {printable(fault.pointer or '/')}: {printable(fault.message)} [{fault.code}]")
    raise typer.Exit(Exit.FAILED if faults else Exit.GOOD)
