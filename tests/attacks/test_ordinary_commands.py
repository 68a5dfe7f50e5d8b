"""Commands that projects of every ecosystem test themselves with: allowed. What makes such a runner lie: refused."""

from __future__ import annotations

import pytest

from gatewright.services.gatekeeper.policies.load import Policies
from tests.attacks.judged_commands import judged, refused

ORDINARY = """
pytest
pytest --cov=src --cov-report=term-missing
pytest --cov
pytest --cov src tests
pytest --cov=src --cov-branch --cov-report=xml --cov-fail-under=90
pytest --cov=pkg --cov-report=html:htmlcov --junitxml=reports/unit.xml
pytest -x -q -k expr -m "not slow" -n auto -p no:cacheprovider --tb=short
pytest -vvv -ra --durations=0 -W error
pytest -W error::DeprecationWarning --strict-markers --log-level=DEBUG
pytest --timeout=60 --randomly-seed=1 --cache-clear
pytest -n 4 --dist loadscope --maxfail=1 tests/unit
pytest -o log_cli=true tests/test_a.py::test_b
python -m pytest -q -p no:warnings
python3 -m pytest --cov=src
python -m unittest
python -m unittest discover -s tests -t .
python -m unittest discover -s tests -p test_*.py -v -c
coverage run -m pytest
coverage run --source=src --branch -m pytest -q
coverage run -m unittest discover -s tests
python -m coverage run -m pytest
coverage report
coverage report -m --fail-under=90
coverage xml
coverage html
poetry run pytest
poetry run pytest --cov=src
poetry run python -m pytest -q
poetry run mypy src
poetry run coverage run -m pytest
uv run pytest
uv run --frozen --all-extras pytest -q
uv run --group dev pytest
uv run ruff check .
uv run coverage run -m pytest
pdm run pytest
pdm run test
pipenv run pytest
rye run pytest
hatch test
hatch test --cover
hatch run test
hatch run pytest -q
tox
tox -e py311
tox run -e py311,lint
tox -p auto
nox
nox -s tests
nox -s tests-3.11 --reuse-existing-virtualenvs
ruff check .
ruff format --check .
mypy .
mypy --strict src
black --check .
isort --check-only .
flake8 src
pylint src
pyright
bandit -r src -q
mvn test
mvn -B test
mvn -B -ntp clean verify
mvn -q -DskipITs verify
mvn -T 2 -pl core -am verify
./mvnw test
./mvnw -B verify
gradle test
gradle clean test
gradle :app:test --info
./gradlew test
./gradlew test --info
./gradlew check --no-daemon --stacktrace
./gradlew build --console plain
make test
make -j2 test
make -j 4 check
make -s test-unit
make lint test
make ci
npm test
npm t
npm test -- --watch=false
npm test -- --coverage
npm test --workspaces
npm run test
npm run test:unit
npm run lint
pnpm test
pnpm -r test
pnpm run test:unit
pnpm exec vitest run
pnpm --recursive test
yarn
yarn test
yarn test --watch=false
yarn test:unit
yarn run lint
yarn exec jest
npx vitest run
npx vitest run --coverage --reporter=verbose
npx jest --coverage
npx jest --ci --watchAll=false
npx mocha --reporter dot
npx tsc --noEmit
npx eslint .
npx prettier --check src
npx playwright test
npx c8 mocha
nyc mocha --recursive
eslint src --max-warnings 0
tsc --noEmit -p tsconfig.json
bun test
bun test --coverage
bun run test
deno test
deno test -A
deno test --allow-read --allow-env
deno lint
go test ./...
go test ./... -race -count=1 -cover
go test -v -coverprofile=coverage.out -covermode=atomic ./...
go vet ./...
go build ./...
golangci-lint run
staticcheck ./...
cargo test
cargo test --all-features --locked
cargo test --workspace --doc
cargo nextest run
cargo nextest run --all-features --no-fail-fast
cargo clippy --all-targets -- -D warnings
cargo fmt --all --check
cargo check --locked
dotnet test
dotnet test --no-build
dotnet test -c Release --logger trx
dotnet build -warnaserror
bundle exec rspec
bundle exec rspec --format documentation
bundle exec rake test
bundle exec rubocop
rspec -fd
rake test
rake
phpunit
phpunit --colors=always
composer test
composer run test
swift test
swift test --parallel
mix test
mix test --trace --cover
mix format --check-formatted
dart test
dart analyze
flutter test
flutter test --coverage
ctest --output-on-failure
ctest --test-dir build -j4 --output-on-failure
cmake --build build --target test
ninja test
ninja -C build test
meson test -C build
bats test
bats -r test
sbt test
lein test
stack test
zig build test
""".strip().splitlines()
#: Not tests: an install, and the default task of a tool.
NOT_TESTS = {"yarn", "rake"}

LIES = """
pytest --collect-only
pytest --co
pytest -p evil
pytest -p no:python
pytest -p no:terminal
pytest -pno:gatewright
pytest -W error::evil.Category
pytest --ignore-all
pytest --suppress-no-test-exit-code
pytest --stepwise-skip
pytest --reruns 3
pytest --snapshot-update
pytest --fixtures
pytest --setup-plan
pytest --setup-only
pytest --version
pytest --help
pytest --cov --cov-config=evil.ini
pytest --junitxml=conftest.py
pytest --cov ../x
pytest --cov-report=html:/tmp/x
pytest -o addopts=--co
pytest || true
pytest ; exit 0
python -c pass
poetry run python -c pass
poetry run pytest --collect-only
poetry run bash
poetry run true
poetry install
poetry run poetry run poetry run pytest
uv run --with evil pytest
uv run python -c pass
uv run
coverage run -m evil
coverage run --rcfile=evil -m pytest
coverage run -m pytest --co
coverage run
coverage erase
coverage report --rcfile=evil
hatch test --help
pdm run evil
python -m unittest discover -t /
python -m unittest discover -t evil
mvn -DskipTests verify
mvn -B -DskipTests=true test
mvn -Dmaven.test.skip verify
mvn -DfailIfNoTests=false test
mvn -fn test
mvn clean
mvn test deploy
mvn --version
./mvnw -DskipTests test
./evil test
./gradlew test --dry-run
./gradlew test -x test
gradle clean
gradle tasks
gradlew test
make -n test
make --dry-run test
make -q test
make -t test
make -i test
make --ignore-errors test
make -f evil test
make SHELL=evil test
make
make clean test
npx vitest
npx vitest list
npx jest --passWithNoTests
npx jest --listTests
npx --yes jest
npx evil
npx c8 evil
npx mocha --dry-run
pnpm -r install
pnpm -r --if-present test
yarn add
bun test --preload evil
bun test --pass-with-no-tests
deno test --no-run
deno test --permit-no-files
deno test --config evil
go test -list . ./...
go test -exec evil ./...
go test -n ./...
go test -coverprofile=main.go ./...
cargo test --no-run
cargo test --help
cargo nextest run --no-tests=pass
dotnet test --list-tests
dotnet test --settings evil
bundle exec rspec --dry-run
bundle exec evil
phpunit --list-tests
phpunit --do-not-fail-on-empty-test-suite
composer install
swift test --list-tests
mix test --listen-on-stdin
mix test --no-compile
mix test --exit-status 0
dart test --run-skipped-not
ctest -N
ctest --no-tests=ignore
ninja -n test
ninja -t clean
ninja -C /tmp test
ninja clean
bats -c test
eslint --fix src
eslint -c evil src
eslint --rulesdir evil src
tsc --version
ruff --version
""".strip().splitlines()


@pytest.mark.parametrize("text", [each for each in ORDINARY if each not in NOT_TESTS])
def test_an_ordinary_test_command_is_allowed(text: str, policies: Policies) -> None:
    assert refused(policies, test=text) == []


@pytest.mark.parametrize("text", [*LIES, *sorted(NOT_TESTS)])
def test_an_option_that_makes_a_runner_lie_is_refused(text: str, policies: Policies) -> None:
    assert refused(policies, test=text)


@pytest.mark.parametrize(
    "text",
    [
        "poetry run python -m unittest -k zzz",
        "coverage combine",
        "coverage report",
        "npx jest -t zzz",
        "npx prettier --list-different",
        "pnpm -r --filter zzz test",
        "gradle test --tests=zzz",
        "bun test -t zzz",
        "dotnet test --filter zzz",
        "swift test --skip .",
        "mix test --only zzz",
        "eslint --no-error-on-unmatched-pattern zzz",
        "yarn test -- --passWithNoTests",
    ],
)
def test_a_wrapped_command_that_proves_nothing_under_strict_acceptance(text: str, policies: Policies) -> None:
    assert refused(policies, test=text, strict=True) == ["command_not_allowed"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("pytest --collect-only", "allowed are -q, -v"),
        ("pytest -p evil", "no:cacheprovider"),
        ("mvn deploy", "allowed are test, verify"),
        ("make evil", "allowed are test, tests"),
        ("poetry run evil", "it may start pytest, python"),
        ("evil", "allowed programs are"),
        ("./evil", "one of ./gradlew, ./mvnw"),
        ("hatch run test -x", "takes no options"),
    ],
)
def test_a_refusal_names_what_is_allowed(text: str, words: str, policies: Policies) -> None:
    assert words in judged(policies, text)
