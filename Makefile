# Every target makes .venv when it is missing. `make` prints this help.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
WORKERS ?= 2
SEEDS ?= 200
FIRST ?= 0

.PHONY: help
help:  ## show this help
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

.venv/.installed: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later is needed; set PYTHON=/path/to/python3" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

.PHONY: venv
venv: .venv/.installed  ## make .venv with everything pinned in constraints.txt

# What a broker image has: no packages of developers, so that its memory is measured as it is in production.
.venv-runtime/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-runtime
	.venv-runtime/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[broker]'
	touch $@

.PHONY: check
check: venv  ## formatting, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	PYTHONPATH=.:operator $(BIN)/lint-imports

.PHONY: fmt
fmt: venv  ## format and mend what ruff can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: test
test: check unit integration e2e  ## everything: what CI runs

.PHONY: unit
unit: venv  ## pure tests: unit, contracts in memory, simulation
	$(PYTEST) -q -n $(WORKERS) tests/unit tests/simulation

.PHONY: simulate
simulate: venv  ## whole clusters on virtual time under seeded faults: make simulate SEEDS=1000 FIRST=5000
	PYTHONPATH=.:operator $(BIN)/python -m tests.simulation.cluster --seeds $(SEEDS) --first $(FIRST)

.PHONY: integration
integration: venv  ## real sockets, processes and clients; Apache Kafka beside ours
	$(PYTEST) -q -p no:randomly tests/contract tests/integration

.PHONY: e2e
e2e: venv  ## a real kube-apiserver, kopf, StatefulSets, pods as processes, brokers
	$(BIN)/python -m e2e.cluster.obtain
	$(PYTEST) -q -p no:randomly e2e

.PHONY: demo
demo: venv  ## three brokers, a storm, a limit that holds it back; ends by itself
	PYTHONPATH=.:operator $(BIN)/python -m demo

.PHONY: up
up: venv  ## run examples/quickstart on this machine until Ctrl-C
	$(BIN)/sluicegate up -f examples/quickstart --watch

.PHONY: bench
bench: venv .venv-runtime/.installed  ## side by side with Apache Kafka 4.3.0; writes benchmarks/results/
	$(BIN)/python -m benchmarks

.PHONY: crds
crds: venv  ## write crds/ and the generated reference pages
	$(BIN)/sluicegate crds --out crds
	$(BIN)/python -m tools.reference

.PHONY: clean
clean:  ## remove .venv and caches
	rm -rf .venv .venv-runtime .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
