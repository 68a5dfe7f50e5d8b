"""Records calls of the functions of ordered files, with their arguments and what came of them; without such files nothing
is changed.

Calls are inserted into these functions when their module is loaded. Functions in functions are left out, because they cannot
be reached later, as are methods that serialising itself may call.
"""

from __future__ import annotations

import ast
import base64
import builtins
import contextlib
import hashlib
import json
import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from importlib.machinery import SourceFileLoader
from typing import Any

from . import channel, replaying

_CALL, _RETURN, _RAISE = "__gatewright_called__", "__gatewright_returned__", "__gatewright_raised__"
_KEPT = "__gatewright_call__"
#: Calls of one function that are looked at and recorded in one process, and of all; and bytes of pickled arguments.
_LOOKED_AT, _MOST_OF_ONE, _MOST, _LONGEST = 200, 8, 3000, 1900
#: Bytes of a record beside its token and digest.
_FITS = 3400
_LEFT_OUT = {"__getattr__", "__getattribute__", "__setattr__", "__delattr__", "__del__", "__new__", "__hash__", "__reduce__"}
_LEFT_OUT |= {"__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__", "__getnewargs_ex__", "__init_subclass__"}
_LEFT_OUT |= {"__class_getitem__", "__set_name__", "__instancecheck__", "__subclasscheck__"}


class _Function:
    def __init__(self, path: str, name: str, line: int) -> None:
        self.path, self.name, self.line = path, name, line
        #: Calls, recorded ones, and those whose arguments cannot be serialised.
        self.calls = self.recorded = self.opaque = 0
        self.seen: set[bytes] = set()


class _Begun:
    """A call that has begun: its record so far, and its arguments, to see what becomes of them."""

    def __init__(self, function: _Function, record: dict[str, Any], arguments: Any) -> None:
        self.function, self.record, self.arguments = function, record, arguments


class Recorder:
    """Records the calls of the functions in the ``order``'s files."""

    def __init__(self, order: channel.ReceivedOrder) -> None:
        self._order = order
        self._functions: list[_Function] = []
        self._read: set[str] = set()
        self._calls: list[dict[str, Any]] = []
        self._busy = threading.local()
        # Taken before the code under test could name a program of its own.
        self._interpreter = sys.executable
        self._test = ""
        #: The environment in which the first test begins.
        self._variables: dict[str, str] = {}

    def start(self) -> None:
        """Record the calls of all functions that are loaded from now on."""
        if not self._order.recorded:
            return
        for name, function in ((_CALL, self._called), (_RETURN, self._returned), (_RAISE, self._raised)):
            setattr(builtins, name, function)
        usual: Callable[..., Any] = SourceFileLoader.get_code

        def get_code(loader: Any, fullname: str) -> Any:
            place = loader.get_filename(fullname)
            path = self._order.here(place)
            if path not in self._order.recorded or path is None:
                return usual(loader, fullname)
            tree = self._functions_of(path, loader.get_data(place))
            return compile(ast.fix_missing_locations(tree), place, "exec", dont_inherit=True)

        SourceFileLoader.get_code = get_code  # type: ignore[assignment, method-assign]

    def begin_test(self, name: str) -> None:
        """Name the test that makes the calls from now on."""
        if not self._test and self._order.recorded:
            self._variables = {name: value for name, value in os.environ.items() if len(name + value) < _LONGEST}
        self._test = name

    def records(self) -> list[dict[str, Any]]:
        """All records of this process: one for each function and each call, and one of the interpreter."""
        if not self._order.recorded:
            return []
        for path in self._order.recorded:
            if path not in self._read:  # no test has loaded it
                with contextlib.suppress(Exception), open(f"{self._order.workspace}/{path}", "rb") as file:  # noqa: PTH123
                    self._functions_of(path, file.read())
        above = self._order.workspace
        places = [os.path.abspath(each) for each in sys.path]  # noqa: PTH100 - the empty text is this folder
        places = [each[len(above) + 1 :] for each in places if (each + "/").startswith(above + "/")]
        return [
            {"kind": "interpreter", "path": self._interpreter, "places": places[:20]},
            *({"kind": "variable", "name": name, "text": value} for name, value in self._variables.items()),
            *(
                {"kind": "function", "path": each.path, "name": each.name, "line": each.line, "counts": counts}
                for each in self._functions
                for counts in ([each.calls, each.opaque],)
            ),
            *self._calls,
        ]

    def _functions_of(self, path: str, source: bytes) -> ast.Module:
        self._read.add(path)
        tree = ast.parse(source)
        for name, node in _outer_functions(tree.body, ""):
            decorators = node.decorator_list
            line = decorators[0].lineno if decorators else node.lineno
            self._functions.append(_Function(path, name, line))
            _instrument(node, len(self._functions) - 1)
        return tree

    # -------------------------------------------------------------------------------------------- called by the functions

    def _called(self, number: int, positional: Any, named: Any) -> _Begun | None:
        function = self._functions[number]
        function.calls += 1
        full = function.recorded >= _MOST_OF_ONE or len(self._calls) >= _MOST
        if full or function.calls > _LOOKED_AT or getattr(self._busy, "now", False):
            return None
        self._busy.now = True
        try:
            return self._begun(function, positional, named)
        except Exception:  # noqa: BLE001 - serialising foreign objects can raise anything
            function.opaque += 1
            return None
        finally:
            self._busy.now = False

    def _begun(self, function: _Function, positional: Any, named: Any) -> _Begun | None:
        data = _pickled((positional, named))
        digest = hashlib.sha256(data).digest()
        if digest in function.seen:
            return None
        function.seen.add(digest)
        text, _ = replaying.describe(positional, taking=False)
        more, _ = replaying.describe(named, taking=False) if named else ("", True)
        module = sys._getframe(2).f_globals.get("__name__", "")  # noqa: SLF001 - of the function itself
        record = {
            "kind": "call",
            "id": self._test[:400],
            "path": function.path,
            "name": f"{module}:{function.name}",
            "line": function.line,
            "data": base64.b64encode(data).decode(),
            "text": replaying.shortened(text + more),
        }
        if len(json.dumps(record)) > _FITS:
            record["text"] = replaying.shortened(text, 40)
        if len(json.dumps(record)) > _FITS:
            raise replaying.OpaqueError(function.name)
        function.recorded += 1
        self._calls.append(record)
        return _Begun(function, record, (positional, named))

    def _returned(self, begun: _Begun | None, value: Any) -> Any:
        if begun is not None:
            self._record_end(begun, "returned", value)
        return value

    def _raised(self, begun: _Begun | None) -> None:
        if begun is not None:
            self._record_end(begun, "raised", sys.exc_info()[1])

    def _record_end(self, begun: _Begun, kind: str, value: Any) -> None:
        was, self._busy.now = getattr(self._busy, "now", False), True
        try:
            begun.record["digest"] = replaying.outcome_of(kind, value, begun.arguments, taking=False).digest
        except Exception:  # noqa: BLE001 - a value that cannot be described: it is compared between the replays alone
            begun.record["digest"] = ""
        finally:
            self._busy.now = was


class _Bounded:
    """A file that takes ``_LONGEST`` bytes."""

    def __init__(self) -> None:
        self.content = b""

    def write(self, data: Any) -> int:
        self.content += bytes(data)
        if len(self.content) > _LONGEST:
            raise replaying.OpaqueError("too large")
        return len(data)


def _pickled(arguments: Any) -> bytes:
    file = _Bounded()
    pickle.Pickler(file, 4).dump(arguments)
    return file.content


# ------------------------------------------------------------------------------------------------------ changed sources

_AnyFunction = (ast.FunctionDef, ast.AsyncFunctionDef)


def _outer_functions(body: list[ast.stmt], above: str) -> Iterator[tuple[str, Any]]:
    """The functions of a module and of its classes, also under conditions."""
    for node in body:
        if isinstance(node, _AnyFunction):
            if node.name not in _LEFT_OUT:
                yield above + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from _outer_functions(node.body, f"{above}{node.name}.")
        else:
            for name in ("body", "orelse", "finalbody"):
                yield from _outer_functions(getattr(node, name, []), above)
            for handler in getattr(node, "handlers", []):
                yield from _outer_functions(handler.body, above)


def _instrument(node: Any, number: int) -> None:
    """Put the calls into one function."""
    arguments = node.args
    positional: list[ast.expr] = [_name_node(each.arg) for each in [*getattr(arguments, "posonlyargs", ()), *arguments.args]]
    if arguments.vararg is not None:
        positional.append(ast.Starred(_name_node(arguments.vararg.arg), ast.Load()))
    keys: list[ast.expr | None] = [ast.Constant(each.arg) for each in arguments.kwonlyargs]
    values: list[ast.expr] = [_name_node(each.arg) for each in arguments.kwonlyargs]
    if arguments.kwarg is not None:
        keys, values = [*keys, None], [*values, _name_node(arguments.kwarg.arg)]
    begun = _invoke(_CALL, ast.Constant(number), ast.Tuple(positional, ast.Load()), ast.Dict(keys, values))
    kept: ast.stmt = ast.Assign([ast.Name(_KEPT, ast.Store())], begun)
    body = list(node.body)
    first = body[:1] if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant) else []
    rest = body[len(first) :] or [ast.Pass()]
    # A generator has its results when it is consumed.
    node.body = [*first, kept, *(rest if _yields(node) else _watched(rest))]


def _watched(body: list[ast.stmt]) -> list[ast.stmt]:
    returns = _Returns()
    watched = [returns.visit(each) for each in body]
    again = ast.ExceptHandler(
        ast.Name("BaseException", ast.Load()), None, [ast.Expr(_invoke(_RAISE, _name_node(_KEPT))), ast.Raise(None, None)]
    )
    end = ast.Expr(_invoke(_RETURN, _name_node(_KEPT), ast.Constant(None)))
    return [ast.Try(watched, [again], [], []), end]


class _Returns(ast.NodeTransformer):
    """Passes every returned value of one function to the recorder."""

    def visit_Return(self, node: ast.Return) -> ast.AST:
        value = node.value if node.value is not None else ast.Constant(None)
        return ast.copy_location(ast.Return(_invoke(_RETURN, _name_node(_KEPT), value)), node)

    def _leave(self, node: ast.AST) -> ast.AST:
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = _leave  # noqa: N815 - of ast


def _yields(function: ast.AST) -> bool:
    left = list(ast.iter_child_nodes(function))
    while left:
        node = left.pop()
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(node, (*_AnyFunction, ast.Lambda, ast.ClassDef)):
            left.extend(ast.iter_child_nodes(node))
    return False


def _name_node(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _invoke(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(_name_node(name), list(arguments), [])
