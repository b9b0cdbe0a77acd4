PYTHON ?= python3
VENV := .venv

.DEFAULT_GOAL := help
.PHONY: help test check

help: ## List the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

$(VENV)/.ready: requirements/dev.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --require-hashes -r requirements/dev.txt
	touch $@

check: $(VENV)/.ready ## Run the static checks
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	PYTHONPATH=. $(VENV)/bin/lint-imports

test: check ## Run the static checks and all tests
	$(VENV)/bin/python -m pytest
