# Two commands do everything on a fresh Debian machine as root: `make demo` and `make test`.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/et-operator
VENV := $(CACHE)/venv-$(shell sha256sum requirements.lock | cut -c1-12)
PY := $(VENV)/bin/python

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 18

demo: $(VENV)/ready ## train, scale while it trains, share a queue, on a cluster of its own (DEMO_CONTEXT=name: on yours)
	@$(PY) -m examples.demo

test: $(VENV)/ready ## everything: check, contract and end-to-end tests on a real cluster; ends with a table
	@$(PY) tests/run.py

test-oldest: $(VENV)/ready ## contract, one scaling and all admission policies on the oldest Kubernetes that is promised
	@$(PY) tests/run.py --oldest

check: $(VENV)/ready ## style, types, layers and unit tests, without those that are long; within a minute when warm
	@PY=$(PY) tests/check.sh

soak: $(VENV)/ready ## long faults of the transport, an hour or SOAK_SECONDS; the result becomes docs/soak.md
	@$(PY) -m tests.soak --page docs/soak.md

specs: $(VENV)/ready up ## thousands of bad manifests on the test cluster (SPECS=n SEED=n); the result becomes docs/specs.md
	@$(PY) -m devcluster images --load && $(PY) -m devcluster deploy
	@$(PY) -m tests.specs --page docs/specs.md

chaos: $(VENV)/ready ## one training, and all that can break, for half an hour (SECONDS=n SEED=n); becomes docs/chaos.md
	@devcluster/prerequisites.sh && $(PY) -m devcluster up --nodes 3
	@$(PY) -m devcluster images --load && $(PY) -m devcluster deploy
	@$(PY) -m tests.chaos $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED)) --page docs/chaos.md

mutants: $(VENV)/ready ## small defects, one at a time: do the tests notice? (MUTANTS=n SEED=n); becomes docs/mutants.md
	@$(PY) -m tests.mutants $(if $(MUTANTS),--mutants $(MUTANTS)) $(if $(SEED),--seed $(SEED)) --page docs/mutants.md

bench: $(VENV)/ready ## measure beside the bare platform, write benchmarks/RESULTS.md (ONLY=figure SAMPLES=n SCALE=1000)
	@$(PY) -m benchmarks $(ONLY) $(if $(SAMPLES),--samples $(SAMPLES)) $(if $(SCALE),--scale $(SCALE))

format: $(VENV)/ready ## put the code into the project's style
	@$(PY) -m ruff format . && $(PY) -m ruff check --fix .

lock: $(VENV)/ready ## write requirements.lock anew from pyproject.toml
	@$(PY) -m uv pip compile pyproject.toml --group dev --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --python-version 3.11 -o requirements.lock

up: $(VENV)/ready ## bring the test cluster up (python -m devcluster for the rest)
	@devcluster/prerequisites.sh && $(PY) -m devcluster up

down: $(VENV)/ready ## take the test cluster down, without a trace; caches stay
	@$(PY) -m devcluster down

$(VENV)/ready: requirements.lock
	@devcluster/prerequisites.sh python
	@mkdir -p $(CACHE) && exec 9>$(CACHE)/venv.lock && flock 9 && tests/venv.sh $(VENV)

.PHONY: help demo test test-oldest check soak specs chaos mutants bench format lock up down
