# Every target makes .venv when it is missing. `make` prints this help.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
# Tests wait for processes for a third of their time: three workers keep two cores busy.
WORKERS ?= 3
# Each of these has an API server, a cluster and an operator.
E2E_WORKERS ?= 2
# The longest files come first: a worker takes a file as a whole, and the last one should not be a long one.
FULL_ORDER := tests/simulation tests/integration tests/contract tests/unit
P ?= tests/unit
K ?=
SEEDS ?= 200
FIRST ?= 0
FAULTS ?=
IMAGES ?=
LEVEL ?=
BUILDER ?= auto

# Python keeps compiled modules even where the environment forbids it: tests start hundreds of processes.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help
help:  ## show this help
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

.venv/.installed: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later is needed; set PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -m tools.venv .venv dev

.PHONY: venv
venv: .venv/.installed  ## make .venv with everything pinned in constraints.txt

# What a broker image has: no packages of developers, so that its memory is measured as it is in production.
.venv-runtime/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -m tools.venv .venv-runtime broker

.venv-docs/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -m tools.venv .venv-docs docs

# Packages that constraints.txt gets newer versions of.
UPGRADE ?=
.venv-pins/.installed: pyproject.toml
	@$(PYTHON) -m tools.venv .venv-pins pins

.PHONY: pins
pins: .venv-pins/.installed  ## write constraints.txt, versions and sums of all packages: make pins UPGRADE="kopf pytest"
	@$(PYTHON) -m tools.renew_pins --upgrade $(UPGRADE)

# The steps below fetch and build whatever tests need. Each can be interrupted, begun again, and run twice at once.
.PHONY: setup
setup:  ## install everything for `make test`: .venv, Java, the example of an observer
	@$(MAKE) --no-print-directory -j2 java observer-plugin

FULL_SETUP := kubernetes oldest-api-server helm s3 go-client client-suites thin-consumer spark-crds flux-crds prometheus previous-release kafka java-clients spark-kafka chromium
.PHONY: setup-all
setup-all: setup  ## install everything for `make test-all`: Apache Kafka, Kubernetes, the CRD check of its oldest supported version, Helm, an S3 server, Go clients, tests of other clients, CRDs of other projects, Prometheus, Chromium, the previous release
	@$(MAKE) --no-print-directory -j2 $(FULL_SETUP)

.PHONY: java
java:  ## Java 17 or later, for Spark and Apache Kafka; installed if it is missing, on Debian as root
	@$(PYTHON) -m tests.support.obtain.java

.PHONY: kafka
kafka: venv java  ## Apache Kafka's jars by Maven
	@$(BIN)/python -m tests.support.obtain.kafka_libs

.PHONY: java-clients
java-clients: venv java  ## Java programs for tests of transactions, Kafka Streams among them; Maven fetches their jars
	@$(BIN)/python -m tests.support.java_clients.programs

.PHONY: spark-kafka
spark-kafka: venv java  ## Spark's connector for Kafka, by Maven
	@$(BIN)/python -m tests.support.obtain.spark_kafka

.PHONY: kubernetes
kubernetes: venv  ## etcd, kube-apiserver, kube-controller-manager and kubectl; the first build takes minutes of Go, later ones use a cache
	@$(BIN)/python -m e2e.cluster.obtain

.PHONY: oldest-api-server
oldest-api-server: venv  ## the CRD check of the oldest supported API server; the first build takes two minutes of Go, later ones use a cache
	@$(BIN)/python -m tests.support.obtain.oldest_api_server

.PHONY: helm
helm: venv  ## Helm, for the chart; the first build takes a minute of Go, later ones use a cache
	@$(BIN)/python -m tests.support.obtain.helm

.PHONY: kind
kind: venv  ## kind and its tools, for clusters of nodes (e2e/README.md), as root on Debian; the first time takes minutes, later ones use a cache
	@$(BIN)/python -m e2e.kind prepare

.PHONY: s3
s3: venv  ## versitygw, an S3 server over a folder; the first build takes a minute of Go, later ones use a cache
	@$(BIN)/python -m tests.support.processes.s3_server

.PHONY: go-client
go-client: venv  ## clients with franz-go and its own tests, for groups, transactions, TLS and SASL; the first build takes a minute of Go, later ones use a cache
	@$(BIN)/python -m tests.support.obtain.go_group_member
	@$(BIN)/python -m tests.support.obtain.go_secured_client
	@$(BIN)/python -m tests.support.obtain.kgo_suite

.PHONY: client-suites
client-suites: venv  ## the tests that sarama and kafka-python have for themselves, and toxiproxy; the first build takes a minute of Go, later ones use a cache
	@$(BIN)/python -m tests.support.obtain.sarama_suite
	@$(BIN)/python -m tests.support.processes.toxiproxy
	@$(BIN)/python -m tests.support.obtain.kafka_python_suite

.PHONY: thin-consumer
thin-consumer: venv  ## examples/thin-consumer, a client of the push protocol; the first build takes seconds of Go, later ones use a cache
	@$(BIN)/python -m tests.support.obtain.thin_consumer

.PHONY: chromium
chromium: venv  ## a headless Chromium that checks reports; installed if it is missing, on Debian as root
	@$(BIN)/python -m tests.support.obtain.chromium

.PHONY: spark-crds
spark-crds: venv  ## the CRDs of kubeflow's Spark operator, by Go's module proxy
	@$(BIN)/python -m tests.support.obtain.crds.spark_operator_crds

.PHONY: flux-crds
flux-crds: venv  ## the CRDs of Flux, by Go's module proxy
	@$(BIN)/python -m tests.support.obtain.crds.flux_crds

.PHONY: prometheus
prometheus: venv  ## Prometheus and promtool from Debian's package, and the CRDs of the Prometheus operator
	@$(BIN)/python -m tests.support.processes.prometheus
	@$(BIN)/python -m tests.support.obtain.crds.prometheus_operator_crds

.PHONY: previous-release
previous-release: venv  ## the source of the previous release, from git's history, for tests of upgrades
	@$(BIN)/python -m tests.support.obtain.previous_release

.PHONY: observer-plugin
observer-plugin: .observer-plugin/.installed  ## the example of a third-party observer (examples/), installed like by its user

.observer-plugin/.installed: $(shell find examples/observer-plugin -name '*.py' -o -name '*.toml') | venv
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --upgrade --target .observer-plugin \
	  ./examples/observer-plugin
	@touch $@

.PHONY: check
check: venv  ## formatting, lint, types, layers, prose
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	PYTHONPATH=.:operator $(BIN)/lint-imports
	$(BIN)/python -m tools.plain_english --most 4
	$(BIN)/python -m tools.docstrings

.PHONY: fmt
fmt: venv  ## format, and apply ruff's fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: test
test: setup check  ## the tests to run first, at most 15 minutes from scratch: unit, contracts, simulation, real brokers, clients and Spark
	$(PYTEST) -q -p no:randomly -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "not full" tests

.PHONY: test-all
test-all: test full e2e nodes  ## all tests: `make test`, and those with Apache Kafka, Go and Java clients, a browser, a real kube-apiserver, real nodes

.PHONY: full
full: setup-all  ## the tests that `make test-all` adds to `make test`, without e2e
	$(PYTEST) -q -p no:randomly -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations=40 --durations-min=10 -m full $(FULL_ORDER)

.PHONY: nodes
nodes: kubernetes helm  ## the short level of the scenarios on a real node; prints the reason if this machine cannot run nodes
	@$(BIN)/python -m e2e.nodes short --where-possible

.PHONY: t
t: venv  ## some tests, in seconds: make t P=tests/unit/broker_runtime/network, or one file; K="some words" selects by name
	@$(PYTEST) -q -p no:randomly $(P) $(if $(K),-k "$(K)")

.PHONY: unit
unit: venv  ## the pure tests of `make test`: unit and simulation
	$(PYTEST) -q -n $(WORKERS) --dist worksteal -m "not full" tests/unit tests/simulation

.PHONY: simulate
simulate: venv  ## whole clusters on virtual time under seeded faults: make simulate SEEDS=1000 FIRST=5000 FAULTS=kill,damage SHAPE=push
	PYTHONPATH=.:operator $(BIN)/python -m tests.simulation.cluster --seeds $(SEEDS) --first $(FIRST) --faults "$(FAULTS)" $(if $(SHAPE),--shape $(SHAPE))

MINUTES ?= 480
TARGET ?=
FRAMES ?= 1000000
.PHONY: fuzz
fuzz: venv  ## search for input that a reader handles wrongly, and send changed requests to brokers: make fuzz MINUTES=60 TARGET=token FRAMES=0
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES) --frames $(if $(TARGET),0,$(FRAMES)) $(foreach name,$(TARGET),--target $(name))

.PHONY: integration
integration: setup  ## the tests of `make test` with real sockets, processes and clients
	$(PYTEST) -q -p no:randomly -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "not full" tests/contract tests/integration

.PHONY: soak
soak: setup-all  ## long tests: brokers, landers and builds of the audit log, and nodes and clients with TLS and SASL, are killed twenty times
	SLUICEGATE_KILL_ROUNDS=20 $(PYTEST) -q -p no:randomly tests/integration/tls/test_secured_kills.py
	SLUICEGATE_AUDIT_ROUNDS=20 $(PYTEST) -q -p no:randomly tests/integration/audit/test_kills.py \
		tests/integration/audit/test_build_kills.py tests/integration/audit/test_arrivals.py

.PHONY: e2e
e2e: venv java kubernetes oldest-api-server helm spark-crds flux-crds prometheus  ## a real kube-apiserver with pods as processes; LEVEL=short or full: on nodes (kind, root)
ifeq ($(LEVEL),)
	@rm -rf reports/used-rights
	$(PYTEST) -q -p no:randomly -n $(E2E_WORKERS) --dist loadfile --no-loadscope-reorder --durations=40 --durations-min=10 e2e
	@PYTHONPATH=.:operator $(BIN)/python -m e2e.world.used_rights
else
	@$(BIN)/python -m e2e.nodes $(LEVEL)
endif

.PHONY: demo
demo: venv java  ## three brokers, a storm, limits that slow it down (one adaptive), what-if on its audit log, a report, a lost coordinator
	PYTHONPATH=.:operator $(BIN)/python -m demo

.PHONY: audit-demo
audit-demo: venv java  ## build results and a report from a million generated events of an audit log, and check them; two minutes
	PYTHONPATH=.:operator $(BIN)/python -m demo.audit_demo

.PHONY: up
up: venv  ## run examples/quickstart on this machine until Ctrl-C
	$(BIN)/sluicegate up -f examples/quickstart -f examples/laptop --watch

.PHONY: image
image: venv  ## images as archives in dist/, on Debian without a builder: make image IMAGES="slim landing client audit"
	@$(BIN)/python -m tools.image --builder $(BUILDER) $(IMAGES)

# For example `--architecture amd64`, `--image none` or `--check-twice --fresh-layers`.
RELEASE ?=
.PHONY: release
release: venv  ## all artefacts of the version of pyproject.toml in dist/, from a clean checkout on Debian: docs/releasing.md
	PYTHONPATH=.:operator $(BIN)/python -m tools.release $(RELEASE)

.PHONY: release-version
release-version: helm  ## write a new version into all files, and head its section of CHANGELOG.md: make release-version VERSION=1.2.3
	@PYTHONPATH=.:operator $(BIN)/python -m tools.release --set-version $(VERSION)
	@$(MAKE) --no-print-directory crds chart
	@PYTHONPATH=.:operator $(BIN)/python tests/unit/sluicegate_operator/resources/test_golden.py
	@PYTHONPATH=.:operator $(BIN)/python tests/integration/chart/test_chart.py

.PHONY: bench
bench: setup-all .venv-runtime/.installed  ## benchmarks against Apache Kafka 4.3.0; writes benchmarks/results/
	$(BIN)/python -m benchmarks

.PHONY: images
images: chromium kubernetes helm prometheus  ## write docs/images/: pictures of the report, of `sluicegate top`, and of dashboards after three minutes of a real cluster
	PYTHONPATH=.:operator $(BIN)/python -m tools.top_pictures
	$(BIN)/python -m tests.support.audit.report_images
	PYTHONPATH=.:operator $(BIN)/python -m e2e.world.dashboard_images

.PHONY: crds
crds: venv  ## write crds/, the generated reference pages and dashboards
	$(BIN)/sluicegate crds --out crds
	$(BIN)/python -m tools.reference
	$(BIN)/python -m tools.dashboards
	PYTHONPATH=.:operator $(BIN)/python -m tools.chart crds

.PHONY: chart
chart: helm  ## write deploy/ and the chart's copy of the CRDs
	PYTHONPATH=.:operator $(BIN)/python -m tools.chart

.PHONY: docs
docs: .venv-docs/.installed  ## build the site into site/, and check its links
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict

.PHONY: clean
clean:  ## remove .venv and caches
	rm -rf reports .observer-plugin .venv .venv.lock .venv-runtime .venv-runtime.lock .venv-docs .venv-docs.lock .venv-pins .venv-pins.lock site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
