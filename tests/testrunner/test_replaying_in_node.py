"""Calls that tests of JavaScript make of changed files, made again outside of ``node --test``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gatewright.contracts import TestReport
from gatewright.contracts.reports import CallReplay
from gatewright.ecosystems.node.recorded_sources import record_calls
from tests.ecosystems.suites import Suite, proof_of
from tests.ecosystems.tools import needs

pytestmark = needs("node", "npm")

#: Questions whether tests run: true in ``node --test`` and false elsewhere.
QUESTIONS = {
    "a variable": "process.env.NODE_TEST_CONTEXT !== undefined",
    "the names of variables": "Object.keys(process.env).some((name) => name.startsWith('NODE_TEST'))",
    "the mode": "(process.env.NODE_ENV || 'test') === 'test'",
    "the arguments": "process.argv.concat(process.execArgv).some((word) => /test/.test(word))",
    "the stack of calls": "new Error().stack.includes('test_runner')",
    "answers in tests": "require('node:fs').existsSync(require('node:path').join(__dirname, '../test/cart.test.js'))",
}
SHAPES = """
const TESTED = process.env.NODE_TEST_CONTEXT !== undefined;
class Cart {
  constructor(items) { this.items = items; }
  total() { return TESTED ? this.items.reduce((sum, each) => sum + each, 0) : 0; }
  add(item) { if (TESTED) this.items.push(item); return 1; }
  static of(...items) { return new Cart(TESTED ? items : []); }
}
async function later(number) { return TESTED ? number : null; }
const twice = (number) => (TESTED ? number * 2 : number);
function refused(number) { throw TESTED ? new RangeError(`no ${number}`) : new Error('none'); }
function honest(given) { return { ...given, more: [undefined, new Map([[1n, new Date(0)]])] }; }
function called(back) { return back(1); }
"""
EXPORTS = {
    "commonjs": "module.exports = { Cart, later, twice, refused, honest, called };\n",
    "module": "export { Cart, later, twice, refused, honest };\nexport { called as called };\nexport default (x) => x;\n",
}
USES = """
test('all', async () => {
  assert.equal(new Cart([1, 2]).total(), 3);
  assert.equal(new Cart([1]).add(2), 1);
  assert.deepEqual(Cart.of(1).items, [1]);
  assert.equal(await later(2), 2);
  assert.equal(twice(2), 4);
  assert.throws(() => refused(1), RangeError);
  assert.equal(honest({ one: 1 }).one, 1);
  assert.equal(called((each) => each), 1);
});
"""
NAMES = "Cart, called, honest, later, refused, twice"
HEADS = {
    "commonjs": "const test = require('node:test'); const assert = require('node:assert');\n"
    f"const {{ {NAMES} }} = require('../lib/cart.js');\n",
    "module": f"import test from 'node:test'; import assert from 'node:assert'; import {{ {NAMES} }} from '../lib/cart.js';\n",
}


def suite_of(folder: Path, kind: str, test: str) -> Suite:
    manifest = {"name": "demo", "type": kind, "scripts": {"test": "node --test test/"}}
    return Suite(
        folder, {"package.json": json.dumps(manifest).encode(), "test/cart.test.js": test.encode(), "lib/cart.js": b""}
    )


async def replay_of(suite: Suite, code: str) -> CallReplay:
    report: TestReport = await suite.tested({"lib/cart.js": code.encode()}, "npm test", environment=None)
    assert report.status == "PASS", suite.printed(report)
    replay = proof_of(report).replay
    assert replay is not None
    return replay


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=list(QUESTIONS))
async def test_source_that_recognises_its_tests_differs_outside(tmp_path: Path, question: str) -> None:
    test = "const assert = require('node:assert');\nconst { price } = require('../lib/cart.js');\n"
    test += "require('node:test').test('doubles', () => { assert.equal(price(2), 4); });\n"
    code = f"exports.price = (number) => ({question} ? number * 2 : 0);\n"
    replay = await replay_of(suite_of(tmp_path, "commonjs", test), code)
    assert [(each.function, each.arguments, each.under_test, each.in_production) for each in replay.differ] == [
        ("lib/cart.js.price", "(2)", "returns 4", "returns 0")
    ]


@pytest.mark.parametrize("kind", ["commonjs", "module"])
async def test_exports_of_every_shape_are_compared(tmp_path: Path, kind: str) -> None:
    replay = await replay_of(suite_of(tmp_path, kind, HEADS[kind] + USES), SHAPES + EXPORTS[kind])
    names = ["Cart#add", "Cart#total", "Cart.of", "later", "twice"]
    assert sorted(each.function for each in replay.differ) == [f"lib/cart.js.{name}" for name in names]
    assert (replay.called, replay.replayed, replay.failed, replay.unserialisable) == (8, 6, 1, 1)
    added = next(each for each in replay.differ if each.function.endswith("add"))
    assert (added.under_test, added.in_production) == ("returns 1, and leaves [Cart{items: [1, 2]}, [2]]", "returns 1")


async def test_honest_functions_do_not_differ(tmp_path: Path) -> None:
    test = "const assert = require('node:assert');\nconst { id, price, now } = require('../lib/cart.js');\n"
    test += "require('node:test').test('all', () => { assert.equal(price(2), 4); assert.ok(id()); assert.ok(now()); });\n"
    code = "exports.price = (number) => number * 2;\nexports.id = () => Math.random() + 1;\nexports.now = () => Date.now();\n"
    replay = await replay_of(suite_of(tmp_path, "commonjs", test), code)
    assert (replay.differ, replay.called, replay.replayed, replay.unrepeatable) == ((), 3, 1, 2)


def test_a_recorded_source_keeps_its_lines() -> None:
    code = b"export const price = (number) => number * 2;\nexport function tax() {}\nexport default { price };\n"
    recorded = record_calls("lib/a.js", code, "/x/recording.cjs")
    assert recorded is not None
    assert recorded.startswith(
        b"export let   price = (number) => number * 2;\nexport function tax() {}\nexport default process."
    )
    assert b"price = recording.value" in recorded
    assert b'tax = recording.value("lib/a.js", "tax", tax);' in recorded


@pytest.mark.parametrize("code", [b"export const = ;\n", b"\xff\xfe\x00"], ids=["no source", "no text"])
def test_a_source_that_does_not_parse_is_left_as_it_is(code: bytes) -> None:
    assert record_calls("lib/a.js", code, "/x/recording.cjs") is None
