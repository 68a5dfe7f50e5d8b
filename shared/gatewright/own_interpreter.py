"""What the interpreter that runs this needs to be started again, where a child process gets no other variable.

A Python with a shared library outside of the system's folders may start with ``LD_LIBRARY_PATH`` alone. It is a path and no
secret. Only programs of Gatewright get it: commands of repositories never do.
"""

from __future__ import annotations

import os

_LOADER = "LD_LIBRARY_PATH"


def loader_variables() -> dict[str, str]:
    """For the environment of a child process; empty where the interpreter needs none."""
    return {_LOADER: os.environ[_LOADER]} if os.environ.get(_LOADER) else {}


def loader_words() -> tuple[str, ...]:
    """The same as words before the command, for a process that another program starts."""
    found = [f"{name}={value}" for name, value in loader_variables().items()]
    return ("env", *found) if found else ()
