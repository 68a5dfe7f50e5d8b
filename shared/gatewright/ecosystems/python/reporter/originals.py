"""Check that the code that runs the tests and reports their outcomes is the runner's original code.

Every function and class of the runner is recorded before the workspace is loaded, and compared later. The comparison finds
every kind of replacement (an assignment, a computed name, an extension in C, the garbage collector). Earlier changes, by a
plugin among the sources, are found by comparison with the runner's own files.

An installed plugin may replace functions. A replacement from the workspace is reported with its file if that can be
determined, so that old replacements of a repository can be distinguished from those of a change.
"""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import SourceFileLoader
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from . import channel

#: Modules that decide about the outcome of tests; a module that this version lacks, or has not loaded, is skipped.
PYTEST = (
    *("_pytest._code.code", "_pytest.approx", "_pytest.assertion", "_pytest.assertion.rewrite", "_pytest.config"),
    *("_pytest.main", "_pytest.nodes", "_pytest.outcomes", "_pytest.python", "_pytest.python_api", "_pytest.raises"),
    *("_pytest.reports", "_pytest.runner", "_pytest.skipping", "_pytest.unittest", "pluggy._callers", "pluggy._execution"),
    *("pluggy._hooks", "pluggy._manager", "pluggy._result"),
)
UNITTEST = (
    *("doctest", "unittest.async_case", "unittest.case", "unittest.loader", "unittest.main", "unittest.mock"),
    *("unittest.result", "unittest.runner", "unittest.suite"),
)
#: Looked at several times for each test, because what is put there may take itself away again.
_OFTEN = frozenset(
    (
        *("_pytest.python.Function.obj", "_pytest.python.Function.runtest", "_pytest.python.PyobjMixin.obj"),
        *("_pytest.python.pytest_pyfunc_call", "_pytest.reports.TestReport.from_item_and_call"),
        *("_pytest.runner.CallInfo.from_call", "_pytest.runner.TestReport", "_pytest.runner.call_and_report"),
        *("_pytest.runner.call_runtest_hook", "_pytest.runner.check_interactive_exception"),
        *("_pytest.runner.pytest_runtest_call", "_pytest.runner.pytest_runtest_makereport"),
        *("_pytest.runner.runtestprotocol", "_pytest.unittest.TestCaseFunction.addError"),
        *("_pytest.unittest.TestCaseFunction.addFailure", "_pytest.unittest.TestCaseFunction.runtest"),
        *("_pytest.unittest.pytest_runtest_makereport", "unittest.case.TestCase.__call__"),
        *("unittest.case.TestCase._callTestMethod", "unittest.case.TestCase.debug", "unittest.case.TestCase.run"),
    )
)
#: Held against the runner's files as well, when they are first noted.
_HELD = ("_pytest.python", "_pytest.reports", "_pytest.runner", "_pytest.unittest", "unittest.case")
#: Classes that must not get new attributes: one could hide an inherited name or one set on each object.
_CLOSED = frozenset(
    (
        *("_pytest.main.Session", "_pytest.python.Function", "_pytest.reports.BaseReport", "_pytest.reports.TestReport"),
        *("_pytest.runner.CallInfo", "_pytest.unittest.TestCaseFunction", "unittest.case.TestCase"),
        "unittest.result.TestResult",
    )
)
_BUILTINS = [
    *("AssertionError", "BaseException", "Exception", "SystemExit", "KeyboardInterrupt", "__build_class__", "all", "any"),
    *("bool", "bytes", "callable", "classmethod", "compile", "delattr", "dict", "eval", "exec", "float", "frozenset"),
    *("getattr", "hasattr", "hash", "id", "int", "isinstance", "issubclass", "iter", "len", "list", "map", "next"),
    *("object", "property", "repr", "set", "setattr", "sorted", "staticmethod", "str", "super", "tuple", "type", "vars"),
    "zip",
]
_PROCESS = (("sys", "exit"), ("os", "_exit"), ("os", "abort"))
#: Names of hooks, and modules whose own implementations stay.
_HOOKS = (
    "pytest_pyfunc_call",
    "pytest_runtest_call",
    "pytest_runtest_makereport",
    "pytest_runtest_protocol",
    "pytest_runtestloop",
)
_IMPLEMENT = frozenset(("_pytest.main", "_pytest.python", "_pytest.runner", "_pytest.unittest"))

#: Folders of what is installed, as they were before the workspace was loaded; and what in them is no plugin.
_INSTALLED = tuple(place for place in sys.path if os.path.basename(place) in ("site-packages", "dist-packages"))  # noqa: PTH119
_RUNNERS = frozenset(("_pytest", "pluggy", "pytest", "mock"))
#: Modules of the runner that extend its classes at configuration.
_ADDED = (os.path.join("_pytest", "legacypath.py"),)  # noqa: PTH118 - a text
#: Functions of the runner that have another attribute name: pytest 7 and 8 misspell this one.
_SPELT = {"startdir": "Session_stardir"}

_open, _compile, _exists = open, compile, os.path.exists
_get_code = SourceFileLoader.get_code
_codes_of_files: dict[str, list[CodeType]] = {}


class _Noted(NamedTuple):
    """A place and its original value; for functions also their parts."""

    name: str
    space: Any
    key: str
    value: Any
    parts: tuple[tuple[Any, Any, Any, Any], ...]


class Originals:
    """Records the current originals. ``modules`` are names; ``own`` are modules of ours among them."""

    def __init__(self, order: channel.ReceivedOrder, modules: Iterable[str], own: Iterable[ModuleType] = ()) -> None:
        self._order = order
        self._wanted = tuple(modules)
        self._modules: dict[str, ModuleType] = {}
        self._noted: list[_Noted] = []
        self._often: list[_Noted] = []
        self._names: list[tuple[str, Any, frozenset[str]]] = []
        self._hooks: list[tuple[Any, Any, Any]] = []
        self._before: dict[str, str] = {}
        for each in own:
            self._note(_members(each.__name__, each))
        self._note([(f"builtins.{name}", vars(builtins), name) for name in _BUILTINS])
        self._note([(f"{module}.{name}", vars(sys.modules[module]), name) for module, name in _PROCESS])
        self._load_modules(_HELD)

    def note_loaded(self) -> None:
        """Record modules loaded since; differences from their files are changes."""
        self._load_modules(self._wanted)

    def _load_modules(self, held: tuple[str, ...]) -> None:
        for name in self._wanted:
            module = sys.modules.get(name)
            if isinstance(module, ModuleType) and name not in self._modules:
                self._modules[name] = module
                begin = len(self._noted)
                self._note(_members(name, module))
                if name in held:
                    self._hold(module, self._noted[begin:])

    def note_hooks(self, hooks: Any) -> None:
        """Record the runner's own functions behind its hooks, in ``hooks`` of a configuration."""
        for name in _HOOKS:
            caller = getattr(hooks, name)
            for each in caller.get_hookimpls():
                if getattr(each.function, "__module__", None) in _IMPLEMENT:
                    self._hooks.append((caller, each, each.function))

    def changed_now(self, test: str) -> dict[str, str]:
        """Return the replaced values at the few frequently checked places, with the file of each replacement.

        Temporary replacements by the file ``test`` and mocks are not included.
        """
        found = {}
        for name, place in self._replaced(self._often):
            now = next(each.space.get(each.key) for each in self._often if each.name == name)
            files = {self._order.here(code.co_filename) for code in _codes(now)}
            if files and files != {test}:
                found[name] = place
        return found

    def changed(self) -> dict[str, str]:
        """Return all replaced names -> the workspace file of the replacement; empty if unknown."""
        found = {**self._before, **dict(self._replaced(self._noted)), **dict(self._new_names())}
        for name, module in self._modules.items():
            now = sys.modules.get(name, module)
            if now is not module and getattr(now, "__file__", None) != getattr(module, "__file__", ""):
                found[name] = self._order.here(str(getattr(now, "__file__", ""))) or ""
        for caller, implementation, function in self._hooks:
            if implementation.function is not function or implementation not in caller.get_hookimpls():
                found[f"{function.__module__}.{function.__name__} behind its hook"] = (
                    self.place_of(implementation.function) or ""
                )
        return found

    def place_of(self, value: Any) -> str | None:
        """The file of the workspace that ``value`` is written in; empty when that is not shown, None for an installed one."""
        for code in _codes(value):
            path = self._order.here(code.co_filename)
            if path is None:
                return None if _is_installed(code) else ""
            return path if _is_written(code) else ""
        return ""

    def _note(self, members: Iterable[tuple[str, Any, str]]) -> None:
        for name, space, key in members:
            value = space.get(key)
            if _decides(value):
                noted = _Noted(name, space, key, value, tuple(map(_made_of, _functions(value))))
                self._noted.append(noted)
                if name in _OFTEN:
                    self._often.append(noted)
            if name in _CLOSED:
                self._names.append((name, value, frozenset(vars(value))))

    def _replaced(self, noted: Iterable[_Noted]) -> Iterator[tuple[str, str]]:
        for name, space, key, value, parts in noted:
            now = space.get(key)
            if now is not value:
                place = self._foreign(now, key)
                if place is not None:
                    yield name, place
                continue
            for function, code, defaults, named in parts:
                if (
                    function.__code__ is not code
                    or function.__defaults__ is not defaults
                    or function.__kwdefaults__ is not named
                ):
                    yield name, self.place_of(function) or ""
                    break

    def _foreign(self, value: Any, key: str) -> str | None:
        """Return ``place_of``, but accept an installed function whose name matches the place."""
        place = self.place_of(value)
        if place is None:
            names = "".join(getattr(each, "__qualname__", "") for each in _functions(value))
            return None if key.strip("_").lower() in names.lower() or _SPELT.get(key) == names else ""
        return place

    def _new_names(self) -> Iterator[tuple[str, str]]:
        for name, owner, names in self._names:
            for key in vars(owner).keys() - names:
                value = vars(owner)[key]
                # Plugins add helpers to the classes that people write tests with; hiding something is no help.
                hides = hasattr(object, key) or any(key in vars(base) for base in owner.__mro__[1:]) or key.startswith("__")
                if _decides(value) and (hides or not name.startswith("unittest.")):
                    place = self._foreign(value, key)
                    if place is not None:
                        yield f"{name}.{key}", place

    def _hold(self, module: ModuleType, noted: Iterable[_Noted]) -> None:
        """Note what of ``module`` is not as its file has it, and is no installed plugin's."""
        spec = getattr(module, "__spec__", None)
        loader = getattr(spec, "loader", None)
        place = getattr(spec, "origin", None)
        if type(loader).__name__ not in ("SourceFileLoader", "AssertionRewritingHook") or not isinstance(place, str):
            return  # an interpreter that brings them in another way
        code = _get_code(SourceFileLoader(module.__name__, place), module.__name__)
        own = {_code_key(each): each for each in _nested_codes(code)}
        for each in noted:
            for function, made, _, _ in each.parts:
                if made.co_filename == place:
                    good = own.get(_code_key(made)) == made
                elif _exists(made.co_filename):
                    good = self._order.here(made.co_filename) is None and _is_written(made, kept=True)
                else:
                    good = _is_generated(each.key)
                if not good:
                    self._before[each.name] = self.place_of(function) or ""


def _members(name: str, module: ModuleType) -> list[tuple[str, Any, str]]:
    """The places of a module and of its classes: name, space, key."""
    found: list[tuple[str, Any, str]] = []
    for key, value in list(vars(module).items()):
        found.append((f"{name}.{key}", vars(module), key))
        if isinstance(value, type) and value.__module__ == name:
            found += ((f"{name}.{key}.{inner}", vars(value), inner) for inner in list(vars(value)))
    return found


def _decides(value: Any) -> bool:
    return callable(value) or isinstance(value, (staticmethod, classmethod, property))


def _functions(value: Any, depth: int = 3) -> list[Any]:
    """Return the functions that calling ``value`` runs, as far as visible."""
    if isinstance(value, (staticmethod, classmethod, MethodType)):
        return _functions(value.__func__, depth)
    if isinstance(value, property):
        return [each for part in (value.fget, value.fset, value.fdel) for each in _functions(part, depth)]
    if not isinstance(value, FunctionType):
        return []
    found: list[Any] = [value]
    for cell in value.__closure__ or () if depth else ():
        try:
            held = cell.cell_contents
        except ValueError:
            continue
        found += _functions(held, depth - 1)
    return found


def _codes(value: Any) -> Iterator[CodeType]:
    if isinstance(value, type):
        for inner in vars(value).values():
            yield from _codes(inner) if not isinstance(inner, type) else ()
        return
    for function in _functions(value):
        yield function.__code__


def _made_of(function: Any) -> tuple[Any, Any, Any, Any]:
    return function, function.__code__, function.__defaults__, function.__kwdefaults__


def _code_key(made: CodeType) -> tuple[str, int]:
    return made.co_name, made.co_firstlineno


def _nested_codes(code: Any) -> Iterator[CodeType]:
    if isinstance(code, CodeType):
        yield code
        for constant in code.co_consts:
            yield from _nested_codes(constant)


def _is_generated(key: str) -> bool:
    """Return whether a data class or named tuple generates the attribute from text, not from a file."""
    return key.startswith("__") or key in ("_make", "_replace", "_asdict")


def _is_written(code: CodeType, *, kept: bool = False) -> bool:
    """Return whether the file named by ``code`` contains it; ``kept``: use the file's bytecode if present."""
    place = code.co_filename
    if place not in _codes_of_files:
        try:
            if kept:
                made = _get_code(SourceFileLoader(place, place), place)
            else:
                with _open(place, "rb") as file:
                    made = _compile(file.read(), place, "exec", dont_inherit=True)
        except (OSError, SyntaxError, ValueError, ImportError):
            return False
        _codes_of_files[place] = list(_nested_codes(made))
    return any(_code_key(each) == _code_key(code) and each == code for each in _codes_of_files[place])


def _is_installed(code: CodeType) -> bool:
    """Return whether an installed plugin defines it, rather than the interpreter, whose functions can do anything."""
    for folder in _INSTALLED:
        if code.co_filename.startswith(folder + os.sep):
            inner = code.co_filename[len(folder) + 1 :]
            return (inner.partition(os.sep)[0] not in _RUNNERS or inner in _ADDED) and _is_written(code)
    return False
