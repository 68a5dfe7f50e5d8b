# Each target creates its environment. It needs Python 3.11+ with its venv module, git and make.
# Use another Python: make test PYTHON=python3.13 VENV=.venv-3.13
PYTHON ?= python3
VENV ?= .venv
# The environment of the demo: the product without development tools.
RUNTIME ?= $(VENV)-run
# `make install` installs PREFIX/bin/gatewright.
PREFIX ?= $(HOME)/.local
# Number of parallel tests (most wait for other processes), and the files and folders to test (default: all).
WORKERS ?= 4
TESTS ?=
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
COMPILED := $(VENV)/.compiled
PYTEST := $(BIN)/python -m pytest --numprocesses=$(WORKERS) --dist=loadfile --no-loadscope-reorder $(TESTS)
# Ignore packages of another Python, and keep compiled modules, which many test processes share.
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE VIRTUAL_ENV

# Locked requirements of the product.
BUILD_LOCK := deploy/image/requirements-build.lock
PRODUCT := --lean --lock requirements.lock --lock $(BUILD_LOCK)
# Locked requirements of the demo: the command line and a stack whose roles call no model.
DEMO_LOCK := requirements-run.lock
# FORCE if the command line sets PYTHON and another Python created the environment; then make replaces it.
another = $(if $(findstring command line,$(origin PYTHON)),$(shell '$(PYTHON)' .ci/environment.py $(1) --is-mine 2>/dev/null || echo FORCE))
.PHONY: install uninstall demo test test-ci test-containers test-faults test-all test-agents agents test-registries registries recordings lint release docs chart asyncapi trace bench lock clean

demo: $(RUNTIME)/.ready
	@$(RUNTIME)/bin/python examples/demo/demo.py

# Install the command on PATH, with its own environment.
install:
	@$(USABLE)
	@'$(PYTHON)' .ci/environment.py '$(PREFIX)/share/gatewright' $(PRODUCT) --compile --size "about 390 MB"
	@mkdir -p '$(PREFIX)/bin'
	@ln -sfn '$(PREFIX)/share/gatewright/bin/gatewright' '$(PREFIX)/bin/gatewright'
	@echo "installed $(PREFIX)/bin/gatewright; make uninstall removes it"
	@case ":$$PATH:" in *:"$(PREFIX)/bin":*) ;; *) echo "$(PREFIX)/bin is not on your PATH: add it" ;; esac
uninstall:
	rm -rf '$(PREFIX)/share/gatewright' '$(PREFIX)/bin/gatewright'

# The quick tests: all except slow and long ones, containers and real agents; at most two cases per test.
test: $(COMPILED)
	@$(PYTEST) --quick --most-cases=2 --hypothesis-profile=few -m "not long and not compose and not agents and not registries"

# The tests of CI: at most four cases of each quick and slow test, one long test of each kind, and containers separately. `.ci/alone.py` runs a few failed tests
# again, alone, and names those that then pass; they are defects too. After SECONDS no further test starts.
SECONDS ?= 7200
FEW := --most-cases=4 --hypothesis-profile=few --one-of-each-series --session-timeout=$(SECONDS)
test-ci: $(COMPILED)
	@$(PYTEST) $(FEW) -m "not agents and not compose and not registries" || $(BIN)/python .ci/alone.py $$?
test-containers: $(COMPILED)
	@$(BIN)/python -m pytest $(FEW) -m compose tests/compose

# The long series (faults at every step, changes of every file of a bundle) and containers.
test-faults: $(COMPILED)
	@$(PYTEST) -m "(long or compose) and not registries"

# All tests except real agents and registries. Short tests that a long test repeats are skipped.
test-all: $(COMPILED)
	@$(PYTEST) -m "not agents and not registries and not short"

# Real coding agents on whole stacks, with a scripted model server. AGENTS="codex or opencode" selects agents. The tests run one
# after another, because each checks that no agent process is left on this host.
AGENTS ?=
test-agents: $(COMPILED) .agents/.ready
	@$(BIN)/python -m pytest -m agents -k "$(AGENTS)" tests/agents

# Record the demo's runs again from a scripted model, after a change of a prompt or of the pinned version of Codex.
recordings: $(STAMP) .agents/.ready
	@$(BIN)/python -m tests.agents.recordings

# Install real coding agents for tests/agents, pinned with digests; about 2 GB. npm's configuration sets the registry. `npm ci`
# would need the packages of all platforms, which not every registry has.
agents: .agents/.ready
AGENT_PACKAGES := tests/agents/package.json tests/agents/package-lock.json
.agents/.ready: $(AGENT_PACKAGES)
	@command -v npm >/dev/null || { echo "npm is not installed: install Node.js 22 or newer" >&2; exit 1; }
	@mkdir -p .agents && cp $(AGENT_PACKAGES) .agents/
	@cd .agents && npm install --no-audit --no-fund --loglevel=error
	@touch $@

# Real package managers and registries on this host. Their Debian packages are unpacked, not installed.
test-registries: $(COMPILED) .registries/.ready
	@$(BIN)/python -m pytest -m registries tests/registries
registries: .registries/.ready
REGISTRY_DEBS := golang-go junit4 libmaven-clean-plugin-java libmaven-compiler-plugin-java libmaven-dependency-plugin-java
REGISTRY_DEBS += libmaven-resources-plugin-java libsurefire-java
.registries/.ready: tests/registries/package.json
	@for each in npm mvn apt-get; do command -v $$each >/dev/null || { echo "$$each is not installed" >&2; exit 1; }; done
	@rm -rf .registries && mkdir -p .registries/node .registries/debian && cp tests/registries/package.json .registries/node/
	@cd .registries/node && npm install --no-package-lock --no-audit --no-fund --loglevel=error
	@'$(PYTHON)' -m venv .registries/python
	@.registries/python/bin/python -m pip --quiet --disable-pip-version-check install devpi-server==6.20.3 uv==0.13.9
	@cd .registries && apt-get install -s --no-install-recommends $(REGISTRY_DEBS) | sed -n 's/^Inst \([^ ]*\).*/\1/p' | xargs -r apt-get download -qq
	@cd .registries && for each in *.deb; do dpkg -x "$$each" debian && rm "$$each" || exit 1; done
	@cp -rL .registries/debian/usr/lib/go-1.* .registries/go && rm -rf .registries/debian/usr/lib/go-1.* .registries/debian/usr/share/go-1.*
	@touch $@

lint: $(STAMP)
	@$(BIN)/python -m ruff check --no-cache .
	@$(BIN)/python -m ruff format --no-cache --check .
	@$(BIN)/python -m mypy
	@$(BIN)/python -m gatewright.contracts.schema_files --check
	@$(BIN)/python .ci/structure.py
	@$(BIN)/python .ci/reference.py --check
	@$(BIN)/python .ci/prose.py
	@$(BIN)/python -c 'import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())' --no-cache

# A release in dist/: wheel, sdist, image, bill of materials, provenance, SHA256SUMS. WITHOUT=image builds no image, without a
# container engine. RELEASE_KEY=FILE signs the checksums.
WITHOUT ?=
release: .venv-release/.ready
	@.venv-release/bin/python .ci/release/build.py dist $(if $(WITHOUT),--without-$(WITHOUT))
.venv-release/.ready: .ci/release/requirements.lock
	@'$(PYTHON)' -m venv --clear .venv-release
	@.venv-release/bin/python -m pip --quiet --disable-pip-version-check install --require-hashes --requirement .ci/release/requirements.lock
	@touch $@

# The documentation as a static site with search: .site/index.html. A broken link fails the build.
docs: .venv-docs/.ready
	@NO_MKDOCS_2_WARNING=1 PYTHONPATH=.ci/site .venv-docs/bin/python -m mkdocs build --config-file .ci/site/mkdocs.yml
.venv-docs/.ready: .ci/site/requirements.lock
	@'$(PYTHON)' -m venv --clear .venv-docs
	@.venv-docs/bin/python -m pip --quiet --disable-pip-version-check install --require-hashes --requirement .ci/site/requirements.lock
	@touch $@

# Check the Helm chart against several versions of Kubernetes, in a separate environment.
chart: .venv-chart/.ready
	@.venv-chart/bin/python deploy/helm/check.py
.venv-chart/.ready: deploy/helm/requirements.lock
	@'$(PYTHON)' -m venv --clear .venv-chart
	@.venv-chart/bin/python -m pip --quiet --disable-pip-version-check install --require-hashes --requirement deploy/helm/requirements.lock
	@touch $@

# Check the AsyncAPI documents, including one with four ledger streams, with the command line of the AsyncAPI project; about 450
# MB. `make test` checks them with the project's JSON Schema instead.
asyncapi: $(STAMP) .asyncapi/.ready
	@$(BIN)/gatewright topology --format asyncapi --partitions 4 >.asyncapi/partitions.json
	@cd .asyncapi && for document in ../docs/asyncapi/publisher.json ../docs/asyncapi/system.json partitions.json; do \
		CI=true SUPPRESS_NO_CONFIG_WARNING=1 node_modules/.bin/asyncapi validate $$document --fail-severity=warn || exit 1; \
	done
.asyncapi/.ready: tests/asyncapi/package.json
	@command -v npm >/dev/null || { echo "npm is not installed: install Node.js 20 or newer" >&2; exit 1; }
	@mkdir -p .asyncapi && cp tests/asyncapi/package.json .asyncapi/
	@cd .asyncapi && npm install --no-package-lock --no-audit --no-fund --loglevel=error
	@touch $@

# Send a run's trace to a third-party collector, check its names against the conventions, and draw docs/pictures/trace.svg.
trace: $(STAMP) .venv-trace/.ready
	@$(BIN)/python -m tests.tracing.real_collector .venv-trace/bin/phoenix docs/pictures/trace.svg
.venv-trace/.ready:
	@'$(PYTHON)' -m venv --clear .venv-trace
	@.venv-trace/bin/python -m pip --quiet --disable-pip-version-check install arize-phoenix==20.26.1
	@touch $@

# COMPARE=REF compares small and cold runs of that tree with this one, alternating; JSON=FILE also writes the results to a file.
COMPARE ?=
JSON ?=
bench: $(STAMP)
ifeq ($(COMPARE),)
	@$(BIN)/python benchmarks/run.py
else
	@$(BIN)/python benchmarks/compare.py '$(COMPARE)' $(if $(JSON),--json '$(JSON)')
endif

# Renew the lock files; needs `uv` on PATH. They have hashes and no URLs, and cover every supported Python. Packages for other
# systems are left out by name: uv's platform setting would add a marker to each line, and other systems would then silently
# install nothing.
OTHER_SYSTEMS := colorama pywin32 httpx2-jsfetch
COMPILE := uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate $(OTHER_SYSTEMS:%=--no-emit-package %) --python-version
lock:
	$(COMPILE) 3.11 --extra cli --extra stores --extra traces --extra hosts --extra console --extra top --output-file requirements.lock pyproject.toml
	$(COMPILE) 3.11 --extra run --output-file $(DEMO_LOCK) pyproject.toml
	$(COMPILE) 3.11 --extra dev --output-file requirements-dev.lock pyproject.toml requirements-build.in
	$(COMPILE) 3.11 --output-file examples/demo/requirements.lock examples/demo/requirements.in
	$(COMPILE) 3.11 --output-file .ci/release/requirements.lock .ci/release/requirements.in
	$(subst --no-emit-package colorama,,$(COMPILE)) 3.11 --output-file .ci/site/requirements.lock .ci/site/requirements.in
	$(COMPILE) 3.11 --output-file deploy/helm/requirements.lock deploy/helm/requirements.in
	$(COMPILE) 3.11 --output-file shared/gatewright/app/environments/pinned_uv.txt shared/gatewright/app/environments/pinned_uv.in
	$(COMPILE) 3.12 --output-file deploy/image/requirements-build.lock deploy/image/requirements-build.in

clean:
	rm -rf .venv .venv-* .agents .registries .asyncapi .demo .site .gatewright .mypy_cache .ruff_cache .pytest_cache .hypothesis

USABLE = command -v '$(PYTHON)' >/dev/null \
	|| { echo "$(PYTHON) is not installed; choose another: make PYTHON=/path/to/python3.12" >&2; exit 1; }; '$(PYTHON)' .ci/usable.py

$(STAMP): requirements-dev.lock pyproject.toml $(call another,$(VENV))
	@$(USABLE)
	@'$(PYTHON)' .ci/environment.py $(VENV) --lock requirements-dev.lock --editable --size "about 720 MB"
	@touch $@

$(RUNTIME)/.ready: $(DEMO_LOCK) $(BUILD_LOCK) pyproject.toml $(call another,$(RUNTIME))
	@$(USABLE)
	@'$(PYTHON)' .ci/environment.py $(RUNTIME) --lean --lock $(DEMO_LOCK) --lock $(BUILD_LOCK) --editable --size "about 200 MB"
	@touch $@

# Compile the test modules once, so that parallel processes need not. The test run reports any errors of the modules.
$(COMPILED): $(STAMP)
	@-$(BIN)/python -m pytest --collect-only -qq $(TESTS) >/dev/null 2>&1
	@touch $@

FORCE:
