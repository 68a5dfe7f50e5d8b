"""Suites of minitest and RSpec as they really run: each test told by its id and outcome, and the command shown to be alive."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.ecosystems.registry import recognise, why_unproven
from gatewright.services.testrunner.comparison import lost_tests
from tests.ecosystems.running import Files, Suite, drawing
from tests.ecosystems.tools import needs

needs_ruby = needs("ruby", "rake")
needs_rspec = needs("ruby", "rspec")

RAKE = ("rake", "test")
SPEC = ("rspec",)
ADD = "def add(one, other)\n  one + other\nend\n"
MINITEST = {
    "Rakefile": 'require "rake/testtask"\nRake::TestTask.new { |task| task.pattern = "test/**/test_*.rb" }\n',
    "lib/add.rb": ADD,
    "test/test_add.rb": """require "minitest/autorun"
require "add"

class AddTest < Minitest::Test
  def test_adds
    assert_equal 3, add(1, 2)
  end

  def test_later
    skip
  end
end
""",
    "test/sub/test_more.rb": """require "minitest/autorun"
require_relative "../../lib/add"

describe "adding" do
  it "adds more" do
    _(add(2, 2)).must_equal 4
  end
end
""",
}
RSPEC = {
    "lib/add.rb": ADD,
    "spec/add_spec.rb": """require_relative "../lib/add"

RSpec.describe "adding" do
  it("adds") { expect(add(1, 2)).to eq 3 }
  it { expect(add(2, 2)).to eq 4 }
  it("is for later") { skip "not yet" }
  context "with nothing" do
    it("adds") { expect(add(0, 0)).to eq 0 }
  end
end
""",
}
MINITEST_IDS = {
    "test/test_add.rb::AddTest#test_adds": "passed",
    "test/test_add.rb::AddTest#test_later": "skipped",
    "test/sub/test_more.rb::adding#test_0001_adds more": "passed",
}
RSPEC_IDS = {
    "spec/add_spec.rb::adding adds": "passed",
    "spec/add_spec.rb::adding example": "passed",
    "spec/add_spec.rb::adding is for later": "skipped",
    "spec/add_spec.rb::adding with nothing adds": "passed",
}
SUITES = [
    pytest.param(RAKE, MINITEST, MINITEST_IDS, marks=needs_ruby, id="minitest"),
    pytest.param(SPEC, RSPEC, RSPEC_IDS, marks=needs_rspec, id="rspec"),
]


@pytest.mark.parametrize(("argv", "files", "ids"), SUITES)
async def test_each_test_reports_its_outcome(
    argv: tuple[str, ...], files: dict[str, str], ids: dict[str, str], tmp_path: Path
) -> None:
    ran = await Suite(tmp_path, argv, files).all()
    assert ran.completed.exit_code == 0, ran.words
    assert ran.told.outcomes == ids
    assert (ran.told.complete, ran.told.collected) == (True, set(ids))


@pytest.mark.parametrize(("argv", "files", "ids"), SUITES)
async def test_a_planted_failure_fails_the_command_and_a_planted_success_passes(
    argv: tuple[str, ...], files: dict[str, str], ids: dict[str, str], tmp_path: Path
) -> None:
    del ids
    sentinel, ran = await Suite(tmp_path, argv, files).control()
    assert ran.told.outcomes == {sentinel.failing: "failed", sentinel.passing: "passed"}, ran.words
    assert (ran.told.complete, ran.completed.exit_code != 0) == (True, True)


@pytest.mark.parametrize(("argv", "files", "ids"), SUITES)
async def test_baseline_test_ids_are_listed_without_running_tests(
    argv: tuple[str, ...], files: dict[str, str], ids: dict[str, str], tmp_path: Path
) -> None:
    later = next(each for each, outcome in ids.items() if outcome == "skipped")
    ran = await Suite(tmp_path, argv, {**files, "lib/add.rb": ADD.replace("+", "-")}).collect(later)
    assert (ran.completed.exit_code, ran.told.outcomes) == (0, {later: "skipped"}), ran.words
    assert ran.told.collected == set(ids)


_AT_EXIT = "at_exit { exit!(0) }\n"
TRICKS = {
    "the process ends when the source is loaded": "exit!(0)\n",
    "the process ends when all is over": ADD.replace("+", "-") + _AT_EXIT,
    "the exit code is set when all is over": ADD.replace("+", "-") + "at_exit { exit(0) }\n",
    "a signal ends it": 'trap("TERM") { exit!(0) }\nProcess.kill("TERM", Process.pid)\nsleep\n',
    "the process ends in the code under test": "def add(one, other)\n  exit!(0)\nend\n",
    "no test is run": "module Minitest\n  def self.__run(*)\n    []\n  end\nend\nclass RSpec::Core::ExampleGroup\n"
    "  def self.run(*)\n    true\n  end\nend if defined?(RSpec)\n",
    "every result has passed": "class Minitest::Result\n  def passed?\n    true\n  end\nend if defined?(Minitest)\n"
    "class Minitest::Test\n  def assert_equal(*)\n    true\n  end\nend if defined?(Minitest)\n"
    "module RSpec::Expectations\n  def self.fail_with(*)\n  end\nend if defined?(RSpec)\n" + ADD.replace("+", "-"),
}


@pytest.mark.parametrize("trick", TRICKS)
@pytest.mark.parametrize(("argv", "files", "ids"), SUITES)
async def test_broken_source_that_succeeds_is_no_green_run(
    argv: tuple[str, ...], files: dict[str, str], ids: dict[str, str], trick: str, tmp_path: Path
) -> None:
    suite = Suite(tmp_path, argv, {**files, "lib/add.rb": TRICKS[trick]})
    ran = await suite.all()
    told = ran.told
    unended = not told.complete or any(told.ends) or "failed" in told.outcomes.values() or lost_tests(ids, told.outcomes)
    assert ran.completed.exit_code or unended or not await suite.is_alive(), ran.words


async def test_rake_is_of_the_framework_that_its_tests_ask_for() -> None:
    async def name(*argv: str, **more: str) -> str:
        found = await recognise(argv, Files({**MINITEST, **RSPEC, **more}))
        return found.name if found is not None else ""

    assert await name("rake", "test") == "minitest"
    assert await name("bundle", "exec", "rake", "test") == "minitest"
    assert await name("rake", "spec") == await name("bundle", "exec", "rspec") == "rspec"
    assert await name("rake", "test", **{"test/test_add.rb": 'require "test/unit"\n'}) == ""
    newer = Files({**MINITEST, "Gemfile.lock": "GEM\n  specs:\n    minitest (6.0.1)\n"})
    assert await recognise(RAKE, newer) is None
    assert "minitest 6" in await why_unproven(RAKE, newer)


async def test_where_only_some_tests_run_there_is_no_place_for_planted_ones() -> None:
    for words in (("rspec", "-e", "adds"), ("rspec", "spec/add_spec.rb"), ("rspec", "--tag=slow")):
        framework = await recognise(words, Files(RSPEC))
        assert framework is not None
        assert await framework.sentinel(words, Files(RSPEC), drawing(1)) is None
