"""An environment that has a copy of the project: the candidate is what its tests run, or the run is refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import pytest

from gatewright.contracts import TestReport
from gatewright.contracts.vocabulary import Environment
from gatewright.rules.reports.proof import in_words
from gatewright.rules.reports.tests import match_commands
from gatewright.rules.reports.untested import broken_by_untested
from gatewright.services.testrunner.comparison import facts, with_untested
from gatewright.services.testrunner.handler import make_handler
from gatewright.services.testrunner.settings import Settings
from tests.ecosystems import running
from tests.ecosystems.environments import make_environment, script, write
from tests.ecosystems.suites import Suite, codes, proof_of
from tests.series import series

#: The baseline gives 1, the candidate 2; its test asks for 2, so that an installed copy of the baseline fails it.
ONE, TWO = "def answer():\n    return 1\n", "def answer():\n    return 2\n"
TEST = "from shop.core import answer\n\n\ndef test_answer():\n    assert answer() == 2\n"
FLAT = {"shop/__init__.py": "", "shop/core.py": ONE, "tests/test_core.py": TEST, "setup.py": ""}
SRC = {
    "src/shop/__init__.py": "",
    "src/shop/core.py": ONE,
    "tests/test_core.py": TEST,
    "pyproject.toml": "[project]\nname='shop'\n",
}
INSTALLED = {"shop/__init__.py": "", "shop/core.py": ONE}
FINDER = """
import sys
from importlib.machinery import PathFinder
from importlib.util import spec_from_file_location

class EditableFinder:
    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        if fullname == "shop":
            place = {place!r}
            return spec_from_file_location("shop", place + "/shop/__init__.py", submodule_search_locations=[place + "/shop"])

def install():
    sys.meta_path.{way}
"""


class Project:
    """A suite whose commands see an environment of its own."""

    def __init__(self, folder: Path, files: Mapping[str, str]) -> None:
        self.prefix = folder / "environment"
        self.site = make_environment(self.prefix)
        self.suite = Suite(folder, {path: content.encode() for path, content in files.items()})
        settings = Settings(home=self.suite.fixture.state, environments=(self.prefix,))
        self.suite.runner = make_handler(settings)

    async def tested(self, changes: Mapping[str, str], command: str = "pytest -q") -> TestReport:
        encoded = {path: content.encode() for path, content in changes.items()}
        environment = Environment(prefix=str(self.prefix))
        return await self.suite.tested(encoded, command, environment=environment)


class MakeProject(Protocol):
    """``how`` the baseline is installed in the environment."""

    def __call__(self, files: Mapping[str, str], how: str = "nothing") -> Project: ...


@pytest.fixture
def make_project(tmp_path: Path) -> MakeProject:
    def make(files: Mapping[str, str], how: str = "nothing") -> Project:
        project = Project(tmp_path, files)
        script(project.prefix, "pytest", "pytest", "main")
        install(project.prefix, project.site, how)
        return project

    return make


def install(prefix: Path, site: Path, how: str) -> None:
    """The baseline, as one of the usual installers leaves it."""
    elsewhere = prefix / "editable"
    if how == "nothing":
        return
    if how == "copy":
        write(site, INSTALLED)
        return
    write(elsewhere, INSTALLED)
    if how == "editable":
        (site / "shop.pth").write_text(f"{elsewhere}\n")
        return
    if how == "early":
        place = f"{elsewhere}/shop"
        load = f"u.spec_from_file_location('shop', '{place}/__init__.py', submodule_search_locations=['{place}'])"
        text = f"import sys, importlib.util as u; s = {load}; m = sys.modules['shop'] = u.module_from_spec(s)\n"
        (site / "shop.pth").write_text(text)
        return
    way = "insert(0, EditableFinder)" if how == "finder first" else "append(EditableFinder)"
    text = FINDER.replace("{place!r}", repr(str(elsewhere))).replace("{way}", way)
    (site / "editable_shop_finder.py").write_text(text)
    (site / "shop.pth").write_text("import editable_shop_finder; editable_shop_finder.install()\n")


#: Each layout, and the file in it that changes.
LAYOUTS = {"flat": (FLAT, "shop/core.py"), "src": (SRC, "src/shop/core.py")}


@pytest.mark.parametrize(
    "layout_and_how",
    series(
        [f"{layout}-{how}" for layout in LAYOUTS for how in ("nothing", "copy", "editable", "finder")],
        "flat-copy",
        "src-editable",
        "src-finder",
    ),
)
async def test_the_candidate_runs_however_the_project_is_installed(tmp_path: Path, layout_and_how: str) -> None:
    layout, how = layout_and_how.split("-")
    files, core = LAYOUTS[layout]
    prefix = tmp_path / "environment"
    site = make_environment(prefix)
    script(prefix, "pytest", "pytest", "main")
    install(prefix, site, how)
    suite = running.Suite(tmp_path / "suite", ("pytest", "-q"), {**files, core: TWO}, prefix)
    ran = await suite.all()
    framework = await suite.framework()
    proof = facts(framework, ran.completed, ran.told, [core])
    proof = await with_untested(proof, framework, ran.told, (suite.tree, suite.tree), [core])
    assert (ran.completed.exit_code, proof.complete) == (0, True), ran.words
    assert (proof.shadowed, proof.untouched) == ((), ())


@pytest.mark.parametrize(("layout", "how"), series([("flat", "copy"), ("src", "finder")], ("src", "finder")))
async def test_the_candidate_is_proved_beside_an_installed_copy(make_project: MakeProject, layout: str, how: str) -> None:
    files, core = LAYOUTS[layout]
    project = make_project(files, how)
    report = await project.tested({core: TWO})
    assert report.status == "PASS", project.suite.printed(report)
    assert (proof_of(report).shadowed, proof_of(report).untouched) == ((), ())
    assert project.suite.judged(report) == ()


@pytest.mark.long
@pytest.mark.parametrize("how", series(["finder first", "early"], "early"))
async def test_a_copy_that_cannot_be_removed_is_refused(make_project: MakeProject, how: str) -> None:
    project = make_project(SRC, how)
    for content in (TWO, "def answer():\n    raise SystemError\n"):
        report = await project.tested({"src/shop/core.py": content})
        assert any(name.startswith("shop -> ") for name in proof_of(report).shadowed), project.suite.printed(report)
        assert codes(project.suite.judged(report))[0] == "environment_shadows_candidate"


@pytest.mark.long
async def test_a_passing_old_copy_does_not_hide_a_broken_candidate(make_project: MakeProject) -> None:
    likes_one = TEST.replace("== 2", "== 1")
    project = make_project({**SRC, "tests/test_core.py": likes_one}, "finder first")
    report = await project.tested({"src/shop/core.py": "raise ImportError\n"})
    assert report.status == "PASS", project.suite.printed(report)
    assert codes(project.suite.judged(report, "recorded")) == ["environment_shadows_candidate"]


@pytest.mark.long
async def test_a_console_script_and_a_program_that_tests_start_run_the_candidate(make_project: MakeProject) -> None:
    test = "import subprocess\n\n\ndef test_answer():\n    assert subprocess.run(['shop']).returncode == 2\n"
    project = make_project({**SRC, "tests/test_core.py": test}, "copy")
    script(project.prefix, "shop", "shop.core", "answer")
    report = await project.tested({"src/shop/core.py": TWO})
    assert report.status == "PASS", project.suite.printed(report)


@pytest.mark.long
async def test_a_member_of_a_namespace_runs_from_the_candidate_beside_installed_members(make_project: MakeProject) -> None:
    test = "import acme.other\nfrom acme.core import answer\n\n\ndef test_answer():\n    assert answer() == 2\n"
    files = {"src/acme/core/__init__.py": ONE, "tests/test_core.py": test, "pyproject.toml": "[project]\nname='acme-core'\n"}
    project = make_project(files)
    write(project.site, {"acme/core/__init__.py": ONE, "acme/other.py": ""})
    report = await project.tested({"src/acme/core/__init__.py": TWO})
    assert report.status == "PASS", project.suite.printed(report)
    assert proof_of(report).shadowed == ()


async def test_unittest_runs_the_candidate_too(make_project: MakeProject) -> None:
    test = (
        "import unittest\nfrom shop.core import answer\n\n\nclass AnswerTest(unittest.TestCase):\n"
        "    def test_answer(self):\n        self.assertEqual(answer(), 2)\n"
    )
    files = {**SRC, "tests/test_core.py": test, "tests/__init__.py": ""}
    project = make_project(files, "copy")
    report = await project.tested({"src/shop/core.py": TWO}, "python -m unittest discover -s tests -t .")
    assert report.status == "PASS", project.suite.printed(report)
    assert (proof_of(report).shadowed, proof_of(report).untouched) == ((), ())


@pytest.mark.long
async def test_changed_sources_that_no_test_loads_are_named_and_can_be_refused(make_project: MakeProject) -> None:
    project = make_project(SRC)
    changes = {"src/shop/core.py": TWO, "src/shop/alone.py": "x = 1\n", "docs/conf.py": "y = 1\n", "data.txt": "z\n"}
    report = await project.tested(changes)
    assert proof_of(report).untouched == ("src/shop/alone.py",)
    assert project.suite.judged(report) == ()
    assert "changed, and loaded by no test: src/shop/alone.py" in in_words(proof_of(report))
    assert project.suite.contract is not None
    ordered = match_commands(report, project.suite.contract)[0]
    assert [(each.code, each.path) for each in broken_by_untested(ordered)] == [("untested_change", b"src/shop/alone.py")]


@pytest.mark.long
async def test_a_missing_compiled_module_of_the_installed_copy_is_named(
    make_project: MakeProject,
) -> None:
    test = "from shop._fast import answer\n\n\ndef test_answer():\n    assert answer() == 2\n"
    project = make_project({**SRC, "tests/test_core.py": test}, "copy")
    write(project.site, {"shop/_fast.cpython-311-x86_64-linux-gnu.so": "compiled"})
    report = await project.tested({"src/shop/core.py": TWO})
    (shadowed,) = proof_of(report).shadowed
    assert shadowed.startswith("shop._fast -> ")
    assert codes(project.suite.judged(report))[0] == "environment_shadows_candidate"


@pytest.mark.long
async def test_unrelated_failures_beside_a_compiled_copy_are_test_failures(make_project: MakeProject) -> None:
    project = make_project(SRC, "copy")
    write(project.site, {"shop/core.cpython-311-x86_64-linux-gnu.so": "compiled"})
    report = await project.tested({"src/shop/core.py": ONE + "# changed\n"})
    assert codes(project.suite.judged(report)) == ["tests_failed"]
