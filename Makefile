# Every target sets itself up: a fresh machine needs Python 3.11+, git and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready

.PHONY: demo test lint bench lock clean

demo: $(STAMP)
	@$(BIN)/python examples/demo/demo.py

test: $(STAMP)
	@$(BIN)/python -m pytest

lint: $(STAMP)
	@$(BIN)/ruff check --no-cache .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

bench: $(STAMP)
	@$(BIN)/python benchmarks/run.py

# Needs `uv` on PATH; writes hashes, no addresses.
lock:
	uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate --python-version 3.11 \
		--extra cli --output-file requirements.lock pyproject.toml
	uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate --python-version 3.11 \
		--extra dev --output-file requirements-dev.lock pyproject.toml requirements-build.in
	uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate --python-version 3.12 \
		--output-file deploy/image/requirements-build.lock deploy/image/requirements-build.in

clean:
	rm -rf $(VENV) .demo .gatewright .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(STAMP): requirements-dev.lock pyproject.toml
	@echo "setting up $(VENV) ..."
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements-dev.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	@$(BIN)/python -m gatewright.secrets >/dev/null
	@touch $@
