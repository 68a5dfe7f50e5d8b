"""Which class of the delivered policy a path is in: one table a class, with names that only look like it."""

from __future__ import annotations

import pytest

from gatewright.ecosystems.runner.names import is_runner_setting, is_test, is_test_data
from gatewright.path_patterns.matcher import PathMatcher
from gatewright.secret_names import IN_REPOSITORIES
from gatewright.services.gatekeeper.policies.load import Policies


def listed(paths: str) -> list[str]:
    return paths.split()


#: Tests of every ecosystem, and what they read or compare with.
TESTS = listed(
    """
    src/test_a.py src/a_test.py tests/data/a.json conftest.py TESTS/x.py src/Test_A.PY tests.py web/a.test.tsx
    web/a.spec.tsx web/a.test.jsx web/a.spec.mts web/a.test.cjs web/a.test.vue web/a.spec.svelte web/__tests__/a.ts
    a-test.js a_spec.coffee types/a.test-d.ts cypress/integration/login.ts cypress/support/commands.js web/login.cy.ts
    e2e/login.ts app/e2e/login.js a.e2e-spec.ts PriceTests.cs src/PriceTest.cs Shop.Tests/Prices.cs
    Shop.UnitTests/Prices.fs PriceTests.vb PriceTests.fs src/test/java/A.java PriceTest.java PriceIT.java
    PriceTestCase.java TestPrice.java PriceSpec.groovy PriceSpec.scala PriceSuite.scala app/src/androidTest/A.kt
    PriceTest.kt HTTPTest.java pkg/price_test.go pkg/testdata/a.txt tests/price.rs src/tests.rs spec/price_spec.rb
    spec/spec_helper.rb spec/support/login.rb test/price_test.rb PriceTest.php PriceCest.php tests/a.phpt
    PriceTests.swift ShopUITests/Login.swift Tests/ShopTests/A.swift test/price_test.exs test/price_test.dart
    lib/price_test.dart price_test.cc price_unittest.cc test_price.c PriceTest.cpp t/basic.t test-price.R price_spec.lua
    PriceSpec.hs runtests.jl price_test.zig price.bats test_price.sh login.robot features/login.feature
    features/step_definitions/login.rb Price.Tests.ps1 Price.t.sol price_SUITE.erl price_test.rego price_test.clj
    a.tftest.hcl test_api.tavern.yaml web/__snapshots__/a.snap a.snap a.golden a.approved.txt A.verified.json
    fixtures/a.json __fixtures__/a.json __mocks__/fs.js spec/cassettes/a.yml goldens/a.txt test-data/a.csv
    """
)
NOT_TESTS = listed(
    """
    src/latest.js src/contest.py Requests.cs HttpRequests.cs Contest.java Latest.java src/attest.go protest.py
    testimonials.tsx src/testing/util.py src/tester.py spec/openapi.yaml specs/petstore.json spec/README.md
    petstore.spec.yaml api_spec.json package.spec PodSpec.java OpenApiSpec.cs GIT.java AUDIT.java features/login.tsx
    feature.py e2e.md cypress.md snapshot.py fixtures.py GoldenRetriever.java golden.py src/manifests/a.yaml
    Requests/a.swift src/detest.rs load-test.md test.txt src/greatest/a.py testament.rb Testimony.kt suite.py
    office-suite.ts src/t/a.py data/test.csv
    """
)
SACRED = listed(
    """
    .env .env.local .env.production config/.ENV server.key deploy.p12 app.keystore release.jks krb5.keytab key.ppk
    vault.kdbx AuthKey.p8 ops.creds id_rsa .ssh/id_ed25519_sk .git-credentials home/.netrc _netrc .pypirc .pgpass
    .my.cnf .htpasswd .vault-token .terraformrc .aws/config .azure/a .gnupg/a .kube/config kubeconfig
    ops/prod.kubeconfig kubeconfig.yaml terraform.tfstate infra/prod.tfstate terraform.tfstate.backup
    service-account.json serviceAccountKey.json application_default_credentials.json .docker/config.json .dockercfg
    secrets.yaml config/secrets.YML credentials.json credentials .config/gcloud/a
    """
)
NOT_SACRED = listed(
    """
    .env.example .env.sample .env.production.example .env.test.sample .env.local.template .env.schema .env.example.local
    src/environment.py .envrc.example charts/shop/templates/secrets.yaml templates/secrets.yml src/secrets.py
    docs/secrets.md src/credentials/store.py id_ed25519.pub id_rsa_deploy.pub authority.pem debug.keystore
    src/kubeconfig.go docs/kubeconfig.md src/tfstate.py keys.json src/keystore.py netrc.py service_account.py src/key.ts
    htpasswd.go
    """
)
#: What runs with the credentials of the forge, or says what people and agents are told: a person approves it.
ASKED = listed(
    """
    .github/workflows/ci.yml .github/actions/a/action.yml .github/dependabot.yml renovate.json .renovaterc CODEOWNERS
    .github/CODEOWNERS docs/CODEOWNERS .gitlab/CODEOWNERS .gitlab-ci.yml ci/build.gitlab-ci.yml .gitlab/ci/a.yml
    .gitlab/jobs/a.yml .circleci/config.yml .travis.yml Jenkinsfile services/shop/Jenkinsfile Jenkinsfile.release
    azure-pipelines.yml azure-pipelines-release.yml .azure-pipelines/a.yml bitbucket-pipelines.yml
    .buildkite/pipeline.yml .drone.yml .drone.star .woodpecker.yaml .woodpecker/a.yml .tekton/push.yaml appveyor.yml
    .cirrus.star .teamcity/settings.kts .semaphore/a.yml codefresh.yml bamboo-specs/bamboo.yml ci/pipeline.yml
    .dagger/main.go dagger.json Earthfile cloudbuild.yaml buildspec.yml .builds/a.yml .zuul.yaml
    .forgejo/workflows/a.yml .gitea/workflows/a.yml bitrise.yml codemagic.yaml .harness/a.yaml .mergify.yml AGENTS.md
    src/CLAUDE.md claude.md GEMINI.md .mcp.json .cursor/rules/a.mdc .cursorrules .gemini/settings.json
    .qwen/settings.json .opencode/agent/a.md opencode.json .agents/a.md .kiro/steering/a.md .windsurf/rules/a.md
    .windsurfrules .clinerules .clinerules/a.md .roo/rules/a.md .roomodes .continue/config.yaml .aider.conf.yml
    .github/copilot-instructions.md .github/agents/a.md .github/prompts/a.prompt.md .github/instructions/a.md
    .github/chatmodes/a.md .vscode/tasks.json .idea/runConfigurations/a.xml
    web/.idea/runConfigurations/a.xml .devcontainer/devcontainer.json
    .zed/tasks.json .junie/guidelines.md .augment/rules/a.md .amazonq/rules/a.md .goosehints .codex/config.toml
    .claude/settings.json pkg/deep/.claude/commands/a.md .kilocode/a.md
    """
)
NOT_ASKED = listed(
    """
    .github/ISSUE_TEMPLATE/bug.md .github/FUNDING.yml .github/pull_request_template.md
    .gitlab/merge_request_templates/a.md src/agents.py docs/agents/a.md agents/a.py src/claude.py docs/gemini.md.txt
    codeowners.py src/renovate.ts ci/README.md docs/ci/pipeline.md src/cursor.py cursor/a.ts src/vscode/a.ts
    .idea/codeStyles/a.xml src/mcp.py dagger.py tekton/a.go docs/AGENTS.rst src/roo.py goose.py src/concourse/a.go
    jenkins.py
    """
)
PROTECTED = listed(
    """
    evals/a.json ruff.toml mypy.ini pyrightconfig.json .flake8 .bandit eslint.config.mts .eslintrc.json biome.json
    .golangci.yml clippy.toml .rubocop.yml phpstan.neon.dist detekt.yml .swiftlint.yml .clang-tidy .shellcheckrc
    .semgrepignore .gitleaks.toml .trivyignore sonar-project.properties codecov.yml .pre-commit-config.yaml
    .husky/pre-commit .githooks/pre-push lefthook.yml .lefthook.toml .lintstagedrc.json .envrc mise.toml .mise.toml
    sitecustomize.py src/usercustomize.py a.pth
    """
)
DEPENDENCIES = listed(
    """
    pyproject.toml setup.py requirements.txt requirements-dev.txt requirements/base.txt api/requirements/dev.in
    dev-requirements.txt constraints.txt Pipfile.lock uv.lock pdm.lock pylock.toml pylock.dev.toml pixi.lock
    package.json bun.lock bun.lockb deno.lock deno.json pnpm-workspace.yaml .yarnrc.yml .npmrc Cargo.lock
    rust-toolchain.toml go.sum go.work vendor/modules.txt Gemfile.lock shop.gemspec composer.lock pom.xml
    build.gradle.kts gradle/libs.versions.toml gradle.lockfile gradle/verification-metadata.xml
    gradle/wrapper/gradle-wrapper.properties build.sbt deps.edn Shop.csproj src/Shop.fsproj packages.lock.json
    Directory.Packages.props NuGet.Config Package.resolved Podfile.lock Cartfile.resolved pubspec.lock mix.lock
    rebar.lock shop.cabal cabal.project.freeze stack.yaml.lock conan.lock vcpkg.json MODULE.bazel MODULE.bazel.lock
    WORKSPACE flake.lock renv.lock cpanfile.snapshot shop.opam shard.lock elm.json build.zig.zon .terraform.lock.hcl
    Chart.lock Manifest.toml .tool-versions
    """
)
PLAIN = listed(
    """
    src/app.py docs/requirements.md src/packages.ts WORKSPACES.md src/lock.py docs/flake.md build.rs CMakeLists.txt
    src/Makefile package.py pip.py src/go.modern requirement.py src/environment.ts manifest.json tsconfig.json
    src/mise.py docs/husky.md eslint.md src/envrc.py ruff.py Dockerfile README.md src/description.py project.json
    """
)


def names(policies: Policies, path: str) -> list[str]:
    return [kind.name for kind in policies.path_classes(path.encode())]


@pytest.mark.parametrize(
    ("kind", "paths"),
    [("protected", TESTS), ("sacred", SACRED), ("ci", ASKED), ("protected", PROTECTED), ("dependencies", DEPENDENCIES)],
    ids=["tests", "sacred", "asked", "settings", "dependencies"],
)
def test_a_path_of_a_class_is_found(kind: str, paths: list[str], policies: Policies) -> None:
    assert [path for path in paths if kind not in names(policies, path)] == []


@pytest.mark.parametrize(
    ("kind", "paths"),
    [("protected", NOT_TESTS), ("sacred", NOT_SACRED), ("ci", NOT_ASKED)],
    ids=["tests", "sacred", "asked"],
)
def test_a_path_that_only_looks_like_one_of_a_class_is_free(kind: str, paths: list[str], policies: Policies) -> None:
    assert [path for path in paths if kind in names(policies, path)] == []


def test_no_retry_line_names_what_is_sacred(policies: Policies) -> None:
    sacred = policies.protected.classes[0]
    known = PathMatcher([IN_REPOSITORIES])
    own = (".git", ".lfsconfig", ".gatewright", "policies")
    decided = ["server.pem", "server.key", "prod.tfvars", ".env.production", "x/prod.tfvars.json"]
    assert [path for path in (*SACRED, *decided) if not known.of(path.encode())] == []
    plain = [each for each in (*sacred.patterns, *sacred.content_decides) if not set("*?![").intersection(each)]
    names = [name for each in plain if not (name := each.removeprefix("**").strip("/")).startswith(own)]
    assert [name for name in names if not known.of(f"a/{name}".encode()) and not known.of(f"a/{name}/b".encode())] == []


@pytest.mark.parametrize("path", ["server.key", "ca.pem", ".env.production", "infra/prod.tfvars", "x.tfvars.json"])
def test_content_decides_where_the_name_is_ambiguous(path: str, policies: Policies) -> None:
    assert policies.content_decides(path.encode())


@pytest.mark.parametrize("path", [".env", ".env.example", ".ssh/a.key", "x.key/.netrc", "x.key/a.py", "a.p12", ".kube/ca.pem"])
def test_content_does_not_acquit_another_sacred_name(path: str, policies: Policies) -> None:
    assert not policies.content_decides(path.encode())


def test_plain_sources_and_pages_are_in_no_class(policies: Policies) -> None:
    assert {path: found for path in PLAIN if (found := names(policies, path))} == {}


def test_policy_reviewer_and_runner_share_one_notion_of_tests(policies: Policies) -> None:
    for path in (*TESTS, *NOT_TESTS):
        by_name = is_test(path.encode()) or is_test_data(path.encode())
        assert by_name is (path in TESTS), path
        assert by_name is ("protected" in names(policies, path)), path
    assert not any(is_runner_setting(path.encode()) for path in TESTS)


@pytest.mark.parametrize(
    "path", [".E\u200cNV", "Claude.MD", ".Mcp.Json", "\u212aubeconfig", "Package.Resolved.", "TE\u017fTS/a", ".GIT-CREDENTIALS"]
)
def test_a_name_that_a_forgiving_file_system_folds_is_found(path: str, policies: Policies) -> None:
    assert names(policies, path) != []
