"""``gatewright run``: what is wrong with its options is said at once, all of it, before anything is started."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from gatewright.app.cli.run.request import prepare
from gatewright.contracts.vocabulary import AuditRequirement, Budget, CoverageRequirement
from gatewright.errors import MalformedError
from gatewright.git.command import GitCommand
from gatewright.order_form.run_options import RunOptions
from tests.cli.conftest import RESULT_FIELDS, Command, MakeRepository

COMPLETE = ("--allow", "src", "--exec", "true", "--test", "true")


def test_everything_that_is_missing_is_named_with_an_example(
    gatewright: Command, make_repository: MakeRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = make_repository("r")
    monkeypatch.chdir(repository)
    said = gatewright("run")
    assert said.exit_code == 2
    for word in ("REQUEST", "--allow", "--test", "--exec", "--patch", "--reply", "example:"):
        assert word in said.err
    assert said.out == ""
    assert not (repository / ".git" / "gatewright").exists(), "nothing is made for input that is refused"


def test_without_a_test_the_command_that_the_repository_has_is_proposed(
    gatewright: Command, make_repository: MakeRepository
) -> None:
    repository = make_repository("r")
    (repository / "Makefile").write_text("test:\n\ttrue\n")
    (repository / "go.mod").write_text("module x\n")
    for step in (("add", "Makefile"), ("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "tests")):
        subprocess.run(["git", "-C", repository, *step], check=True)
    words = ("run", "do it", "--repo", repository, "--allow", "src", "--exec", "touch src/x")
    said = gatewright(*words)
    assert said.exit_code == 2
    assert "detected  make test" in said.err
    assert f"gatewright run 'do it' --repo {repository} --allow src --exec 'touch src/x' --test 'make test'" in said.err
    assert "go test" not in said.err, "what is not committed is no part of the run"
    assert gatewright(*words, "--json").documents[-1]["retry_with"] == ["--test", "make test"]


def test_json_result_of_refused_input_keeps_the_shape(gatewright: Command, make_repository: MakeRepository) -> None:
    said = gatewright("run", "do it", "--repo", make_repository("r"), "--test", "true", "--json")
    assert said.exit_code == 2
    result = said.documents[-1]
    assert tuple(result) == RESULT_FIELDS
    assert (result["run_id"], result["status"]) == (None, "ERROR")
    assert result["failure"]["code"] == "invalid_input"
    assert "--allow" in result["failure"]["message"]
    assert "--exec" in result["failure"]["message"]


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (("--allow", "src", "--exec", "true", "--patch", "p", "--test", "true"), "give only one of --agent"),
        ((*COMPLETE, "--coverage", "coverage.xml"), "--coverage needs a --test and FILE=PERCENT"),
        ((*COMPLETE, "--coverage", "../coverage.xml=80"), "--coverage needs"),
        ((*COMPLETE, "--coverage", "coverage.xml=101"), "--coverage needs"),
        ((*COMPLETE, "--coverage", "coverage.txt=80"), "--coverage needs"),
        ((*COMPLETE, "--audit", "out.sarif"), "--audit needs a --test and FILE=LIMIT"),
        ((*COMPLETE, "--audit", "out.sarif=-1"), "--audit needs"),
        ((*COMPLETE, "--audit", "out.txt=1"), "--audit needs"),
        ((*COMPLETE, "--audit", "../out.json=80"), "--audit needs"),
        ((*COMPLETE, "--land", "target"), "--land target needs --target-ref"),
        ((*COMPLETE, "--mount", "absent"), "--mount absent: "),
        ((*COMPLETE, "--env", "absent"), "there is no folder"),
        (("--allow", "src", "--patch", "absent.diff", "--test", "true"), "absent.diff cannot be read"),
        (("--allow", "src", "--reply", ".", "--test", "true"), ". cannot be read"),
        ((*COMPLETE, "--repo", "absent"), "--repo: there is no repository"),
        ((*COMPLETE, "--repo", "r/sub"), "--repo: "),
    ],
)
def test_contradictions_and_absent_things_are_bad_input(
    gatewright: Command, make_repository: MakeRepository, words: tuple[str, ...], fault: str
) -> None:
    (make_repository("r") / "sub").mkdir()
    repo = () if "--repo" in words else ("--repo", "r")
    said = gatewright("run", "do it", *repo, *words)
    assert said.exit_code == 2
    assert f"\n  {fault}" in said.err


def test_outside_of_any_repository_one_must_be_named(gatewright: Command) -> None:
    said = gatewright("run", "do it", *COMPLETE)
    assert said.exit_code == 2
    assert "--repo" in said.err


@pytest.mark.parametrize("words", [("--land", "elsewhere"), ("--shards", "0"), ("--timeout", "0"), ("--no-such-option",)])
def test_unknown_options_and_values_are_bad_input(gatewright: Command, words: tuple[str, ...]) -> None:
    assert gatewright("run", "do it", *COMPLETE, *words).exit_code == 2


def test_repository_defaults_to_the_one_stood_in(make_repository: MakeRepository) -> None:
    repository = make_repository("r")
    (repository / "deep" / "er").mkdir(parents=True)
    request = prepare(RunOptions(request="x", allow=("a",), commands=("c",), tests=("t",)), repository / "deep" / "er").request
    assert request.repository.url == str(repository)


def test_refs_of_a_person_are_sent_as_the_gatekeeper_finds_them(make_repository: MakeRepository) -> None:
    repository = make_repository("r")
    full = GitCommand(repository / ".git").execute("rev-parse", "HEAD").decode().strip()
    options = RunOptions(request="x", ref=full[:12], allow=("a",), commands=("c",), tests=("t",))
    assert prepare(options, repository).request.baseline_ref == full
    with pytest.raises(MalformedError) as refused:
        prepare(replace(options, ref="origin/none"), repository)
    assert [(fault.pointer, fault.code) for fault in refused.value.faults] == [("/baseline_ref", "ref_not_found")]


def test_relative_repository_becomes_absolute_and_an_address_stays(tmp_path: Path, make_repository: MakeRepository) -> None:
    make_repository("r")
    for given, url in (
        ("r", str(tmp_path / "r")),
        ("./r/../r", str(tmp_path / "r")),
        ("https://host.invalid/x.git", "https://host.invalid/x.git"),
        ("git@host.invalid:x.git", "git@host.invalid:x.git"),
    ):
        options = RunOptions(request="x", repo=given, allow=("a",), commands=("c",), tests=("t",))
        assert prepare(options, tmp_path).request.repository.url == url


def test_every_further_answer_is_one_retry(tmp_path: Path, make_repository: MakeRepository) -> None:
    repository = str(make_repository("r"))
    first, second = tmp_path / "one.txt", tmp_path / "two.txt"
    for file in (first, second):
        file.write_text(file.name)
    prepared = prepare(
        RunOptions(request="x", repo=repository, allow=("a",), replies=(str(first), str(second)), tests=("t",)), tmp_path
    )
    assert prepared.attachments == (("reply-1", b"one.txt"), ("reply-2", b"two.txt"))
    assert prepared.request.executor is not None
    assert prepared.request.executor.artifacts == ("reply-1", "reply-2")
    assert prepared.request.timeout_retry is not None
    assert prepared.request.timeout_retry.max_retries == 1


@pytest.mark.parametrize(
    ("given", "required"),
    [
        ("out/lint.sarif=0", AuditRequirement(file="out/lint.sarif")),
        ("lint.xml=3", AuditRequirement(file="lint.xml", max_new=3)),
        ("score.json=7.5", AuditRequirement(file="score.json", min_score=7.5)),
    ],
)
def test_the_audit_is_that_of_the_last_test(
    tmp_path: Path, make_repository: MakeRepository, given: str, required: AuditRequirement
) -> None:
    options = RunOptions(request="x", repo=str(make_repository("r")), allow=("a",), commands=("c",), tests=("t", "u"))
    made = prepare(replace(options, audit=given), tmp_path).request.acceptance_tests
    assert [(each.cmd, each.audit) for each in made] == [("t", None), ("u", required)]


def test_the_coverage_report_is_that_of_the_last_test(tmp_path: Path, make_repository: MakeRepository) -> None:
    options = RunOptions(request="x", repo=str(make_repository("r")), allow=("a",), commands=("c",), tests=("t", "u"))
    given = prepare(replace(options, coverage="out/cover.out=75"), tmp_path).request.acceptance_tests
    required = CoverageRequirement(file="out/cover.out", changed_lines_percent=75)
    assert [(each.cmd, each.coverage) for each in given] == [("t", None), ("u", required)]
    assert required.read_as == "go"


def test_each_run_is_a_run_of_its_own(tmp_path: Path, make_repository: MakeRepository) -> None:
    options = RunOptions(request="x", repo=str(make_repository("r")), allow=("a",), commands=("c",), tests=("t",))
    assert prepare(options, tmp_path).request.idempotency_key != prepare(options, tmp_path).request.idempotency_key


@pytest.mark.parametrize("tracked", ["folder", "link"])
def test_an_environment_that_the_repository_tracks_is_refused_before_anything_runs(
    make_repository: MakeRepository, tmp_path: Path, tracked: str
) -> None:
    repository = make_repository("r")
    if tracked == "folder":
        (repository / ".venv").mkdir()
        (repository / ".venv" / "pyvenv.cfg").write_text("home = /home/secret/bin\n")
    else:
        (tmp_path / "host" / "bin").mkdir(parents=True)
        (repository / ".venv").symlink_to(tmp_path / "host")
    subprocess.run(["git", "-C", repository, "add", "--force", ".venv"], check=True)
    with pytest.raises(MalformedError) as refused:
        prepare(RunOptions(request="x", env=(Path(".venv"),)), repository)
    faults = {fault.pointer: fault.code for fault in refused.value.faults}
    assert faults["/environment/prefix"] == "environment_tracked"


def test_all_faults_are_raised_together(tmp_path: Path) -> None:
    with pytest.raises(MalformedError) as refused:
        prepare(RunOptions(request=" ", land="target", env=(Path("x"), Path("y"))), tmp_path)
    assert len(refused.value.faults) == 8


@pytest.mark.parametrize(
    ("words", "budget"),
    [
        ((), None),
        (("--max-seconds", "90"), Budget(wall_sec=90)),
        (("--budget-usd", "2.5"), Budget(cost_usd=2.5)),
        (
            ("--max-seconds", "1.5", "--max-tokens", "0", "--max-cost", "0.25", "--max-iterations", "3"),
            Budget(wall_sec=1.5, tokens=0, cost_usd=0.25, iterations=3),
        ),
    ],
)
def test_a_budget_is_asked_for_by_options(
    gatewright: Command,
    make_repository: MakeRepository,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    budget: Budget | None,
) -> None:
    asked: list[RunOptions] = []

    async def look(options: RunOptions, **_others: object) -> int:
        asked.append(options)
        return 0

    monkeypatch.setattr("gatewright.app.cli.run.start.start_run", look)
    repository = make_repository("r")
    gatewright("run", "do it", "--repo", "r", *COMPLETE, *words)
    (options,) = asked
    assert prepare(options, repository.parent).request.budget == budget


@pytest.mark.parametrize(
    "words", [("--max-seconds", "0"), ("--max-tokens", "-1"), ("--max-cost", "-1"), ("--max-iterations", "0")]
)
def test_a_budget_that_cannot_be_is_bad_input(
    gatewright: Command, make_repository: MakeRepository, words: tuple[str, ...]
) -> None:
    make_repository("r")
    assert gatewright("run", "do it", "--repo", "r", *COMPLETE, *words).exit_code == 2


def test_paths_as_a_shell_completes_them_mean_the_same_path(make_repository: MakeRepository) -> None:
    top = make_repository("r")
    (top / "sub").mkdir()
    link = top.parent / "link"
    link.symlink_to(top)

    def allowed(given: str, here: Path, repo: str | None = None) -> tuple[str, ...]:
        options = RunOptions(
            request="do it", repo=repo, allow=(given,), allow_tests=(given,), commands=("true",), tests=("true",)
        )
        request = prepare(options, here).request
        assert request.scope is not None
        assert request.scope.allow_protected_paths == request.allowed_paths
        return request.allowed_paths

    assert allowed("./src", top) == ("src",)
    assert allowed("./src/", top) == ("src/",)
    assert allowed(str(top / "src" / "a.py"), top) == ("src/a.py",)
    assert allowed(str(link / "src"), top) == ("src",)
    assert allowed(str(top / "src"), link) == ("src",)
    assert allowed("./a.py", top / "sub") == ("sub/a.py",)
    assert allowed("./../src", top / "sub") == ("src",)
    assert allowed("src/a.py", top / "sub") == ("src/a.py",)
    assert allowed("./src", top.parent, str(top)) == ("src",)
    assert allowed(str(top), top) == (".",)
    assert allowed("./", top) == ("./",)


@pytest.mark.parametrize("given", ["/etc/passwd", "./../elsewhere", "~/elsewhere"])
def test_a_path_outside_of_the_repository_is_bad_input(given: str, make_repository: MakeRepository) -> None:
    options = RunOptions(request="do it", allow=(given,), commands=("true",), tests=("true",))
    with pytest.raises(MalformedError) as refused:
        prepare(options, make_repository("r"))
    assert [(fault.pointer, fault.code) for fault in refused.value.faults] == [("/allowed_paths", "outside")]
