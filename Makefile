# `make help` lists the targets. `make demo` and `make test` do all the set-up themselves and need
# only Python 3.11 or newer. Another Python: make PYTHON=/path/to/python3.12 test

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := test

# Hundreds of short-lived processes import the packages: compiled once, not by each of them.
unexport PYTHONDONTWRITEBYTECODE
# As the service has it; see monitor/__init__.py.
export OPENBLAS_NUM_THREADS ?= 1
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
CANDIDATES = $(or $(PYTHON),python3.11 python3 python3.12 python3.13 python3.14)
FOR ?=
# More than cores: tests wait for brokers, databases and services most of the time.
WORKERS ?= 4
COVERAGE ?= 1
SEEDS ?=
SEED ?=
ARGS ?=

.PHONY: help demo test test-all test-rest lint docs lock dist sbom try-wheel fuzz chaos soak adversary mutants bench bench-check bench-detection bench-incidents bench-labels clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.installed-demo  ## watch a synthetic router on an embedded broker live [FOR=seconds]
	@exec $(BIN)/slicewatch demo $(if $(FOR),--for $(FOR)) $(ARGS)

# Two suites. `make test` is for every change, `make test-all` for the gate.
PYTEST = $(BIN)/python tests/support/drivers/leave_nothing.py $(BIN)/python -m pytest -q \
	-n $(WORKERS) --dist loadfile --no-loadscope-reorder
MEASURED = BRANCH_COVERAGE=$(COVERAGE) BRANCH_COVERAGE_KEEP=build/coverage.json

# In a new environment the tests are collected once beside the lint, which uses one core: that keeps
# them compiled, or each worker would compile them all when it starts (half a minute each).
test: $(VENV)/.installed-test  ## lint, types, layers and the fast tests, about 8 minutes on two cores [WORKERS=4 COVERAGE=0 ARGS=...]
	@{ [ -e $(VENV)/.compiled ] || $(BIN)/python -m pytest -q --collect-only >/dev/null 2>&1; } & compiling=$$!; \
	  $(MAKE) --no-print-directory lint || { kill $$compiling; exit 1; }; wait $$compiling && touch $(VENV)/.compiled || true
	@echo "== tests: all but those marked full, property tests with a third of their examples"
	@SLICEWATCH_EXAMPLES=0.33 $(MEASURED) $(PYTEST) -m "not full" $(ARGS)

test-all: test test-rest  ## make test, then chaos, attacks, floods, packaging and all examples of property tests

test-rest:
	@echo "== tests marked full, and property tests with all their examples"
	@$(MEASURED) BRANCH_COVERAGE_GO_ON=build/coverage.json $(PYTEST) -m "full or hypothesis" $(ARGS)

lint: $(VENV)/.installed-test  ## run ruff, mypy --strict (tests too) and the check of layers
	@echo "== ruff"
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet . || { echo "run: $(BIN)/ruff format ."; exit 1; }
	@echo "== mypy --strict"
	@$(BIN)/mypy --strict
	@echo "== layers"
	@$(BIN)/lint-imports --no-logo || { echo "the layers are in pyproject.toml, [tool.importlinter]"; exit 1; }

docs: $(VENV)/.installed-test  ## build the documentation as a site into build/site [ARGS=...]
	@$(BIN)/mkdocs build --quiet --strict --config-file deploy/mkdocs.yml --site-dir $(abspath build/site) $(ARGS)
	@echo "== build/site/index.html"

lock:  ## renew requirements.lock, what the image and the gate install, with hashes
	@python3 -m venv build/lock && build/lock/bin/pip --disable-pip-version-check --quiet install 'uv>=0.9,<1'
	@build/lock/bin/uv pip compile --quiet --universal --upgrade --generate-hashes --custom-compile-command "make lock" \
	  --extra avro --extra postgresql --extra librdkafka --output-file requirements.lock pyproject.toml

dist: $(VENV)/.installed-test  ## build sdist and wheel into dist
	@rm -rf dist
	@$(BIN)/python -m build --outdir dist . >/dev/null
	@ls dist

sbom: dist  ## list all that the wheel brings along, as CycloneDX, into dist
	@rm -rf build/sbom && $(BIN)/python -m venv build/sbom
	@build/sbom/bin/python -m pip --disable-pip-version-check --quiet install "$$(ls dist/*.whl)[avro,postgresql,librdkafka]"
	@build/sbom/bin/python -m pip --disable-pip-version-check --quiet uninstall --yes pip setuptools
	@$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --of JSON --sv 1.6 \
	  --output-file dist/slicewatch.cdx.json build/sbom/bin/python
	@echo "dist/slicewatch.cdx.json"

# Those of pyproject.toml. One that is not on this machine is said and left out.
PYTHONS ?= python3.11 python3.12 python3.13 python3.14
try-wheel: dist  ## install the wheel on several Pythons and run it [PYTHONS="python3.11 ..." ARGS=--all]
	@$(BIN)/python tests/support/drivers/try_wheel.py dist/*.whl $(PYTHONS) $(ARGS)

fuzz: $(VENV)/.installed-test  ## test with random malformed events, settings and files [FOR=seconds]
	@$(BIN)/python tests/fuzz/fuzz.py $(if $(FOR),--for $(FOR)) $(ARGS)

chaos: $(VENV)/.installed-test  ## random failures on Apache Kafka; counts must stay exact [SEEDS=20 SEED=n ARGS=--steps]
	@$(BIN)/python tests/chaos/storms.py $(if $(SEEDS),--seeds $(SEEDS)) $(if $(SEED),--seed $(SEED)) $(ARGS)

soak: $(VENV)/.installed-test  ## measure memory, series and lag in a long run under load
	@$(BIN)/python tests/support/drivers/soak.py $(ARGS)

adversary: $(VENV)/.installed-test  ## attack published tables by integer programs and climbs [SEED=n ARGS="--worlds 50"]
	@cd tests/support && exec $(abspath $(BIN))/python -m adversary.table_campaign $(if $(SEED),--seed $(SEED)) $(ARGS)

mutants: $(VENV)/.installed-test  ## break 200 lines, one at a time, to see the tests fail (hours) [SEED=n ARGS=--fast]
	@PYTHONPATH=tests/support/drivers nice -n 10 $(BIN)/python tests/mutants/run_mutants.py $(if $(SEED),--seed $(SEED)) $(ARGS)

# Results are kept with commit and day, and the tables of the docs are rendered from them.
bench: $(VENV)/.installed-bench  ## measure speed, as ratios within one run [FOR=run ARGS=--small]
	@for part in $(or $(FOR),run memory refresh growth beside scale disk tables); do \
	  echo "== $$part"; $(BIN)/python "tests/bench/bench_$$part.py" $(ARGS) || exit 1; done
	@$(BIN)/python tests/bench/performance_page.py

bench-check: $(VENV)/.installed-test  ## measure a small version, and fail 20 % below what the docs say
	@$(BIN)/python tests/bench/bench_run.py --small --check $(ARGS)

bench-detection: $(VENV)/.installed-test  ## compare false pages and delays with other rules (ten minutes)
	@$(BIN)/python tests/bench/bench_detection.py $(if $(SEED),--seed $(SEED)) $(ARGS)

bench-incidents: $(VENV)/.installed-test  ## check that planted causes are found (an hour) [ARGS="--seeds 20"]
	@$(BIN)/python tests/bench/bench_incidents.py $(ARGS)

bench-labels: $(VENV)/.installed-test  ## count false pages where labels vanish or come in clusters (an hour) [ARGS="--seeds 5"]
	@$(BIN)/python tests/bench/bench_labels.py $(ARGS)

clean:  ## remove the environment and all caches
	@rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps: installed again only when pyproject.toml changes. The install is editable, so a
# change of the code needs nothing.
$(VENV)/.installed-demo: pyproject.toml $(BIN)/python
	@echo "== installing slicewatch and what the demo needs into $(VENV) (once)"
	@$(PIP) install --editable '.[demo]'
	@touch $@

$(VENV)/.installed-test: pyproject.toml $(BIN)/python
	@echo "== installing slicewatch and what the tests need into $(VENV) (once; a minute or two)"
	@$(PIP) install --editable '.[demo,test]'
	@touch $@ $(VENV)/.installed-demo

$(VENV)/.installed-bench: $(VENV)/.installed-test
	@echo "== installing what slicewatch is measured beside into $(VENV) (once)"
	@$(PIP) install --editable '.[bench]'
	@touch $@

# Versioned names first: a plain python3 may be older. Each candidate is run, since a version
# manager's shim may exist for a version that does not.
$(BIN)/python:
	@for one in $(CANDIDATES); do \
	  if "$$one" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$one; break; fi; \
	done; \
	if [ -z "$${found:-}" ]; then \
	  echo "slicewatch needs Python 3.11 or newer and found none (tried: $(CANDIDATES))." >&2; \
	  echo "Install it, or name one: make PYTHON=/path/to/python3.11" >&2; exit 1; fi; \
	echo "== making $(VENV) with $$("$$found" --version)"; \
	"$$found" -m venv "$(VENV)" || { rm -rf "$(VENV)"; \
	  echo "Python's venv module is incomplete. Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
