# Everything a person or a pipeline does here. `make help` lists it; every target sets up what it needs.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# The interpreter the environment is made with: any Python from 3.11 on. Nothing else has to be installed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
GROVE := $(BIN)/grove
READY := $(VENV)/.ready

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1

##@ Start here

.PHONY: help
help: ## List the targets
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: setup
setup: $(READY) ## Make .venv from the locked dependencies; nothing to do when it is current

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Grove needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(BIN)/python -c 'import pip' 2>/dev/null || $(PYTHON) -m venv --clear $(VENV) || { \
		rm -rf $(VENV); echo "Python's venv module does not work here (on Debian: apt install python3-venv)" >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

# The demo: a cluster of four racks with the operator, and a disaggregated inference system on it.
DEMO_SAMPLE = examples/disaggregated-inference.yaml

.PHONY: demo
demo: $(READY) ## Start a local cluster with a sample workload and leave it running
	@$(GROVE) local up --nodes 16 --racks 4 --gpus 8 --operator
	@$(GROVE) local kubectl -- apply -f $(DEMO_SAMPLE)
	@export KUBECONFIG="$$($(GROVE) local kubeconfig)" && \
		$(GROVE) rollout status inference --timeout 120s && \
		$(GROVE) local kubectl -- wait pod --selector app.kubernetes.io/part-of=inference \
			--for condition=Ready --timeout 120s >/dev/null && \
		$(GROVE) get inference
	@echo
	@echo "Use   export KUBECONFIG=\"\$$($(GROVE) local kubeconfig)\""
	@echo "Try   $(GROVE) topology     $(GROVE) explain inference     $(GROVE) rollout restart inference"
	@echo "Stop  make demo-stop"

.PHONY: demo-stop
demo-stop: $(READY) ## Stop the demo; no process stays behind
	@$(GROVE) local down

##@ Check

.PHONY: test
test: check test-campaign test-cluster ## Run everything, the tests on a real cluster included

.PHONY: check
check: lint types layers test-fast ## Run all that needs no cluster

.PHONY: lint
lint: $(READY) ## Lint, and check the formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

.PHONY: format
format: $(READY) ## Format, and repair what the linter can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: types
types: $(READY) ## Check the types
	$(BIN)/mypy --strict src

.PHONY: layers
layers: $(READY) ## Check which room imports which (.importlinter)
	$(BIN)/lint-imports

# More options for pytest: make test-fast ARGS="-k rollout --seeds 10000"
ARGS ?=

.PHONY: test-fast
test-fast: $(READY) ## Run the tests that need no cluster, within a minute
	$(BIN)/pytest -m "not cluster and not campaign" -n auto $(ARGS)

.PHONY: test-campaign
test-campaign: $(READY) ## Run thousands of simulated seeds with faults; ARGS="--seeds 10000" for more
	$(BIN)/pytest -m campaign -n auto $(ARGS)

.PHONY: test-cluster
test-cluster: $(READY) ## Run the tests on a real cluster; builds its programs the first time
	$(BIN)/pytest -m cluster $(ARGS)

##@ Measure

.PHONY: bench
bench: $(READY) ## Run all benchmarks; those on a cluster of 100 nodes last
	for file in bench/*_bench.py; do echo "== $$file"; $(BIN)/python $$file; done
	$(GROVE) bench

.PHONY: bench-runtime
bench-runtime: $(READY) ## Measure client, watch, store and queue
	$(BIN)/python bench/runtime_bench.py

.PHONY: bench-admission
bench-admission: $(READY) ## Measure the admission rules and their server
	$(BIN)/python bench/admission_bench.py

##@ Maintain

.PHONY: generate
generate: $(READY) ## Render deploy/crds from the types
	$(BIN)/python -m grove.api.crd

.PHONY: clean
clean: ## Remove the environment and all caches of this folder
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis dist
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
