"""Calls again a function that was called in a test, and describes what came of it.

It runs in two processes that are compared: in the test runner, started by its reporter, and outside of it as a program of
its own (``main``). Descriptions are texts that are equal for equal values, without addresses and in a fixed order. No method
of a described value is called.

This file stands alone: outside of the runner nothing else of ours is there.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import importlib
import inspect
import io
import itertools
import json
import os
import pickle
import shutil
import signal
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

#: Levels and parts of a value that are described, and characters of a description for people.
_DEEPEST, _MOST_PARTS, SHOWN = 8, 4000, 300
#: Values of an iterator that are taken.
_MOST_YIELDED = 50
#: Seconds for one call.
_LONGEST_CALL = 3
#: Where a decorator keeps the function that it was given.
_INNER = ("__wrapped__", "__func__", "fget", "fset", "fdel", "func", "callback", "fn", "function", "_function")
#: Packages whose objects stand in for others, or mark a test run by their mere presence.
_OF_TESTS = frozenset(("pytest", "_pytest", "unittest", "pluggy", "nose", "xdist", "hypothesis", "mock"))
_SIMPLE = (type(None), bool, int, float, complex, bytes, bytearray, range, type(Ellipsis), type(NotImplemented))


class Call(NamedTuple):
    """A recorded call: the module, the qualified name and the first line of the function, and its pickled arguments."""

    module: str
    name: str
    line: int
    data: str


class Outcome(NamedTuple):
    """``kind``: returned, raised, or why the call could not be repeated. ``digest`` is of the value and the arguments after
    the call, ``printed`` of the output; ``text`` is for people."""

    kind: str
    digest: str = ""
    printed: str = ""
    text: str = ""


def fields_of(number: int, outcome: Outcome) -> dict[str, Any]:
    """The fields of a record ``replayed``."""
    kind, digest, printed, text = outcome
    return {"line": number, "name": kind, "digest": digest, "printed": printed, "text": text}


class OpaqueError(Exception):
    """A value cannot be pickled within its bounds, or must not be loaded."""


# ------------------------------------------------------------------------------------------------------ descriptions


class _Describer:
    def __init__(self, *, taking: bool) -> None:
        self._taking = taking
        self._parts = 0
        self._above: list[int] = []
        #: Whether something was met that would have to be consumed to be described.
        self.unread = False

    def of(self, value: Any) -> str:
        self._parts += 1
        kind = type(value)
        if kind in _SIMPLE:
            return repr(value)
        if kind is str:
            return str.__repr__(value)
        if self._parts > _MOST_PARTS or len(self._above) >= _DEEPEST:
            return "..."
        if id(value) in self._above:
            return "<itself>"
        self._above.append(id(value))
        try:
            return self._of_parts(value, kind)
        finally:
            self._above.pop()

    def _of_parts(self, value: Any, kind: type) -> str:
        name = "" if kind in (list, tuple, dict, set, frozenset) else _name_of(kind)
        own = self._attributes(value)
        if isinstance(value, (list, tuple)):
            open_, close = "[]" if isinstance(value, list) else "()"
            items = list.__iter__(value) if isinstance(value, list) else tuple.__iter__(value)
            return name + open_ + ", ".join(map(self.of, items)) + close + own
        if isinstance(value, dict):
            pairs = (f"{self.of(key)}: {self.of(item)}" for key, item in dict.items(value))
            return name + "{" + ", ".join(pairs) + "}" + own
        if isinstance(value, (set, frozenset)):
            members = set.__iter__(value) if isinstance(value, set) else frozenset.__iter__(value)
            return name + "{" + ", ".join(sorted(map(self.of, members))) + "}" + own
        if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)):
            return f"<{_name_of(value)}>"
        if isinstance(value, types.MethodType):
            return f"<{_name_of(value.__func__)} of {self.of(value.__self__)}>"
        if isinstance(value, BaseException):
            return f"{name}({', '.join(map(self.of, value.args))})" + own
        for simple in (str, bool, int, float, bytes):
            if isinstance(value, simple):
                return f"{name}({simple.__repr__(value)})" + own
        if hasattr(kind, "__next__"):
            return self._iterator(value, name)
        return name + own if own else name + self._foreign(value, kind)

    def _attributes(self, value: Any) -> str:
        """The attributes of an object, in the order of their names."""
        found: dict[str, Any] = {}
        with contextlib.suppress(Exception):
            found.update(object.__getattribute__(value, "__dict__"))
        for base in type(value).__mro__:
            slots = base.__dict__.get("__slots__", ())
            for slot in (slots,) if isinstance(slots, str) else slots:
                member = base.__dict__.get(slot)
                if isinstance(member, types.MemberDescriptorType):
                    with contextlib.suppress(AttributeError):
                        found[slot] = member.__get__(value)
        if not found or isinstance(value, (type, types.FunctionType, types.ModuleType)):
            return ""
        return "{" + ", ".join(f"{name}={self.of(found[name])}" for name in sorted(map(str, found)) if name in found) + "}"

    def _iterator(self, value: Any, name: str) -> str:
        if not self._taking:
            self.unread = True
            return f"<{name}>"
        return f"<{name} of {', '.join(map(self.of, itertools.islice(value, _MOST_YIELDED)))}>"

    def _foreign(self, value: Any, kind: type) -> str:
        """Objects of C: by their pickle, which has their whole state."""
        with contextlib.suppress(Exception):
            if "__repr__" in kind.__dict__ and kind.__module__ in ("datetime", "decimal", "fractions", "pathlib", "uuid", "re"):
                return repr(value)
            return "<" + hashlib.sha256(pickle.dumps(value, 4)).hexdigest()[:16] + ">"
        return ""


def _name_of(thing: Any) -> str:
    name = getattr(thing, "__qualname__", None) or getattr(thing, "__name__", "?")
    module = getattr(thing, "__module__", None)
    return f"{module}.{name}" if isinstance(module, str) and module != "builtins" else str(name)


def describe(value: Any, *, taking: bool) -> tuple[str, bool]:
    """The description of ``value``, and whether it is whole. ``taking``: iterators are consumed for it."""
    describer = _Describer(taking=taking)
    text = describer.of(value)
    return text, not describer.unread


def outcome_of(kind: str, value: Any, arguments: Any, *, taking: bool) -> Outcome:
    """Describe what a call ended with. The digest is empty where the description is not whole."""
    text, whole = describe(value, taking=taking)
    after, whole_after = describe(arguments, taking=False)
    digest = hashlib.sha256(f"{kind}\n{text}\n{after}".encode("utf-8", "surrogatepass")).hexdigest()
    return Outcome(kind, digest if whole and whole_after else "", "", shortened(text))


def shortened(text: str, most: int = SHOWN) -> str:
    """The first ``most`` characters."""
    return text if len(text) <= most else text[: most - 3] + "..."


# ------------------------------------------------------------------------------------------------------ repeated calls


class _Loader(pickle.Unpickler):
    """Loads arguments, but for objects of test runners: to load one outside would make the process look like a test run."""

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] in _OF_TESTS:
            raise OpaqueError(module)
        return super().find_class(module, name)


def load(data: str) -> Any:
    """The arguments of a call: a tuple and a dictionary."""
    return _Loader(io.BytesIO(base64.b64decode(data))).load()


def find(call: Call) -> Callable[..., Any] | None:
    """The function of ``call``; None where it is not reached by its name."""
    place: Any = importlib.import_module(call.module)
    for part in call.name.split("."):
        owner = place
        place = owner.__dict__.get(part) if isinstance(owner, type) else getattr(owner, part, None)
        for _ in range(6):
            if not isinstance(place, (type, types.FunctionType)) and isinstance(getattr(place, "__wrapped__", None), type):
                place = place.__wrapped__
    return next((each for each in _inside(place) if _is_meant(each, call)), None)


def _is_meant(function: Any, call: Call) -> bool:
    code = getattr(function, "__code__", None)
    return isinstance(function, types.FunctionType) and code is not None and code.co_firstlineno == call.line


def _inside(thing: Any) -> Iterator[Any]:
    """``thing`` and what decorators have put it around."""
    left, seen = [thing], 0
    while left and seen < 30:
        place, seen = left.pop(0), seen + 1
        yield place
        for name in _INNER:
            inner = inspect.getattr_static(place, name, None)
            if isinstance(inner, types.MemberDescriptorType):
                inner = getattr(place, name, None)
            if inner is not None and inner is not place:
                left.append(inner)


class _OverTime(BaseException):
    """One call took too long."""


def _end_call(*_: Any) -> None:
    raise _OverTime


def _invoke(function: Callable[..., Any], positional: Any, named: Any) -> Any:
    return function(*positional, **named)


def call_again(call: Call, invoke: Callable[..., Any] = _invoke) -> Outcome:
    """Make one recorded call again. ``invoke`` is the function that is seen to call."""
    try:
        function = find(call)
    except BaseException as error:  # noqa: BLE001 - importing a module can raise anything
        return Outcome("unimported", text=shortened(f"{_name_of(type(error))}({error})"))
    if function is None:
        return Outcome("unreached")
    try:
        positional, named = load(call.data)
    except BaseException as error:  # noqa: BLE001 - loading foreign objects can raise anything
        return Outcome("unloaded", text=shortened(f"{_name_of(type(error))}({error})"))
    was = describe((positional, named), taking=False)[0]
    before = os.getcwd(), dict(os.environ)  # noqa: PTH109
    printed, end_listening = _listen(sys.stdout)
    handler = signal.signal(signal.SIGALRM, _end_call)
    signal.setitimer(signal.ITIMER_REAL, _LONGEST_CALL)
    try:
        kind, value = _ended(lambda: invoke(function, positional, named))
        made = outcome_of(kind, value, (positional, named), taking=True)
        now = describe((positional, named), taking=False)[0]
        made = made if now == was else made._replace(text=shortened(f"{made.text}, and leaves {now}"))
    except _OverTime:
        return Outcome("over time")
    except BaseException as error:  # noqa: BLE001 - an object that cannot be described
        return Outcome("undescribed", text=shortened(_name_of(type(error))))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        end_listening()
        _restore(*before)
    text = "".join(printed)
    if text:
        made = made._replace(printed=hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest())
    if kind == "returned" and equals_anything(value):
        return made._replace(kind="equal to anything")
    return made._replace(text=shortened(f"{made.text}, and prints {text!r}")) if text else made


def _listen(stream: Any) -> tuple[list[str], Callable[[], None]]:
    """What is written to ``stream`` from now on, and a function that ends it. The stream stays the same object."""
    printed: list[str] = []
    write = stream.write

    def note(text: str) -> int:
        printed.append(text)
        return len(text)

    with contextlib.suppress(AttributeError):
        stream.write = note

    def end() -> None:
        with contextlib.suppress(AttributeError):
            stream.write = write

    return printed, end


def _restore(folder: str, environment: dict[str, str]) -> None:
    with contextlib.suppress(OSError):
        os.chdir(folder)
    if dict(os.environ) != environment:
        os.environ.clear()
        os.environ.update(environment)


def _ended(invoked: Callable[[], Any]) -> tuple[str, Any]:
    try:
        value = invoked()
        if inspect.iscoroutine(value):
            import asyncio

            value = asyncio.run(value)
        elif inspect.isgenerator(value):
            value = list(itertools.islice(value, _MOST_YIELDED))
        elif inspect.isasyncgen(value):
            import asyncio

            value = asyncio.run(_yielded(value))
    except _OverTime:
        raise
    except BaseException as error:  # noqa: BLE001 - it is the result
        return "raised", error
    return "returned", value


async def _yielded(values: Any) -> list[Any]:
    taken: list[Any] = []
    async for value in values:
        taken.append(value)
        if len(taken) == _MOST_YIELDED:
            break
    return taken


class _Unique:
    __slots__ = ()


#: What no honest value equals: an object of a class that it cannot know, or two unlikely numbers or texts at once.
_UNLIKELY = ((_Unique(),), (1.25e300, -7.5e299), ("\ue000gw", "\ue001gw"))


def equals_anything(value: Any) -> bool:
    """Whether a result, or one of its parts, is of a class whose equality accepts a value of which it cannot know."""
    parts = list(value) if type(value) in (list, tuple) else list(value.values()) if type(value) is dict else [value]
    for each in parts[:20]:
        compare = getattr(type(each), "__eq__", None)
        with contextlib.suppress(BaseException):
            if isinstance(compare, types.FunctionType) and any(
                all(compare(each, other) is True for other in others) for others in _UNLIKELY
            ):
                return True
    return False


def in_the_place_of(name: str, module: Any, calls: Any, emit: Callable[..., None]) -> Callable[[], None]:
    """A function that makes ``calls`` and reports how each ended.

    What calls is a function with the name, the file and the global names of a test.
    """
    name = name if name.isidentifier() else "test"
    source = f"def {name}(function, positional, named):\n    return function(*positional, **named)\n"
    made: dict[str, Any] = dict(vars(module)) if module is not None else {}
    exec(compile(source, made.get("__file__") or "test.py", "exec"), made)  # noqa: S102 - the name is an identifier

    def repeat() -> None:
        for number, call in enumerate(calls):
            emit("replayed", **fields_of(number, call_again(Call(*call), made[name])))

    return repeat


# -------------------------------------------------------------------------------------------------- outside of the runner


def main(place: str) -> None:
    """Make the calls of the file ``place``, whose folder is removed first, and write a line for each to standard output.

    Nothing here looks like a test run: no runner, no arguments of one, no variable of one, another folder.
    """
    with open(place, encoding="utf-8") as file:  # noqa: PTH123
        order = json.load(file)
    own = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    shutil.rmtree(own, ignore_errors=True)
    sys.path[:] = [*order["places"], *(each for each in sys.path if each != own)]
    sys.argv[:] = ["app"]
    os.chdir(order["folder"])
    os.environ.update(order["variables"], PWD=order["folder"])
    # Standard error is not compared: a logger without handlers writes to it, and test runners have handlers.
    writing = os.dup(1)
    silent = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(silent, number)
    calls, leave, report = [Call(*each) for each in order["calls"]], os._exit, _reporter(writing, order["token"])
    order.clear()
    for number, call in enumerate(calls):
        report(number, call_again(call))
    leave(0)


def _reporter(file: int, token: str) -> Callable[[int, Outcome], None]:
    """A function that writes records, out of the reach of what replaces functions of ``os`` or reads local names."""
    write, dumps = os.write, json.dumps

    def report(number: int, outcome: Outcome) -> None:
        write(file, dumps({"token": token, "kind": "replayed", **fields_of(number, outcome)}).encode() + b"\n")

    return report


if __name__ == "__main__":
    main(sys.argv[1])
