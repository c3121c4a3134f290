# Everything runs in .venv, which is made from requirements.lock on first use.
# Needs: make, git and a Python >= 3.11 with its venv module.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/bash

# The first of these that is >= 3.11 and can make a venv is used. Choose another with `make PYTHON=...`.
PYTHON ?= python3.13 python3.12 python3.11 python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
UV     := $(BIN)/uv
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# tests/conftest.py says which tests share a process, and which begin first.
PYTEST := $(BIN)/python -m pytest --no-loadscope-reorder
# One process more than there are cores: the tests of Spark wait for JVMs most of the time.
BUSY    = $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
ARGS   ?=
# Spark and the tests start many processes: each would compile all it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test quick torture check format bench wheel lock clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

demo: $(STAMP) ## Run the demo: a pipeline on a local Spark, which needs Java 17
	$(BIN)/streamjoin demo $(ARGS)

# The checks need one core for some seconds, which the tests need not wait for.
test: $(STAMP) ## Run all tests, and the checks beside them (ARGS="-k name" selects tests)
	@$(MAKE) --no-print-directory check > $(VENV)/check.log 2>&1 & checks=$$!; \
	$(PYTEST) -n $(BUSY) --durations=25 $(ARGS); tests=$$?; \
	wait $$checks || { cat $(VENV)/check.log; echo "make check failed: see above"; exit 1; }; \
	exit $$tests

quick: check ## The same without the tests that start a JVM, simulate circuits or run benchmarks
	$(PYTEST) -n auto -m "not spark and not hardware and not bench" $(ARGS)

torture: $(STAMP) ## Run the long versions of all tests: every combination, thousands of examples (hours)
	STREAMJOIN_TORTURE=1 $(BIN)/python -m pytest $(ARGS)

check: $(STAMP) ## Lint, formatting, types, and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP) ## Fix formatting and what the linter can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP) ## Run the benchmarks (ARGS="..." goes to `streamjoin bench`)
	$(BIN)/streamjoin bench $(ARGS)

wheel: $(STAMP) ## Build the wheel into dist/
	$(BIN)/python -m build --no-isolation --wheel

# One lock for every supported Python and platform, with the hashes of all files of a release.
lock: $(STAMP) ## Renew requirements.lock (ARGS="--upgrade", or "--upgrade-package numba")
	$(UV) pip compile pyproject.toml --extra dev --universal --python-version 3.11 \
	  --fork-strategy fewest --generate-hashes --no-config --no-emit-index-url --no-emit-find-links \
	  --custom-compile-command "make lock" --output-file requirements.lock --quiet $(ARGS)

clean: ## Remove what was built, the environments included
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# Sets $$python for the rest of the recipe, or says what is missing.
define find_python
old=; novenv=; python=; \
for candidate in $(PYTHON); do \
  command -v "$$candidate" >/dev/null 2>&1 || continue; \
  "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 || { old="$$old $$candidate"; continue; }; \
  "$$candidate" -c 'import venv, ensurepip' >/dev/null 2>&1 || { novenv="$$novenv $$candidate"; continue; }; \
  python="$$candidate"; break; \
done; \
if [ -z "$$python" ]; then \
  if [ -n "$$novenv" ]; then \
    echo "Found$$novenv, but without the venv module. On Debian or Ubuntu: apt install python3-venv" >&2; \
  else \
    echo "streamjoin needs Python 3.11 or newer; looked for: $(PYTHON)$${old:+ (too old or not working:$$old)}." >&2; \
    echo "Install one, or name it: make PYTHON=/path/to/python3" >&2; \
  fi; \
  exit 1; \
fi
endef

# A venv that works is kept and brought up to date; a missing or broken one is made anew. uv is the first package of the
# lock to be installed, and installs the rest at once; where it cannot (pip may know an index that uv does not), pip does.
# Spark comes as sources: its wheel of 400 MB is not compressed only to be unpacked at once. Modules are compiled when
# they are first imported.
$(STAMP): requirements.lock pyproject.toml
	@if ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	  $(find_python); \
	  echo "Making $(VENV) with $$("$$python" --version)"; \
	  "$$python" -m venv --clear $(VENV); \
	fi
	@sed -n '/^uv==/,/# via/p' requirements.lock > $(VENV)/uv.lock
	@$(PIP) --require-hashes -r $(VENV)/uv.lock
	@printf '[bdist_wheel]\ncompression = stored\n' > $(VENV)/build.cfg
	@export DIST_EXTRA_CONFIG=$(CURDIR)/$(VENV)/build.cfg; \
	  echo "Installing requirements.lock"; \
	  $(UV) pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock || \
	  $(PIP) --no-compile --require-hashes -r requirements.lock
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@
