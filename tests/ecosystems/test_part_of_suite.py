"""Which files of a large suite of jest or vitest a control loads: the planted one, and a part of the others that is drawn."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

import pytest

from tests.ecosystems.suites import Suite, codes, proof_of
from tests.waiting import PATIENCE

NODE = shutil.which("node", path="/usr/bin:/usr/local/bin:/bin")
pytestmark = pytest.mark.skipif(NODE is None, reason="there is no node below /usr (Debian: apt install nodejs npm)")

REPORTERS = resources.files("gatewright.ecosystems.node") / "reporters"
PLANTED = "tests/some-words.test.js"
#: Draws that are looked at, in one process.
DRAWS = 4000
PROGRAM = """
const partOf = require('./part_of_suite.cjs');
const files = JSON.parse(process.argv[2]);
const drawn = Array.from({ length: Number(process.argv[3]) }, () => partOf(files, (file) => file));
console.log(JSON.stringify(drawn));
"""

#: In the place of jest, which need not be installed: its control is alive where it is told what the baseline's file took.
IN_PLACE_OF_JEST = """
const fs = require('fs');
const path = require('path');
const reporter = process.argv.slice(2).find((word) => word.endsWith('/jest.cjs')).split('=')[1];
const order = JSON.parse(fs.readFileSync(path.join(path.dirname(reporter), 'order.json')));
const Reporter = require(reporter);
const told = new Reporter();
const knows = order.took['tests/a.test.js'] === 400;
const planted = knows ? ['failed', 'passed'] : ['pending', 'pending'];
told.onRunStart();
for (const name of fs.readdirSync('tests')) {
  const ids = order.only.filter((id) => id.startsWith(`tests/${name}::`));
  const tests = ids.map((id, at) => ({ title: id.split('::')[1], ancestorTitles: [], status: planted[at] }));
  const own = { title: 'adds', ancestorTitles: [], duration: 100, status: order.purpose === 'control' ? 'pending' : 'passed' };
  const testResults = ids.length ? tests : [own];
  told.onTestResult({ path: path.resolve('tests', name) }, { testResults, perfStats: { start: 1000, end: 1500 } });
}
told.onRunComplete();
process.exitCode = order.purpose === 'control' && knows ? 1 : 0;
"""


def draws(folder: Path, files: list[str], took: Mapping[str, int]) -> list[list[str]]:
    """What is left of ``files``, DRAWS times; they took so long to load on the baseline."""
    for name in ("emit.cjs", "part_of_suite.cjs"):
        (folder / name).write_bytes((REPORTERS / name).read_bytes())
    order = {"only": [f"{PLANTED}::a", f"{PLANTED}::b"], "workspace": "/workspace", "took": dict(took)}
    (folder / "order.json").write_text(json.dumps(order))
    (folder / "program.cjs").write_text(PROGRAM)
    inside = json.dumps([f"/workspace/{each}" for each in files])
    argv = [str(NODE), str(folder / "program.cjs"), inside, str(DRAWS)]
    told = subprocess.run(argv, check=True, capture_output=True, timeout=PATIENCE)
    return [[each.removeprefix("/workspace/") for each in drawn] for drawn in json.loads(told.stdout)]


def test_what_took_long_to_load_is_drawn_seldom_and_everything_else_alike(tmp_path: Path) -> None:
    quick = [f"tests/part{number}.test.js" for number in range(39)]
    slow = "tests/types.test.ts"
    files = [*quick, slow, PLANTED]
    # One of them is new, and one has the name of what every object has.
    took = {**dict.fromkeys(quick[1:], 150), quick[1]: 1, "constructor": 1, slow: 40_000}
    drawn = draws(tmp_path, files, took)
    count = Counter(each for one in drawn for each in one)
    assert {(len(one), one.count(PLANTED)) for one in drawn} == {(11, 1)}
    # About a quarter each, which for the slow one would be 1000 too, and is a twentieth of that.
    assert 0 < count[slow] < 150
    assert all(800 < count[each] < 1250 for each in quick)
    assert len({tuple(sorted(one)) for one in drawn}) > DRAWS / 2


@pytest.mark.parametrize("took", [{}, {"tests/part0.test.js": 1}])
def test_where_times_are_not_known_all_are_drawn_alike(took: dict[str, int], tmp_path: Path) -> None:
    files = [f"tests/part{number}.test.js" for number in range(40)]
    count = Counter(each for one in draws(tmp_path, [*files, PLANTED], took) for each in one)
    assert all(800 < count[each] < 1200 for each in files)


def test_of_a_small_suite_every_file_is_left(tmp_path: Path) -> None:
    files = [*(f"tests/part{number}.test.js" for number in range(19)), PLANTED]
    assert all(one == files for one in draws(tmp_path, files, {"tests/part1.test.js": 40_000}))


async def test_the_control_uses_the_baselines_load_times(tmp_path: Path) -> None:
    files = {"node_modules/jest/bin/jest.js": IN_PLACE_OF_JEST, "tests/a.test.js": "\n", "add.js": "1;\n"}
    suite = Suite(tmp_path, {path: text.encode() for path, text in files.items()})
    command = "node node_modules/jest/bin/jest.js"
    first = await suite.tested({"add.js": b"2;\n"}, command)
    assert codes(suite.judged(first)) == ["tests_not_alive"]
    second = await suite.tested({"add.js": b"3;\n"}, command)
    assert codes(suite.judged(second)) == []
    assert proof_of(second).framework == "jest"
