"""The variables that this interpreter needs to be started again, for a child process without any others.

A Python with a shared library outside the system's folders may start only with ``LD_LIBRARY_PATH``. It is a path and no
secret. Only programs of Gatewright get it: commands of repositories never do.
"""

from __future__ import annotations

import os

_LOADER = "LD_LIBRARY_PATH"


def loader_variables() -> dict[str, str]:
    """Return the variables for a child process; empty if the interpreter needs none."""
    return {_LOADER: os.environ[_LOADER]} if os.environ.get(_LOADER) else {}


def loader_words() -> tuple[str, ...]:
    """Return the same as a command prefix, for a process that another program starts."""
    found = [f"{name}={value}" for name, value in loader_variables().items()]
    return ("env", *found) if found else ()
