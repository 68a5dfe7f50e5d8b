"""Coverage of changed lines: reports of real tools, forged ones, and what the rules conclude from them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from gatewright.contracts import TestReport
from gatewright.contracts.reports import ChangedCoverage
from gatewright.contracts.vocabulary import CoverageFormat, CoverageRequirement
from gatewright.rules.reports.proof import in_words
from gatewright.rules.reports.proof_facts import broken_by_facts
from gatewright.rules.reports.tests import match_commands
from gatewright.rules.reports.untested import broken_by_coverage, coverage_in_words, untested_changes
from gatewright.services.testrunner.coverage import MeasureRequest, measure
from tests.ecosystems.suites import Suite, proof_of
from tests.ecosystems.tools import needs

SOURCE = b"def old():\n    return 1\n"
NEW = b"""def old():
    return 1


# a comment
def new(number):
    if number:
        return 2
    return 3
"""
#: Written lines with code: 6 to 9.
PATCH = b"""diff --git a/src/a.py b/src/a.py
index 1111111..2222222 100644
--- a/src/a.py
+++ b/src/a.py
@@ -1,2 +1,9 @@
 def old():
     return 1
+
+
+# a comment
+def new(number):
+    if number:
+        return 2
+    return 3
"""


def request(kind: CoverageFormat, report: bytes | str, **more: object) -> MeasureRequest:
    content = report.encode() if isinstance(report, str) else report
    contents, folders = {"src/a.py": NEW}, ("/workspace", "/workspace/cov")
    asked = MeasureRequest("cov/report", content, kind, PATCH, contents, frozenset({"src/a.py"}), folders, {})
    return msgspec.structs.replace(asked, **more)


def measured(asked: MeasureRequest) -> ChangedCoverage:
    return msgspec.msgpack.decode(measure(msgspec.msgpack.encode(asked)), type=ChangedCoverage)


def cobertura(lines: Mapping[int, int], name: str = "a.py", *sources: str, head: str = "") -> str:
    found = "".join(f'<line number="{number}" hits="{hits}"/>' for number, hits in lines.items())
    named = "".join(f"<source>{each}</source>" for each in sources or ("/workspace/src",))
    classes = f'<classes><class filename="{name}"><methods/><lines>{found}</lines></class></classes>'
    inside = f"<sources>{named}</sources><packages><package>{classes}</package></packages>"
    return f"<?xml version='1.0'?>{head}<coverage>{inside}</coverage>"


def lcov(lines: Mapping[int, int], name: str = "/workspace/src/a.py") -> str:
    return "".join(("TN:\n", f"SF:{name}\n", *(f"DA:{line},{hits}\n" for line, hits in lines.items()), "end_of_record\n"))


def as_json(executed: list[int], missing: list[int], name: str = "src/a.py") -> str:
    return json.dumps({"meta": {"version": "7"}, "files": {name: {"executed_lines": executed, "missing_lines": missing}}})


HITS = {1: 1, 2: 1, 6: 1, 7: 3, 8: 0, 9: 1}
EXPECTED = (4, 3, ("src/a.py",), ("src/a.py:8",))
USABLE = {
    "cobertura": request("cobertura", cobertura(HITS)),
    "cobertura with a document type": request(
        "cobertura", cobertura(HITS, head='<!DOCTYPE coverage SYSTEM "coverage-04.dtd">')
    ),
    "cobertura from the root": request("cobertura", cobertura(HITS, "src/a.py", ".")),
    "lcov": request("lcov", lcov(HITS)),
    "lcov in parts": request("lcov", lcov({6: 1, 7: 0, 8: 0, 9: 0}) + lcov({7: 3, 8: 0, 9: 1}, "src/a.py")),
    "lcov from its own folder": request("lcov", lcov(HITS, "a.py"), folders=("/workspace", "/workspace/src")),
    "json": request("coverage_json", as_json([1, 2, 6, 7, 9], [8])),
}


@pytest.mark.parametrize("case", USABLE)
def test_a_report_covers_written_lines_alone(case: str) -> None:
    found = measured(USABLE[case])
    assert (found.lines, found.covered, found.covered_files, found.uncovered, found.fault) == (*EXPECTED, "")


def test_blocks_of_go_are_found_through_the_modules_of_a_workspace() -> None:
    content = b"package api\n\nfunc A(x int) int {\n\tif x > 0 {\n\t\treturn 1\n\t}\n\treturn 2\n}\n"
    patch = b"--- /dev/null\n+++ b/services/api/a.go\n@@ -0,0 +1,8 @@\n" + b"".join(
        b"+" + line + b"\n" for line in content.splitlines()
    )
    patch = b"diff --git a/services/api/a.go b/services/api/a.go\nnew file mode 100644\nindex 0000000..2222222\n" + patch
    asked = request(
        "go",
        "mode: set\nexample.org/api/a.go:3.19,4.11 1 1\nexample.org/api/a.go:4.11,6.3 1 0\nexample.org/api/a.go:7.2,7.10 1 1\n",
        patch=patch,
        contents={"services/api/a.go": content},
        like_named=frozenset({"services/api/a.go", "a.go", "api/a.go"}),
        modules={"example.org": "", "example.org/api": "services/api"},
    )
    found = measured(asked)
    assert (found.lines, found.covered, found.uncovered, found.fault) == (4, 3, ("services/api/a.go:5",), "")


def test_a_changed_source_that_the_report_leaves_out_counts_as_not_executed() -> None:
    more = PATCH + PATCH.replace(b"src/a.py", b"src/b.py")
    asked = request("lcov", lcov(HITS), patch=more, contents={"src/a.py": NEW, "src/b.py": NEW})
    found = measured(asked)
    assert (found.lines, found.covered, found.uncovered) == (8, 3, ("src/a.py:8", "src/b.py:6-9"))


def test_types_and_comments_have_nothing_to_cover() -> None:
    patch = b"diff --git a/t.ts b/t.ts\nindex 1111111..2222222 100644\n--- a/t.ts\n+++ b/t.ts\n"
    patch += b"@@ -1 +1,2 @@\n export type A = 1\n+export type B = 2\n"
    contents = {"t.ts": b"export type A = 1\nexport type B = 2\n"}
    found = measured(request("lcov", lcov({1: 1}, "other.ts"), patch=patch, contents=contents))
    assert (found.fault, coverage_in_words(found)) == ("", "coverage of changed lines: nothing to cover")


LAUGHS = '<!DOCTYPE c [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>'
UNUSABLE = {
    "an entity": (request("cobertura", cobertura(HITS, head=LAUGHS)), "entity"),
    "an entity in UTF-16": (request("cobertura", cobertura(HITS, head=LAUGHS).encode("utf-16")), "NULs"),
    "an entity of a file": (
        request("cobertura", cobertura(HITS, head='<!DOCTYPE c [<!ENTITY a SYSTEM "/etc/passwd">]>')),
        "entity",
    ),
    "an unknown encoding": (request("cobertura", cobertura(HITS).replace("'1.0'", "'1.0' encoding='none'")), "cobertura"),
    "a cut end": (request("cobertura", cobertura(HITS)[:-20]), "cobertura"),
    "no numbers": (request("lcov", "SF:src/a.py\nDA:six,1\n"), "lcov"),
    "lines beyond the end": (request("lcov", lcov({6: 1, 9999: 1})), "names line 9999 of src/a.py"),
    "a block of a thousand million lines": (
        request("go", "mode: set\nsrc/a.py:1.1,1000000000.1 1 1\n"),
        "names line 1000000000",
    ),
    "no mode": (request("go", "src/a.py:1.1,2.1 1 1\n"), "mode"),
    "json of another kind": (request("coverage_json", '{"files": {"src/a.py": {"executed_lines": ["1"]}}}'), "coverage_json"),
    "other files": (request("lcov", lcov(HITS, "src/other.py")), "none of the changed sources: src/a.py"),
    "files elsewhere": (request("lcov", lcov(HITS, "/elsewhere/src/a.py")), "none of the changed sources: src/a.py"),
    "a name of two files": (
        request("cobertura", cobertura(HITS, "a.py", "src", "lib"), like_named=frozenset({"src/a.py", "lib/a.py"})),
        "may be any of lib/a.py, src/a.py",
    ),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_a_report_that_cannot_be_believed_covers_nothing(case: str) -> None:
    asked, words = UNUSABLE[case]
    found = measured(asked)
    assert (found.lines, found.covered, words in found.fault) == (0, 0, True), found.fault


#: Writes a report, as a coverage tool would: the source that is reported, and its lines.
WRITES = b"""import sys, pathlib

kind = sys.argv[1]
place = pathlib.Path('cov.info')
text = 'SF:src/a.py\\n' + ''.join(f'DA:{line},{int(line != 8)}\\n' for line in range(6, 10))
if kind == 'link':
    pathlib.Path('real').write_text(text)
    place.symlink_to('real')
elif kind == 'large':
    with place.open('w') as file:
        file.write(text)
        file.truncate(100 << 20)
elif kind == 'folder':
    place.mkdir()
elif kind == 'pipe':
    import os
    os.mkfifo(place)
elif kind != 'nothing':
    place.write_text(text)
"""
FILES = {"src/a.py": SOURCE, "write.py": WRITES, "README.md": b"a\n"}


class Measured:
    """A suite whose commands must write ``cov.info``."""

    def __init__(self, folder: Path, files: Mapping[str, bytes] = FILES, percent: int = 75, file: str = "cov.info") -> None:
        self.suite = Suite(folder, files)
        self.required = CoverageRequirement(file=file, changed_lines_percent=percent)

    async def tested(self, changes: Mapping[str, bytes | None], *commands: str) -> TestReport:
        return await self.suite.tested(changes, *commands, coverage=self.required)

    def codes(self, report: TestReport) -> list[str]:
        assert self.suite.contract is not None
        assert report.status == "PASS", self.suite.printed(report)
        ordered = match_commands(report, self.suite.contract)[0]
        changed = frozenset({b"src/a.py", b"README.md", b"cov.info"})
        assert list(broken_by_facts(report, ordered, changed)) == []
        return [each.code for each in broken_by_coverage(ordered)]


@pytest.mark.parametrize(("percent", "codes"), [(75, []), (76, ["coverage_too_low"])])
async def test_changed_lines_below_the_threshold_are_refused_with_their_numbers(
    percent: int, codes: list[str], tmp_path: Path
) -> None:
    case = Measured(tmp_path, percent=percent)
    report = await case.tested({"src/a.py": NEW}, "python write.py report")
    assert case.codes(report) == codes
    assert "coverage of changed lines: 3 of 4 (75 %); not executed: src/a.py:8" in in_words(proof_of(report))


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("nothing", "did not write it"),
        ("link", "could not be"),
        ("large", "at most 32 MiB"),
        ("folder", "could not be"),
    ],
)
async def test_a_report_that_is_no_file_of_the_command_is_missing(kind: str, words: str, tmp_path: Path) -> None:
    case = Measured(tmp_path)
    report = await case.tested({"src/a.py": NEW}, f"python write.py {kind}")
    assert case.codes(report) == ["coverage_missing"]
    found = proof_of(report).coverage
    assert found is not None
    assert words in found.fault or "link" in found.fault or "directory" in found.fault, found.fault


async def test_a_report_that_the_candidate_brings_is_stale(tmp_path: Path) -> None:
    stale = lcov({6: 1, 7: 1, 8: 1, 9: 1}, "src/a.py").encode()
    case = Measured(tmp_path, {**FILES, "cov.info": stale})
    report = await case.tested({"src/a.py": NEW}, "python write.py nothing")
    assert case.codes(report) == ["coverage_missing"]
    assert case.codes(await case.tested({"src/a.py": NEW}, "python write.py report")) == []


async def test_a_report_that_an_earlier_command_wrote_is_stale(tmp_path: Path) -> None:
    case = Measured(tmp_path)
    report = await case.tested({"src/a.py": NEW}, "python write.py report", "python write.py nothing")
    assert case.codes(report) == ["coverage_missing"]
    found = proof_of(report).coverage
    assert found is not None
    assert found.fault == "the command left it as it was"


@pytest.mark.parametrize("changes", [{"README.md": b"b\n"}, {"src/a.py": NEW}, {"src/a.py": None}])
async def test_a_change_without_executable_lines_has_nothing_to_cover(changes: dict[str, bytes | None], tmp_path: Path) -> None:
    case = Measured(tmp_path, {**FILES, "src/a.py": NEW + b"old()\n"}, percent=100)
    report = await case.tested(changes, "python write.py report")
    found = proof_of(report).coverage
    assert found is not None
    assert (found.lines, case.codes(report)) == (0, [])


NODE = {
    "package.json": b'{"name": "demo"}',
    "lib/a.js": b"exports.old = () => 1;\n",
    "lib/a.test.js": (
        b"const test = require('node:test');\nconst assert = require('node:assert');\nconst a = require('./a.js');\n"
        b"test('old', () => assert.equal(a.old(), 1));\n"
    ),
}


@needs("node")
async def test_node_reports_the_lines_that_its_tests_run(tmp_path: Path) -> None:
    changed = b"exports.old = () => 1;\nexports.fresh = (x) => {\n  if (x) {\n    return 2;\n  }\n  return 3;\n};\n"
    test = NODE["lib/a.test.js"] + b"test('fresh', () => assert.equal(a.fresh(0), 3));\n"
    case = Measured(tmp_path, NODE, 80)
    words = "--test --experimental-test-coverage --test-reporter=lcov --test-reporter-destination=cov.info"
    report = await case.tested({"lib/a.js": changed, "lib/a.test.js": test}, f"node {words}")
    found = proof_of(report).coverage
    assert found is not None
    assert (found.fault, found.uncovered, found.covered) == ("", ("lib/a.js:4",), 3), case.suite.printed(report)


async def test_a_file_whose_changed_lines_ran_is_not_untested(tmp_path: Path) -> None:
    test = b"def test_nothing():\n    pass\n"
    case = Measured(tmp_path, {**FILES, "tests/test_a.py": test}, percent=0)
    plain = await case.suite.tested({"src/a.py": NEW}, "python -m pytest -q")
    assert proof_of(plain).untouched == ("src/a.py",)
    command = (
        b"import runpy, sys\n\n\ndef test_writes():\n    sys.argv = ['write.py', 'report']\n    runpy.run_path('write.py')\n"
    )
    report = await case.tested({"src/a.py": NEW, "tests/test_a.py": command}, "python -m pytest -q")
    assert case.suite.contract is not None
    assert proof_of(report).untouched == ("src/a.py",)
    assert untested_changes(match_commands(report, case.suite.contract)[0]) == {}
