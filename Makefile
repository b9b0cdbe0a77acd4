PYTHON ?= python3
VENV := .venv
CLUSTER := $(VENV)/bin/python -m tools.localcluster
KEEP ?=
DEMO ?= .demo
TESTS ?=
# These take the API server down, or fill the machine: they run after the others.
FAULTS := tests/faults tests/cases/test_outages.py

.DEFAULT_GOAL := help
.PHONY: help demo demo-down test unit check cluster-build

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(VENV)/.ready: requirements/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; say which with make PYTHON=…")'
	$(PYTHON) -m venv --clear $(VENV)
	$(VENV)/bin/python -m pip install --quiet --require-hashes -r requirements/dev.txt
	touch $@

demo: $(VENV)/.ready ## Show the main job on a local control plane (KEEP=1 leaves it running)
ifeq ($(KEEP),)
	$(CLUSTER) run -- $(VENV)/bin/python -m tools.demo
else
	$(CLUSTER) up --state $(DEMO)/cluster
	@# Not under `run`, which leaves nothing running.
	eval "$$($(CLUSTER) up --state $(DEMO)/cluster | grep '^export ')" && \
		DEMO_LOG=$(DEMO)/operator.log $(VENV)/bin/python -m tools.demo --keep
	@echo 'export KUBECONFIG=$(abspath $(DEMO))/cluster/kubeconfig'
	@echo 'It runs until `make demo-down`.'
endif

demo-down: $(VENV)/.ready ## End what `make demo KEEP=1` left running
	-kill $$(cat $(DEMO)/operator.pid)
	$(CLUSTER) down --state $(DEMO)/cluster
	rm -rf $(DEMO)

# kstatus itself (what kubectl-like tools, Argo CD and Flux judge by), to hold our rules of health against.
JUDGE := .judge/kstatus
$(JUDGE): $(wildcard tests/judge/kstatus/*)
	cd tests/judge/kstatus && CGO_ENABLED=0 go build -trimpath -o $(CURDIR)/$@ .

test: check $(JUDGE) ## Run the static checks and all tests, on local control planes
	KSTATUS_JUDGE=$(CURDIR)/$(JUDGE) $(CLUSTER) run --audit -- $(VENV)/bin/python -m pytest -n 3 --dist worksteal \
		$(if $(TESTS),$(TESTS),$(FAULTS:%=--ignore=%))
	$(if $(TESTS),,$(MAKE) test-faults)

unit: $(VENV)/.ready ## Run the tests that need neither cluster nor helm
	$(VENV)/bin/python -m pytest -m 'not cluster and not helm' $(TESTS)

check: $(VENV)/.ready ## Run the static checks
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	PYTHONPATH=. $(VENV)/bin/lint-imports
	$(VENV)/bin/hadolint Dockerfile

cluster-build: $(VENV)/.ready ## Build the local control plane and helm (done by demo and test when needed)
	$(CLUSTER) build

.PHONY: test-faults soak fuzz
SEQUENCES ?= 200

test-faults: $(VENV)/.ready ## Outages, random sequences of faults, the search for secrets (FAULT_SEED=n plays one again)
	$(CLUSTER) run -- $(VENV)/bin/python -m pytest -n 2 --dist worksteal \
		$(if $(FAULT_SEED),tests/faults/test_sequences.py,$(FAULTS))

soak: $(VENV)/.ready ## Many sequences of faults, each time others (SEQUENCES=200, FAULT_FIRST=seed)
	first=$${FAULT_FIRST:-$$(date +%s)}; echo "seeds from $$first on"; \
	FAULT_FIRST=$$first FAULT_SEQUENCES=$(SEQUENCES) $(CLUSTER) run -- \
		$(VENV)/bin/python -m pytest -n 2 --dist worksteal tests/faults/test_sequences.py

FUZZ_EXAMPLES ?= 20000

fuzz: $(VENV)/.ready ## Random watches.yaml, charts, records and words of Helm (FUZZ_EXAMPLES=20000 of each)
	FUZZ_EXAMPLES=$(FUZZ_EXAMPLES) $(VENV)/bin/python -m pytest -n 2 --timeout 3600 tests/unit/test_fuzz.py
