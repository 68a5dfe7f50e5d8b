"""A service in Python with a front end in Node: one run, an environment for each, and the candidate's own packages tested."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.stack import Stack
from tests.ecosystems.test_node import needs_node
from tests.git.repositories import MakeRepository

TOP = {"name": "shop", "version": "1.0.0", "workspaces": ["front/*"], "scripts": {"test": "node --test check/"}}
PRICES = {"name": "@shop/prices", "version": "1.0.0", "main": "index.js"}
LOCK = {
    "name": "shop",
    "version": "1.0.0",
    "lockfileVersion": 3,
    "requires": True,
    "packages": {
        "": {"name": "shop", "version": "1.0.0", "workspaces": ["front/*"]},
        "front/prices": {"name": "@shop/prices", "version": "1.0.0"},
        "node_modules/@shop/prices": {"resolved": "front/prices", "link": True},
    },
}
CHECK = b"""const assert = require('node:assert');
const { test } = require('node:test');
const { price } = require('@shop/prices');
test('doubles', () => { assert.strictEqual(price(2), 4); });
"""
TESTS = b"""import unittest
from service import price

class Prices(unittest.TestCase):
    def test_doubles(self):
        self.assertEqual(price(2), 4)
"""
CHANGE = b"""import pathlib, sys
place = pathlib.Path('front/prices/index.js')
place.write_text(place.read_text().replace('number * 2', sys.argv[1]))
"""
FILES = {
    "package.json": json.dumps(TOP).encode(),
    "package-lock.json": json.dumps(LOCK).encode(),
    "front/prices/package.json": json.dumps(PRICES).encode(),
    "front/prices/index.js": b"exports.price = (number) => number * 2;\n",
    "check/prices.test.js": CHECK,
    "service.py": b"def price(number):\n    return number * 2\n",
    "test_service.py": TESTS,
    "tools/change.py": CHANGE,
}
WORDS = ("--env", "auto", "--allow", "front/prices/index.js", "--test", "python -m unittest", "--test", "npm test")


@needs_node
@pytest.mark.long
def test_each_command_finds_its_environment_and_a_workspace_is_the_candidates(
    stack: Stack, make_repository: MakeRepository
) -> None:
    repository = make_repository("shop", files=FILES)
    code, result = stack.run(repository.path, *WORDS, "--exec", "python tools/change.py number+number")
    assert (code, result["status"]) == (0, "SUCCESS"), result
    bundle = Path(result["bundle"])
    tests = json.loads((bundle / "reports" / "test_report.json").read_bytes())
    assert [each["proof"]["framework"] for each in tests["commands"]] == ["unittest", "node:test"]
    assert "package-lock.json sha256:" in tests["surroundings"]["versions"]["environment"]
    assert stack.command("verify", result["bundle"]).returncode == 0
    code, result = stack.run(repository.path, *WORDS, "--exec", "python tools/change.py number*3")
    assert (code, result["failure"]["code"]) == (1, "tests_failed"), result
