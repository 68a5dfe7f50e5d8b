"""Broken source beside files that take the place of a source, or bring a plugin: bytecode, metadata of packages."""

from __future__ import annotations

import importlib.util
import marshal
import sys
from pathlib import Path

import pytest

from tests.attacks.test_false_green import BROKEN, SOURCE
from tests.ecosystems.suites import PYTEST, Suite, codes, proof_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

TESTS = b"from pricing import price\n\n\ndef test_doubles():\n    assert price(2) == 4\n"
FILES = {"pricing.py": SOURCE, "test_a.py": TESTS, "README.md": b"about\n"}
TAG = sys.implementation.cache_tag
#: Swallows one test, and no other: a planted one fails as it should.
PLUGIN = b"def pytest_pyfunc_call(pyfuncitem):\n    return True if pyfuncitem.name == 'test_doubles' else None\n"


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    return Suite(tmp_path_factory.mktemp("suite"), FILES)


def unchecked(source: bytes, name: str) -> bytes:
    """Bytecode that Python takes without a look at the source beside it."""
    code = compile(source, f"/workspace/{name}", "exec")
    return importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8) + marshal.dumps(code)


PLUGINS: dict[str, dict[str, bytes | None]] = {
    "metadata of a package": {
        "more-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: more\nVersion: 1.0\n",
        "more-1.0.dist-info/entry_points.txt": b"[pytest11]\nmore = swallowing\n",
        "swallowing.py": PLUGIN,
    },
    "an egg": {
        "more.egg-info/PKG-INFO": b"Metadata-Version: 2.1\nName: more\nVersion: 1.0\n",
        "more.egg-info/entry_points.txt": b"[pytest11]\nmore = swallowing\n",
        "swallowing.py": PLUGIN,
    },
}


@pytest.mark.long
async def test_bytecode_of_the_right_source_beside_a_broken_one_is_refused(suite: Suite) -> None:
    name = f"__pycache__/pricing.{TAG}.pyc"
    report = await suite.tested({"pricing.py": BROKEN, name: unchecked(SOURCE, "pricing.py")}, PYTEST)
    assert report.status == "PASS", suite.printed(report)  # or nothing was hidden
    (broken,) = suite.judged(report, "recorded")
    assert broken.code == "environment_shadows_candidate"
    assert name in broken.detail


@pytest.mark.long
async def test_bytecode_that_goes_is_an_honest_change(tmp_path: Path) -> None:
    name = f"__pycache__/other.{TAG}.pyc"
    suite = Suite(tmp_path, {**FILES, name: unchecked(b"", "other.py")})
    assert codes(suite.judged(await suite.tested({name: None}, PYTEST))) == []


@pytest.mark.parametrize("trick", PLUGINS)
async def test_baseline_tests_expose_a_plugin_hidden_in_package_metadata(suite: Suite, trick: str) -> None:
    """The plugin drops a test by name, which a control cannot show. The policy protects the file."""
    report = await suite.tested({"pricing.py": BROKEN, **PLUGINS[trick]}, PYTEST)
    assert report.status == "PASS", suite.printed(report)
    without = proof_of(report).baseline_tests
    assert without is not None
    assert without.failed == ("test_a.py::test_doubles",)
