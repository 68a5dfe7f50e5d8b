# Every target sets itself up: a fresh machine needs Python 3.11+ with its venv module, git and make.
# Beside another Python: make test PYTHON=python3.13 VENV=.venv-3.13
PYTHON ?= python3
VENV ?= .venv
# What the product alone needs, for the demo.
RUNTIME ?= $(VENV)-run
# Where `make install` puts the command, as PREFIX/bin/gatewright.
PREFIX ?= $(HOME)/.local
# Tests that run at once, as most of them wait for other processes; and which: all by default, or files and folders.
WORKERS ?= 5
TESTS ?=
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
COMPILED := $(VENV)/.compiled
PYTEST := $(BIN)/python -m pytest --numprocesses=$(WORKERS) --dist=loadfile --no-loadscope-reorder $(TESTS)
# Another Python's packages are not ours; and modules are compiled once, not in each of the many processes that tests start.
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE VIRTUAL_ENV

# What the product needs, locked.
BUILD_LOCK := deploy/image/requirements-build.lock
PRODUCT := --lean --lock requirements.lock --lock $(BUILD_LOCK)
# What the demo needs of it: the command line and a stack whose roles ask no model.
DEMO_LOCK := requirements-run.lock
# FORCE where PYTHON was given by name and is not the one that made the environment: it is made anew when it is needed.
another = $(if $(findstring command line,$(origin PYTHON)),$(shell '$(PYTHON)' .ci/environment.py $(1) --is-mine 2>/dev/null || echo FORCE))
.PHONY: install uninstall demo test test-ci test-containers test-faults test-all test-agents agents recordings lint release docs chart asyncapi trace bench lock clean

demo: $(RUNTIME)/.ready
	@$(RUNTIME)/bin/python examples/demo/demo.py

# The command alone on PATH, with an environment of its own that nothing else uses.
install:
	@$(USABLE)
	@'$(PYTHON)' .ci/environment.py '$(PREFIX)/share/gatewright' $(PRODUCT) --compile --size "about 390 MB"
	@mkdir -p '$(PREFIX)/bin'
	@ln -sfn '$(PREFIX)/share/gatewright/bin/gatewright' '$(PREFIX)/bin/gatewright'
	@echo "installed $(PREFIX)/bin/gatewright; make uninstall removes it"
	@case ":$$PATH:" in *:"$(PREFIX)/bin":*) ;; *) echo "$(PREFIX)/bin is not on your PATH yet" ;; esac
uninstall:
	rm -rf '$(PREFIX)/share/gatewright' '$(PREFIX)/bin/gatewright'

# All but the long series, containers and real agents; of each table of cases some.
test: $(COMPILED)
	@$(PYTEST) --most-cases=4 --hypothesis-profile=few -m "not long and not compose and not agents"

# What CI plays at every commit: the same and one long test of each kind, then the containers by themselves. A few failed tests are
# played once more, alone; one that is green then is named, and is a defect all the same. After SECONDS no further test is begun,
# and those that failed are named.
SECONDS ?= 7200
FEW := --most-cases=4 --hypothesis-profile=few --one-of-each-series --session-timeout=$(SECONDS)
test-ci: $(COMPILED)
	@$(PYTEST) $(FEW) -m "not agents and not compose" || $(BIN)/python .ci/alone.py $$?
test-containers: $(COMPILED)
	@$(BIN)/python -m pytest $(FEW) -m compose tests/compose

# The long series: everything broken at every point, every file of every bundle changed; and the containers.
test-faults: $(COMPILED)
	@$(PYTEST) -m "long or compose"

# Both at once: the long series wait for clocks and processes, and the others compute meanwhile. Of a series that is long because it
# is played further, the beginning is not played twice.
test-all: $(COMPILED)
	@$(PYTEST) -m "not agents and not short"

# Real coding agents on whole stacks, a scripted server as their only peer; AGENTS="codex or opencode" for some of them. One after
# another: each looks whether any process of an agent is left on this host.
AGENTS ?=
test-agents: $(COMPILED) .agents/.ready
	@$(BIN)/python -m pytest -m agents -k "$(AGENTS)" tests/agents

# The recorded runs of the demo, anew, from a scripted model: after a prompt was changed, or another version of Codex was pinned.
recordings: $(STAMP) .agents/.ready
	@$(BIN)/python -m tests.agents.recordings

# Real coding agents for tests/agents, pinned with digests; about 2 GB. Which registry is npm's own setting. Not `npm ci`: that
# refuses a lock file without the packages of other platforms, which not every registry has.
agents: .agents/.ready
AGENT_PACKAGES := tests/agents/package.json tests/agents/package-lock.json
.agents/.ready: $(AGENT_PACKAGES)
	@command -v npm >/dev/null || { echo "there is no npm here: install Node.js 22 or newer" >&2; exit 1; }
	@mkdir -p .agents && cp $(AGENT_PACKAGES) .agents/
	@cd .agents && npm install --no-audit --no-fund --loglevel=error
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

# A release in dist/: wheel, sdist, image, bill of materials, provenance, SHA256SUMS. WITHOUT=image where there is no container engine;
# RELEASE_KEY=FILE signs the checksums.
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

# The Helm chart, rendered and held to several versions of Kubernetes, in an environment of its own.
chart: .venv-chart/.ready
	@.venv-chart/bin/python deploy/helm/check.py
.venv-chart/.ready: deploy/helm/requirements.lock
	@'$(PYTHON)' -m venv --clear .venv-chart
	@.venv-chart/bin/python -m pip --quiet --disable-pip-version-check install --require-hashes --requirement deploy/helm/requirements.lock
	@touch $@

# The AsyncAPI documents, and that of a ledger in four streams, checked by the AsyncAPI project's own command line; about 450 MB. Not part of `make test`, which holds
# them to that project's JSON Schema.
asyncapi: $(STAMP) .asyncapi/.ready
	@$(BIN)/gatewright topology --format asyncapi --partitions 4 >.asyncapi/partitions.json
	@cd .asyncapi && for each in ../docs/asyncapi/publisher.json ../docs/asyncapi/system.json partitions.json; do \
		CI=true SUPPRESS_NO_CONFIG_WARNING=1 node_modules/.bin/asyncapi validate $$each --fail-severity=warn || exit 1; \
	done
.asyncapi/.ready: tests/asyncapi/package.json
	@command -v npm >/dev/null || { echo "there is no npm here: install Node.js 20 or newer" >&2; exit 1; }
	@mkdir -p .asyncapi && cp tests/asyncapi/package.json .asyncapi/
	@cd .asyncapi && npm install --no-package-lock --no-audit --no-fund --loglevel=error
	@touch $@

# A run told to a collector that is not ours, its names held against the conventions, and drawn: docs/pictures/trace.svg.
trace: $(STAMP) .venv-trace/.ready
	@$(BIN)/python -m tests.tracing.real_collector .venv-trace/bin/phoenix docs/pictures/trace.svg
.venv-trace/.ready:
	@'$(PYTHON)' -m venv --clear .venv-trace
	@.venv-trace/bin/python -m pip --quiet --disable-pip-version-check install arize-phoenix==20.26.1
	@touch $@

# With COMPARE=REF: small and cold runs of that tree and of this one in turns, side by side; JSON=FILE writes them down as well.
COMPARE ?=
JSON ?=
bench: $(STAMP)
ifeq ($(COMPARE),)
	@$(BIN)/python benchmarks/run.py
else
	@$(BIN)/python benchmarks/compare.py '$(COMPARE)' $(if $(JSON),--json '$(JSON)')
endif

# Needs `uv` on PATH; writes hashes, no addresses. It resolves for every Python, and leaves out what no Linux needs: with the system
# as a setting of uv each line would carry it as a marker, and another system would install nothing without a word.
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
	rm -rf .venv .venv-* .agents .asyncapi .demo .site .gatewright .mypy_cache .ruff_cache .pytest_cache .hypothesis

USABLE = command -v '$(PYTHON)' >/dev/null \
	|| { echo "there is no $(PYTHON) here; choose another: make PYTHON=/path/to/python3.12" >&2; exit 1; }; '$(PYTHON)' .ci/usable.py

$(STAMP): requirements-dev.lock pyproject.toml $(call another,$(VENV))
	@$(USABLE)
	@'$(PYTHON)' .ci/environment.py $(VENV) --lock requirements-dev.lock --editable --size "about 720 MB"
	@touch $@

$(RUNTIME)/.ready: $(DEMO_LOCK) $(BUILD_LOCK) pyproject.toml $(call another,$(RUNTIME))
	@$(USABLE)
	@'$(PYTHON)' .ci/environment.py $(RUNTIME) --lean --lock $(DEMO_LOCK) --lock $(BUILD_LOCK) --editable --size "about 200 MB"
	@touch $@

# The modules of the tests: once, or each of the processes that share them would do it at the same time. What is wrong with one
# of them is told by those.
$(COMPILED): $(STAMP)
	@-$(BIN)/python -m pytest --collect-only -qq $(TESTS) >/dev/null 2>&1
	@touch $@

FORCE:
