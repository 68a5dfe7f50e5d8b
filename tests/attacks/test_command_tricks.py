"""Commands that are not what they seem: shell syntax, options that load code or write elsewhere, tests that prove nothing.

Each goes through the real policy gate, as an acceptance test or as the executor's command of a contract.
"""

from __future__ import annotations

import pytest

from gatewright import scope
from gatewright.contracts.vocabulary import AcceptanceTest, Executor
from gatewright.services.gatekeeper.gates.contract.policy import judge_contract
from gatewright.services.gatekeeper.policies.load import Policies
from tests.attacks.judged_commands import RUN, refused
from tests.factories import make_contract
from tests.gatekeeper.contexts import make_context


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
        "npm run test:unit",
        "npm run test --workspace=one -- --coverage",
        "yarn test",
        "yarn run check",
        "pnpm test",
        "pnpm run test",
        "vitest run",
        "npx --no-install vitest run --coverage",
        "jest --ci -i",
        "npx --no-install jest src",
        "mocha --recursive --exit test",
        "npx --no-install mocha",
        "tsc --noEmit",
        "npx --no-install tsc -p packages/one",
        "tox -e py311 -q",
        "tox run",
        "tox --current-env -e py",
        "nox -s tests",
        "nox --no-venv --no-install -s tests",
        "uv run pytest -q",
        "uv run --frozen python -m pytest tests",
        "uv run --no-sync python -m unittest",
        "cargo clippy --all-targets -- -D warnings",
        "cargo nextest run --workspace --no-fail-fast",
        "go vet ./...",
        "mvn test -B -ntp -pl core",
        "mvn verify -q",
        "gradle check --no-daemon",
        "cmake -S . -B build -G Ninja",
        "cmake --preset release",
        "cmake --build build -j 2",
        "meson setup build",
        "meson compile -C build",
        "ctest --test-dir build --output-on-failure",
        "meson test -C build --print-errorlogs",
        "rspec --order random",
        "bundle exec rspec spec",
        "bundle exec rake test",
        "rake spec",
        "phpunit --fail-on-warning tests",
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
def test_pytest_with_foreign_code_configuration_or_paths_is_refused(words: str, policies: Policies) -> None:
    assert refused(policies, test=f"pytest {words}")
    assert refused(policies, test=f"python -m pytest {words}")


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
