"""Bytecode in the place of tests and sources: written while tests run, or left from what the baseline was compiled to."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.services.testrunner.bytecode_cache import WORTH
from tests.ecosystems.suites import Suite, codes, proof_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

PYTEST = "python -m pytest -q -s"
#: More than is compiled by each run anew.
LARGE = b"".join(b"def f%d(a, b):\n    return a + b * %d\n\n\n" % (number, number) for number in range(WORTH // 30))
SOURCE = LARGE + b"def price(number):\n    return number * 2\n"
BROKEN = LARGE + b"def price(number):\n    return number * 3\n"
TESTS = b"from pricing import price\n\n\ndef test_doubles():\n    assert price(2) == 4\n"
SEEN = (
    b"import os\n\n\ndef test_what_is_there():\n"
    b"    for folder in ('.', 'tests'):\n        print('caches', folder, sorted(os.listdir(folder + '/__pycache__')))\n"
)
FILES = {"pricing.py": SOURCE, "other.py": b"number = 1\n", "conftest.py": b"import other\n", "tests/test_a.py": TESTS}
#: Compiles a test that checks nothing as pytest would, and puts it in the place of one that does.
IN_ITS_PLACE = (
    b"from pathlib import Path\nfrom _pytest.assertion import rewrite\n\n"
    b"test = Path('tests/test_a.py').absolute()\ntext = test.read_bytes()\ntimes = test.stat()\n"
    b"import os\ncopy = Path('/tmp/test_a.py')\n"
    b"copy.write_bytes(text.replace(b'== 4', b'== 6'))\n"
    b"os.utime(copy, ns=(times.st_mtime_ns, times.st_mtime_ns))\n"
    b"_, code = rewrite._rewrite_test(copy, None)\nnoted, _ = rewrite._rewrite_test(test, None)\n"
    b"cache = test.parent / '__pycache__'\ncache.mkdir(exist_ok=True)\n"
    b"made = cache / ('test_a' + rewrite.PYC_TAIL)\nmade.unlink(missing_ok=True)\n"
    b"with made.open('wb') as file:\n    rewrite._write_pyc_fp(file, noted, code)\n"
)


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    """A runner that has tested a change of this repository before: it knows what is loaded, and has compiled it."""
    return Suite(tmp_path_factory.mktemp("suite"), FILES)


async def test_bytecode_that_source_puts_in_the_place_of_a_test_is_refused(suite: Suite) -> None:
    report = await suite.tested({"pricing.py": BROKEN, "other.py": IN_ITS_PLACE}, PYTEST)
    assert report.status == "PASS", suite.printed(report)  # or nothing was hidden
    assert proof_of(report).rewritten == ("tests/test_a.py",)
    assert codes(suite.judged(report, "recorded")) == ["report_missing"]


@pytest.mark.long
async def test_bytecode_of_one_change_is_absent_for_the_next(suite: Suite) -> None:
    await suite.tested({"other.py": IN_ITS_PLACE}, PYTEST)
    report = await suite.tested({"pricing.py": BROKEN}, PYTEST)
    assert report.status == "FAIL", suite.printed(report)


@pytest.mark.long
async def test_stale_bytecode_never_replaces_a_changed_source_of_equal_length(suite: Suite) -> None:
    await suite.tested({"other.py": b"number = 2\n"}, PYTEST)
    report = await suite.tested({"tests/test_seen.py": SEEN}, PYTEST)
    told = suite.printed(report)
    assert "pricing.cpython-" in told, told
    assert "test_a.cpython-" in told, told
    report = await suite.tested({"pricing.py": BROKEN, "tests/test_seen.py": SEEN}, PYTEST)
    told = suite.printed(report)
    assert report.status == "FAIL", told
    assert "pricing.cpython-" not in told, told


@pytest.mark.long
async def test_the_control_and_the_run_find_the_same_bytecode(tmp_path: Path) -> None:
    """Source that looks for it cannot tell them apart."""
    suite = Suite(tmp_path, {**FILES, "conftest.py": b"import other, pricing\n"})
    await suite.tested({"other.py": b"number = 2\n"}, PYTEST)
    told_apart = (
        b"import os\nassert os.path.exists('__pycache__/pricing.cpython-%d%d.pyc' % __import__('sys').version_info[:2])\n"
    )
    report = await suite.tested({"other.py": told_apart}, PYTEST)
    proof = proof_of(report)
    assert report.status == "PASS", suite.printed(report)
    assert proof.control is not None
    assert (proof.control.failing_outcome, proof.control.passing_outcome) == ("failed", "passed")


@pytest.mark.long
async def test_compiling_runs_nothing_of_the_repository(tmp_path: Path) -> None:
    """A source that would write into the place of the results when it is imported, where it may do so."""
    eager = b"import pathlib\nfor place in pathlib.Path('/workspace').glob('gatewright-bytecode'):\n"
    eager += b"    (place / '0-planted.pyc').write_bytes(b'')\n"
    named = {"sitecustomize.py": eager, "usercustomize.py": eager, "py_compile.py": eager}
    suite = Suite(tmp_path, {**FILES, **named, "pricing.py": eager + SOURCE, "pytest.ini": b"[pytest]\npythonpath = .\n"})
    change = {"other.py": b"import brought\n", "brought.py": LARGE, "conftest.py": b"import other, brought\n"}
    for _ in range(2):  # what tests import, read from their text; and what they loaded
        await suite.tested(change, "python -m pytest -q -s")
        kept = [
            place.read_bytes().partition(b"\n")[0] for place in suite.fixture.state.rglob("bytecode/*/*") if place.is_file()
        ]
        assert any(name.startswith(b"pricing.cpython-") for name in kept), kept
        assert b"planted.pyc" not in kept
        assert not [name for name in kept if name.startswith(b"brought.")], kept
