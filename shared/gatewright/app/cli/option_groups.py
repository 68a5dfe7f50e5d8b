"""Options that belong together as one parameter: a dataclass whose fields the command line shows as options of their own."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

Parameters = dict[str, inspect.Parameter]


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """``command`` as Typer is to read it: in the place of each parameter that is a dataclass stand its fields.

    Only parameters that are given by keyword may be dataclasses; a field without a default is a required option.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: _options(kind) for name, kind in hints.items() if dataclasses.is_dataclass(kind)}
    parameters: Parameters = {}
    for name, parameter in inspect.signature(command).parameters.items():
        parameters |= groups.get(name) or {name: parameter.replace(annotation=hints[name])}

    @functools.wraps(command)
    def read(**given: Any) -> None:
        for name, options in groups.items():
            given[name] = hints[name](**{option: given.pop(option) for option in options})
        command(**given)

    read.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]  # what inspect reads
    read.__annotations__ = {name: parameter.annotation for name, parameter in parameters.items()}
    return read


def _options(kind: Any) -> Parameters:
    hints = get_type_hints(kind, include_extras=True)
    return {
        field.name: inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in dataclasses.fields(kind)
    }
