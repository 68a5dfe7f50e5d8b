"""The test frameworks of Node, on the port: one for each runner, started directly or through a package manager."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from random import Random

from gatewright.ecosystems.node.commands import NODE_TEST, NodeCommand, manifest_of, may_start_node, runner_of
from gatewright.ecosystems.node.places import SuiteFile, new_place, runs_only_some
from gatewright.ecosystems.planting import sentence, sum_of
from gatewright.ecosystems.port import Instruments, PlainOrder, PlainRun, Purpose, ReporterOrder, Sentinel, TreeFiles
from gatewright.ecosystems.subtree import below

_REPORTERS = resources.files("gatewright.ecosystems.node") / "reporters"
#: The reporters that are brought in by a preloaded module; all of them, for a script that starts several runners.
_PRELOADED = (
    *("emit.cjs", "origins.cjs", "preload.cjs", "part_of_suite.cjs"),
    *("mocha.cjs", "jest.cjs", "jest_part.cjs", "vitest.mjs"),
)
#: What records calls, and what makes them again.
_RECORDING = ("recording.cjs", "replaying.cjs", "values.cjs")
_OUTSIDE = ("app.cjs", "replaying.cjs", "values.cjs")
#: Why planted tests are run alone.
_PLANTED = frozenset({Purpose.CONTROL, Purpose.REPLAY})
#: The files that each runner loads.
_FILES = {
    NODE_TEST: ("emit.cjs", "origins.cjs", "node_test.mjs"),
    "mocha": _PRELOADED,
    "jest": _PRELOADED,
    "vitest": _PRELOADED,
}


class NodeReplays:
    """See ``Replays``."""

    def record_calls(self, path: str, content: bytes, additions: str) -> bytes | None:
        """See ``Replays.record_calls``."""
        # Only the test runner has the grammars.
        from gatewright.ecosystems.node.recorded_sources import record_calls

        return record_calls(path, content, f"{additions}/recording.cjs")

    def plant_calls(self, sentinel: Sentinel, additions: str) -> dict[str, bytes]:
        """See ``Replays.plant_calls``: the body of the planted test that must pass makes them."""
        title = sentinel.passing.partition("::")[2]
        load = "(file) => (typeof require === 'function' ? require(file) : import(file))"
        module = f"process.getBuiltinModule('node:module').createRequire('/')('{additions}/replaying.cjs')"
        planted = {}
        for path, content in sentinel.files.items():
            lines = content.decode().split("\n")
            at = next(number for number, line in enumerate(lines) if title in line)
            lines[at] = lines[at].partition("() =>")[0] + f"async () => {{ await {module}.inRunner({load}); }});"
            planted[path] = "\n".join(["// @ts-nocheck", *lines[: at + 1], ""]).encode()
        return planted

    def plain_run(self, order: PlainOrder) -> PlainRun:
        """See ``Replays.plain_run``."""
        program, ordered, inside = f"{order.name}/app.cjs", f"{order.name}/app.json", order.workspace
        fields = {
            "token": order.token,
            "folder": order.folder,
            "variables": dict(order.variables),
            "workspace": inside,
            "calls": [[*call.where, call.data] for call in order.calls],
        }
        files = {f"{order.name}/{name}": (_REPORTERS / name).read_bytes() for name in _OUTSIDE}
        files[ordered] = json.dumps(fields).encode()
        return PlainRun(("env", "NODE_ENV=production", "node", f"{inside}/{program}", f"{inside}/{ordered}"), files)


_REPLAYS = NodeReplays()


@dataclass(frozen=True, slots=True)
class NodeTests:
    """One runner of Node."""

    name: str
    languages: frozenset[str] = frozenset({"javascript", "typescript", "tsx"})
    reports_files: bool = False
    package_files: tuple[str, ...] = ("package.json",)
    replays: NodeReplays = _REPLAYS

    def may_start(self, argv: Sequence[str]) -> bool:
        """See ``Framework.may_start``."""
        return may_start_node(argv)

    async def recognises(self, argv: Sequence[str], tree: TreeFiles) -> bool:
        """See ``Framework.recognises``."""
        started = await runner_of(argv, tree)
        return started is not None and started.runner == self.name and not started.hindrance

    async def unproven(self, argv: Sequence[str], tree: TreeFiles) -> str:
        """Return why this runner, which ``argv`` starts, cannot report its tests; empty if it can."""
        started = await runner_of(argv, tree)
        return started.hindrance if started is not None and started.runner == self.name else ""

    async def instruments(self, argv: Sequence[str], tree: TreeFiles, order: ReporterOrder) -> Instruments:
        """See ``Framework.instruments``."""
        fields: dict[str, object] = {
            # Recorded calls are made by a planted test.
            "purpose": "control" if order.purpose is Purpose.REPLAY else order.purpose,
            "calls": [[*call.where, call.data] for call in order.calls],
            "token": order.token,
            "pipe": order.pipe,
            "only": order.only,
            "workspace": order.workspace,
            "took": dict(order.took),
        }
        started = await runner_of(argv, tree)
        own = (await manifest_of(below(tree, started.folder if started is not None else ""))).get("name")
        fields["own"] = [own] if isinstance(own, str) and own else []
        recording = _RECORDING if order.recorded or order.calls else ()
        files = {name: (_REPORTERS / name).read_bytes() for name in (*_FILES[self.name], *recording)}
        options = _node_test_options(started, order) if self.name == NODE_TEST else "--require=@FOLDER@/preload.cjs"
        options = f"--require=@FOLDER@/origins.cjs {options}"
        return Instruments({**files, "order.json": json.dumps(fields).encode()}, {"NODE_OPTIONS": options})

    async def sentinel(self, argv: Sequence[str], tree: TreeFiles, draw: Random) -> Sentinel | None:
        """See ``Framework.sentinel``."""
        started = await runner_of(argv, tree)
        if started is None or runs_only_some(started):
            return None
        model = await new_place(started, below(tree, started.folder), draw)
        if model is None:
            return None
        path = posixpath.join(started.folder, model.new)
        failing, passing = sentence(draw), sentence(draw)
        text = _planted_source(self.name, model, failing, passing, draw)
        return Sentinel({path: text.encode()}, f"{path}::{failing}", f"{path}::{passing}")


NODE_FRAMEWORKS = tuple(NodeTests(name) for name in _FILES)


def _node_test_options(started: NodeCommand | None, order: ReporterOrder) -> str:
    """Return our reporter with one for people: the command's own if it names one, which then needs a destination."""
    own = started is not None and any(word.partition("=")[0] == "--test-reporter" for word in started.words)
    placed = started is not None and any(word.partition("=")[0] == "--test-reporter-destination" for word in started.words)
    ours = "--test-reporter=@FOLDER@/node_test.mjs --test-reporter-destination=/dev/null"
    people = "" if own and placed else " --test-reporter-destination=stdout"
    reporter = "" if own else " --test-reporter=spec"
    # Only the planted tests are marked to run alone.
    return f"{ours}{reporter}{people}{' --test-only' if order.purpose in _PLANTED else ''}"


def _planted_source(runner: str, model: SuiteFile, failing: str, passing: str, draw: Random) -> str:
    one, other, right, wrong = sum_of(draw)
    expects = runner in {"jest", "vitest"}
    equal = "expect(total([{0}, {1}])).toBe({2})" if expects else "assert.strictEqual(total([{0}, {1}]), {2})"
    only = ", { only: true }" if runner == NODE_TEST else ""
    lines = [
        *_head(runner, model),
        "const total = (numbers) => numbers.reduce((sum, each) => sum + each, 0);",
        f"test('{passing}'{only}, () => {{ {equal.format(one, other, right)}; }});",
        f"test('{failing}'{only}, () => {{ {equal.format(one, other, wrong)}; }});",
    ]
    if model.path.endswith(("ts", "tsx")):
        lines[-3] = lines[-3].replace("(numbers)", "(numbers: number[])")
    return "\n".join(lines).replace("test(", "it(" if runner == "mocha" else "test(") + "\n"


def _head(runner: str, model: SuiteFile) -> list[str]:
    if runner == "vitest":
        return ["import { expect, test } from 'vitest';"]
    if runner == "jest":
        return ["import { expect, test } from '@jest/globals';"] if "@jest/globals" in model.text and model.imports else []
    wanted = [("assert", "node:assert"), *([("test", "node:test")] if runner == NODE_TEST else [])]
    form = "import {0} from '{1}';" if model.imports else "const {0} = require('{1}');"
    return [form.format(name, module) for name, module in wanted]
