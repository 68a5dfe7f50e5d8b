"""Commands that are not what they seem: shell syntax, options that load code or write elsewhere, tests that prove nothing.

Each goes through the real policy gate, as an acceptance test or as the executor's command of a contract.
"""

from __future__ import annotations

import pytest

from gatewright import scope
from gatewright.contracts.task_contract import RuntimeOptions
from gatewright.contracts.vocabulary import AcceptanceTest, Executor
from gatewright.services.gatekeeper.gates.contract.policy import judge_contract
from gatewright.services.gatekeeper.policies.load import Policies
from tests.factories import make_contract
from tests.gatekeeper.contexts import make_context

RUN = "run-0123456789"


def refused(policies: Policies, *, test: str = "pytest", command: str = "touch src/x", strict: bool = False) -> list[str]:
    """The codes of the command gate for a contract with this acceptance test and this executor's command."""
    contract = make_contract(
        RUN,
        acceptance_tests=(AcceptanceTest(name="t", cmd=test, must_pass=True),),
        executor=Executor(kind="command", commands=(command,)),
        runtime_options=RuntimeOptions(strict_acceptance=True) if strict else None,
    )
    context = make_context(RUN, "policy", policies)
    judge_contract(context, contract)
    return [violation.code for violation in context.report.violations if violation.rule == "command_allowlist"]


def test_honest_commands_pass(policies: Policies) -> None:
    for test in (
        "pytest -q tests",
        "python -m pytest -qx --tb=short -k 'one or two' tests/unit::test_a",
        "python -m unittest discover tests",
        "npm test -- --run",
        "go test -count=1 ./...",
        "go test --race ./pkg",
        "cargo test --locked -- --nocapture",
        "make test -j4",
        "grep -q /etc/hosts src/a.py",
        "test -f src/a.py",
        "mypy --strict src",
        "python tools/check.py --level=3 src/a.py",
        "cargo test --test one -- --test-threads=1",
        "grep -qF -e needle -e other src/a.py",
        "grep -q '^[a-z]* needle' src/a.py",
        "ruff check --select E src",
        "ruff format --check src",
        "black --check -l 100 src",
        "make test -kj 4",
        "make check --jobs=2",
        "node --test tests",
        "test -d docs",
    ):
        assert refused(policies, test=test, strict=True) == [], test
    for command in (
        "sed -i s/1/2/ src/a.py",
        "sed -E -i -e 's#a/b#c#g' src/a.py",
        "cp -r src/a src/b",
        "sed -n -i s/1/2/p src/a.py",
        "sed --in-place -e s/1/2/ -e 3d src/a.py",
        "ruff check --fix {paths}",
    ):
        assert refused(policies, command=command) == [], command


@pytest.mark.parametrize(
    "text",
    [
        "pytest; id",
        "pytest && id",
        "pytest || id",
        "pytest | tee x",
        "pytest $(id)",
        "pytest `id`",
        "pytest > out",
        "pytest < /etc/passwd",
        "pytest & id",
        "pytest 'a;b'",
        "pytest\nid",
        "pytest\r\nid",
        "pytest \x00",
        "pytest \u202eevil",
        "pytest ${IFS}x",
        "sh -c id",
        "bash -c id",
        "env pytest",
        "A=1 pytest",
        "/usr/bin/pytest",
        "./pytest",
        "../pytest",
        "-pytest",
        "xargs pytest",
        "git -c alias.x='!id' x",
    ],
)
def test_shell_syntax_a_shell_or_a_program_by_its_path(text: str, policies: Policies) -> None:
    assert refused(policies, test=text)
    assert refused(policies, command=text)


@pytest.mark.parametrize(
    "text",
    [
        "python -c id",
        "python -cid",
        "python -Ic id",
        "python -Bc id",
        "python -BIc id",
        "python -m http.server",
        "python -mpdb x.py",
        "python -Im http.server",
        "python -i x.py",
        "python -X importtime x.py",
        "python -W error::evil.Category x.py",
        "python -Werror::evil.Category x.py",
        "python -",
        "python",
        "python --check-hash-based-pycs always x.py",
        "python3 -c id",
        "python @args.txt",
        "python /etc/x.py",
        "python ../x.py",
        "python src/../../x.py",
        "python ~/x.py",
    ],
)
def test_inline_code_and_code_from_elsewhere(text: str, policies: Policies) -> None:
    assert refused(policies, test=text)
    assert refused(policies, command=text)


@pytest.mark.parametrize(
    "text",
    [
        "node -e x",
        "node --eval x",
        "node --eval=x",
        "node -p x",
        "node -pe x",
        "node -r ./evil.js x.js",
        "node --require=./evil.js x.js",
        "node --import ./evil.js x.js",
        "node --loader ./evil.js x.js",
        "node --inspect=0.0.0.0 x.js",
        "node --env-file=.env x.js",
        "node -",
        "node",
    ],
)
def test_a_javascript_interpreter_with_more_than_a_script(text: str, policies: Policies) -> None:
    assert refused(policies, command=text)


@pytest.mark.parametrize(
    "words",
    [
        "-p evil",
        "-pevil",
        "-qp evil",
        "-qpevil",
        "-c evil.ini",
        "-cevil.ini",
        "--config-file evil.ini",
        "--config-fil=evil.ini",
        "--conf=evil.ini",
        "--rootdir=x",
        "--rootd x",
        "--confcutdir=x",
        "--basetemp=x",
        "-o python_files=evil.py",
        "-opython_files=evil.py",
        "-qo python_files=evil.py",
        "--override-ini=addopts=-p",
        "--pyargs os",
        "--pdb",
        "--pdbcls=evil:Evil",
        "--junitxml=x",
        "--junit-xml=x",
        "--log-file=x",
        "--debug=x",
        "--pastebin=all",
        "--cache-clear",
        "--collect-only",
        "--co",
        "--version",
        "-h",
        "-V",
        "@args",
        "/etc",
        "../other",
        "tests=../other",
        "PYTHONPATH=x",
        "--ignore=/etc",
        "--ignore=../x",
        "--quiet=x",
        "-k",
    ],
)
def test_pytest_with_code_configuration_or_places_of_somebody_else(words: str, policies: Policies) -> None:
    assert refused(policies, test=f"pytest {words}")
    assert refused(policies, test=f"python -m pytest {words}")


@pytest.mark.parametrize(
    "text",
    [
        "go test -exec evil ./...",
        "go test --exec=evil ./...",
        "go test -toolexec evil ./...",
        "go test -o /tmp/x ./...",
        "go test -o x ./...",
        "go test -C / ./...",
        "go test -overlay x.json ./...",
        "go test -modfile x ./...",
        "go test -ldflags=-X ./...",
        "go test -coverprofile=x ./...",
        "go test -args x",
        "cargo +nightly test",
        "cargo test --config x",
        "cargo test --config=build.rustc-wrapper=evil",
        "cargo test --manifest-path x",
        "cargo test --target-dir x",
        "cargo test -Zunstable",
        "cargo test -C x",
        "make test -C /",
        "make test -f evil.mk",
        "make test -fevil.mk",
        "make test --file=evil.mk",
        "make test --eval=x",
        "make test -kf evil.mk",
        "make test SHELL=evil",
        "make test CC:=evil",
        "make test evil",
        "make -n test",
        "make test -n",
        "make test --dry-run",
        "make test --just-print",
        "npm test --prefix /tmp",
        "npm test --node-options=--require=./evil.js",
        "npm test --script-shell=evil",
        "npm test --userconfig=x",
        "npm test -g",
        "npm test evil",
        "mypy --config-file x src",
        "mypy --config x src",
        "mypy -c 'import x'",
        "mypy --python-executable x src",
        "mypy --cache-dir=/tmp src",
        "mypy --install-types src",
        "mypy --html-report x src",
        "mypy --shadow-file a b",
        "mypy @flags src",
        "ruff check --config x",
        "ruff check --output-file x",
        "ruff check -o x",
        "ruff check --cache-dir x",
        "ruff check --add-noqa",
        "ruff check --stdin-filename x -",
        "black --config x src",
        "black -c code",
        "black --code=x",
        "grep -f /etc/passwd x",
        "grep -rf patterns x",
        "grep --file=patterns x",
        "grep x /etc/passwd",
        "grep x ../../etc/passwd",
        "test 1",
        "test -n x",
        "test x = x",
        "test -f /etc/passwd",
        "test -f ../x",
        "true x",
    ],
)
def test_a_tool_with_an_option_that_loads_writes_or_looks_elsewhere(text: str, policies: Policies) -> None:
    assert refused(policies, test=text)


@pytest.mark.parametrize(
    "text",
    [
        "sed -i 1e src/a.py",
        "sed -i '1e id' src/a.py",
        "sed -i s/a/id/e src/a.py",
        "sed -i s/a/b/gw src/a.py",
        "sed 'w /tmp/x' src/a.py",
        "sed 'r /etc/passwd' src/a.py",
        "sed -i 's/a/b/w /tmp/x' src/a.py",
        "sed -i '/a/e id' src/a.py",
        "sed -i -e s/a/b/ -e 1e src/a.py",
        "sed -i -e1e src/a.py",
        "sed -f script src/a.py",
        "sed -nf script src/a.py",
        "sed --file=script src/a.py",
        "sed --expression=1e src/a.py",
        "sed -i.bak s/a/b/ src/a.py",
        "sed -i/tmp/x s/a/b/ src/a.py",
        "sed --in-place=/tmp/* s/a/b/ src/a.py",
        "sed -s -i s/a/b/ /etc/passwd",
        "sed -i s/a/b/ ../x",
        "sed -i 's/a/b/\\ne id' src/a.py",
        "sed -i",
        "cp src/a.py /etc/x",
        "cp src/a.py ../x",
        "cp -t /tmp src/a.py",
        "cp --target-directory=/tmp src/a.py",
        "cp --target=/tmp src/a.py",
        "cp -rt /tmp src/a.py",
        "cp /etc/passwd src/a.py",
        "cp -S ../x src/a.py src/b.py",
        "mv src/a.py ~/x",
        "mv -t /tmp src/a.py",
        "touch /tmp/x",
        "touch -r /etc/passwd src/a.py",
        "touch -d yesterday src/a.py",
        "ruff check --fix --config 'lint.select=1' src",
        "python -m libcst.tool codemod -x evil src",
        "python -m libcst.tool codemod --external evil src",
        "pyupgrade --exit src/a.py",
    ],
)
def test_an_executor_s_tool_that_runs_or_writes_more_than_its_edit(text: str, policies: Policies) -> None:
    assert refused(policies, command=text)


@pytest.mark.parametrize(
    "text",
    [
        "pytest -k -pevil",
        "pytest -k -p evil",
        "pytest -qk -pevil",
        "pytest -k @args",
        "pytest -n @args",
        "pytest --tb --rootdir=x",
        "python -m pytest --deselect -cevil.ini",
        "mypy --platform @flags src",
        "mypy --exclude --config-file=evil src",
        "ruff check --select @flags src",
        "ruff check --select --config=evil src",
        "make test -j SHELL=evil",
        "make test -j evil",
        "make test -j --eval=x",
        "make test --jobs -fevil.mk",
        "make test -kj evil",
        "go test -run -exec=evil ./...",
        "cargo test --bin --config=evil",
        "npm test -w --script-shell=evil",
        "grep -e root /etc/passwd",
        "grep --regexp=root /etc/passwd",
        "grep x -e root /etc/passwd",
        "grep src/a.py -e root ../x",
        "grep -qe root @args",
    ],
)
def test_an_option_passed_off_as_the_value_of_another(text: str, policies: Policies) -> None:
    """Pytest loads ``-pevil`` wherever it stands; make takes numbers alone after ``-j``; ``-e`` makes all operands files."""
    assert refused(policies, test=text)


@pytest.mark.parametrize(
    "text",
    [
        "sed 1e -ie s/a/b/ src/a.py",
        "sed -ie s/a/b/ src/a.py",
        "sed -in 1e src/a.py",
        "sed -niE s/a/b/ src/a.py",
        "sed -e s/a/b/ -e",
        "sed --",
        "sed -- 1e src/a.py",
        "node --",
        "node --stack-trace-limit -e x",
        "node --stack-trace-limit -pe x",
        "node --enable-source-maps=-e x.js",
        "python --",
        "python -u --",
        "python -- -c",
        "python -m libcst.tool codemod @args src",
        "python -m libcst.tool codemod -j --external=evil x src",
    ],
)
def test_a_script_where_the_gate_reads_a_suffix_a_value_or_nothing(text: str, policies: Policies) -> None:
    """The rest of the word after sed's ``-i`` is a suffix, so that ``-ie`` is no ``-e`` and the first operand is the script."""
    assert refused(policies, command=text)


@pytest.mark.parametrize("path", ["@flags", "SHELL=evil", "+nightly", "~root"])
def test_an_allowed_path_that_a_tool_would_take_for_something_else(path: str) -> None:
    expanded = scope.expand_paths(("ruff", "check", scope.PATHS_WORD), (path, "src"))
    assert expanded == ("ruff", "check", f"./{path}", "src")


@pytest.mark.parametrize(
    "text",
    [
        "true",
        "sleep 1",
        "test -d .",
        "test -e ./",
        "test -r ./.",
        "ruff check --exit-zero src",
        "ruff check -e src",
        "ruff check --fix src",
        "ruff check --fix-only src",
        "ruff check --diff src",
        "ruff check --ignore=ALL src",
        "ruff check --exclude=* src",
        "ruff format src",
        "black src",
        "black --diff src",
        "black --check --include=zzz src",
        "go test -run=^ ./...",
        "go test --skip=. ./...",
        "go test -count=0 ./...",
        "cargo test no_such_test",
        "cargo test -- --list",
        "cargo test -- --help",
        "cargo test -- no_such_test",
        "npm test --if-present",
        "npm test -- --help",
        "npm test -- --version",
        "npm test -- --passWithNoTests",
        "npm test -- --listTests",
        "node --test",
        "node --test --test-name-pattern=zzz src",
        "python -O tests/check.py",
        "python -OO tests/check.py",
        "python -bO tests/check.py",
        "python -m compileall",
        "python -m compileall -q",
        "python -m doctest -o SKIP src/a.py",
        "python -m unittest -k zzz",
        "python -m unittest discover -p zzz",
        "grep -c x src/a.py",
        "grep -L x src/a.py",
        "grep -v zzz src/a.py",
        "grep -q '' src/a.py",
        "grep -q . src/a.py",
        "grep -q ^ src/a.py",
        "grep -q x* src/a.py",
        "grep -q 'x\\?' src/a.py",
        "grep -q [^q] src/a.py",
        "grep -qE (abc)? src/a.py",
        "grep -qE a{0} src/a.py",
        "grep -q 'a\\{0,1\\}' src/a.py",
        "grep -q -e abc -e . src/a.py",
        "grep -q '\\w' src/a.py",
    ],
)
def test_a_test_that_proves_nothing_under_strict_acceptance(text: str, policies: Policies) -> None:
    assert refused(policies, test=text, strict=True) == ["command_not_allowed"]


def test_what_proves_nothing_is_let_through_where_nobody_asks_for_proof(policies: Policies) -> None:
    for text in ("true", "ruff check --fix src", "cargo test one", "npm test -- --help", "node --test", "grep -q . src/a.py"):
        assert refused(policies, test=text) == [], text


def test_the_classes_of_every_command_are_in_the_report(policies: Policies) -> None:
    contract = make_contract(
        RUN,
        acceptance_tests=(AcceptanceTest(name="t", cmd="python -m pytest -q", must_pass=True),),
        executor=Executor(kind="command", commands=("sed -i s/a/b/ src/a.py",)),
    )
    context = make_context(RUN, "policy", policies)
    judge_contract(context, contract)
    told = {name: outcome.detail for name, outcome in context.report.rules.items() if name.startswith("commands.")}
    assert told == {
        "commands.1.acceptance": "python -m pytest -q (local-write)",
        "commands.2.executor": "sed -i s/a/b/ src/a.py (local-write)",
    }
