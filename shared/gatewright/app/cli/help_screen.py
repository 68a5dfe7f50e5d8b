"""The help of the program and of each command: plain text in panels, at most 80 columns wide.

Typer's own help shows Python types and ranges, and shortens words to fit its boxes. This module writes one row per option: its
flags, a plain name of its value, its help, its choices, and notes in parentheses (repeatable, default, environment variable).
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar, Final

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

#: Maximum columns of flags; longer ones get a line of their own.
_FLAGS_WIDTH: Final = 26
#: Maximum characters of choices that are shown in place of the value's name.
_CHOICES_WIDTH: Final = 20
_ARGUMENTS: Final = "Arguments"
_OPTIONS: Final = "Options"
#: Key in the context that requests all options.
_ALL: Final = "gatewright.help_all"
#: Help of the options that Typer adds. Options without help are hidden: `gatewright completion` describes them.
_TYPERS: Final = {"help": "Show this help", "install_completion": "", "show_completion": ""}

Rows = list[tuple[str, str]]


class HelpCommand(TyperCommand):
    """A command with plain help. ``first_screen``: names of the options that ``--help`` shows; all by default."""

    first_screen: ClassVar[frozenset[str]] = frozenset()

    def format_help(self, ctx: Any, formatter: Any) -> None:
        whole = not self.first_screen or bool(ctx.meta.get(_ALL))
        shown = [param for param in self.get_params(ctx) if whole or param.name in self.first_screen]
        _write_opening(self, ctx, formatter)
        _write_panels(formatter, _option_panels(shown))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return _usage_pieces(self, ctx)

    def get_short_help_str(self, limit: int = 0) -> str:  # noqa: ARG002 - a summary is never shortened
        return summary_of(self)


class HelpGroup(TyperGroup):
    """A group of commands with plain help. ``panels``: names of the commands in each panel; one panel by default."""

    panels: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _write_opening(self, ctx, formatter)
        commands = {
            panel: [(name, summary_of(self.commands[name])) for name in names if not self.commands[name].hidden]
            for panel, names in (self.panels or {"Commands": tuple(self.commands)}).items()
        }
        _write_panels(formatter, commands | _option_panels(self.get_params(ctx)))
        if self.epilog:
            formatter.write(f"\n{_wrapped(self.epilog, formatter.width)}\n")

    def get_short_help_str(self, limit: int = 0) -> str:  # noqa: ARG002 - a summary is never shortened
        return summary_of(self)


def use_plain_help(app: typer.Typer) -> None:
    """Give all commands and groups below ``app`` plain help, except those with a class of their own."""
    for command in app.registered_commands:
        if command.cls is TyperCommand:
            command.cls = HelpCommand
    for group in app.registered_groups:
        group.cls = HelpGroup
        if group.typer_instance is not None:
            use_plain_help(group.typer_instance)


def show_all_options(context: typer.Context, *, wanted: bool) -> None:
    """Print the help with all options, and exit: the callback of ``--help-all``."""
    if wanted:
        context.meta[_ALL] = True
        typer.echo(context.get_help())
        raise typer.Exit


def summary_of(command: Any) -> str:
    """Return the first paragraph of a command's help for lists: on one line, without the final period."""
    return " ".join(inspect.cleandoc(command.help or "").partition("\n\n")[0].split()).removesuffix(".")


def help_of(param: TyperOption | TyperArgument) -> str:
    """Return the help of an option or argument, without its choices and notes."""
    return _TYPERS.get(param.name or "", param.help or "")


def _write_opening(command: Any, ctx: Any, formatter: Any) -> None:
    """Write the usage and the text of the command. Indented paragraphs are examples, and are not wrapped."""
    command.format_usage(ctx, formatter)
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        text = paragraph if paragraph.startswith("  ") else _wrapped(" ".join(paragraph.split()), formatter.width)
        formatter.write(f"\n{text}\n")


def _write_panels(formatter: Any, panels: Mapping[str, Rows]) -> None:
    """Write each panel with its heading. The second column is aligned across panels."""
    width = max((len(first) for rows in panels.values() for first, _ in rows if len(first) <= _FLAGS_WIDTH), default=0)
    for panel, rows in panels.items():
        if rows:
            formatter.write(f"\n{typer.style(panel, bold=True)}\n")
        for first, second in rows:
            column = " " * (width + 4)
            opening = f"  {first}\n{column}" if len(first) > width else f"  {first:{width}}  "
            formatter.write(opening + _wrapped(second, formatter.width, column).lstrip() + "\n")


def _wrapped(text: str, width: int, indent: str = "") -> str:
    """Wrap the text between words, never inside an option or an id."""
    return textwrap.fill(
        text, width, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _option_panels(params: list[Any]) -> dict[str, Rows]:
    panels: dict[str, Rows] = {_ARGUMENTS: []}
    for param in params:
        if param.hidden or not help_of(param):
            continue
        panel = param.rich_help_panel if isinstance(param.rich_help_panel, str) else ""
        default = _ARGUMENTS if isinstance(param, TyperArgument) else _OPTIONS
        panels.setdefault(panel or default, []).append((_left_column(param), _right_column(param)))
    options = panels.pop(_OPTIONS, [])
    return panels | {_OPTIONS: options}


def _left_column(param: Any) -> str:
    if isinstance(param, TyperArgument):
        return _value_name(param).strip("[].") if param.nargs == 1 else _value_name(param).replace("[", "").replace("]", "")
    flags = ", ".join(sorted(param.opts, key=lambda flag: flag.startswith("--")))
    spelled = "/".join((flags, *param.secondary_opts))
    return spelled if param.is_flag else f"{spelled} {_value_name(param)}"


def _right_column(param: Any) -> str:
    choices, notes = _choices(param), "; ".join(_notes(param))
    listed = f": {', '.join(choices)}" if choices and "|".join(choices) != _value_name(param) else ""
    return f"{help_of(param)}{listed}" + (f" ({notes})" if notes else "")


def _value_name(param: Any) -> str:
    """Return the placeholder of the value: the metavar, short choices, or a word for the type."""
    if param.metavar:
        return str(param.metavar)
    choices = _choices(param)
    if choices and len("|".join(choices)) <= _CHOICES_WIDTH:
        return "|".join(choices)
    annotation = param.type_descriptor.annotation
    return {int: "N", float: "N", Path: "PATH"}.get(annotation, "NAME")


def _choices(param: Any) -> list[str]:
    return [_format_value(choice) for choice in param.type_descriptor.choices or ()]


def _notes(param: Any) -> Iterator[str]:
    """Yield the notes in parentheses after the help."""
    if isinstance(param, TyperOption) and param.multiple:
        yield "repeatable"
    default = _default(param)
    if default:
        yield f"default: {default}"
    if param.envvar:
        yield f"env: {param.envvar}"


def _default(param: Any) -> str:
    if isinstance(param.show_default, str):
        return param.show_default
    if isinstance(param.default, bool):
        return (param.opts[0] if param.default else param.secondary_opts[0]) if param.secondary_opts else ""
    return "" if param.default is None or not param.show_default else _format_value(param.default)


def _format_value(value: object) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _usage_pieces(command: Any, ctx: Any) -> list[str]:
    """Return the arguments of the usage: ``[OPTIONS]``, the required options, and the arguments."""
    pieces = ["[OPTIONS]"]
    params = [param for param in command.get_params(ctx) if not param.hidden]
    pieces += [f"{param.opts[-1]} {_value_name(param)}" for param in params if param.required and param.opts[0].startswith("-")]
    for param in params:
        if isinstance(param, TyperArgument):
            name = _value_name(param)
            pieces.append(name if param.required or name.startswith("[") else f"[{name}]")
    return pieces
