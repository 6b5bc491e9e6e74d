# Every target sets up what it needs in .venv: locked and hashed dependencies, then this package in place.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
WORKERS ?= 2

.PHONY: soak bench live live-transformers live-llama.cpp live-vllm help demo test check format lint types contracts reference finds bisect-commits lock clean
help: ## what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "kvstress needs Python 3.11 or newer: make PYTHON=python3.11 …"; exit 2; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "this Python cannot make virtual environments: on Debian, apt install python3-venv"; exit 2; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.run: requirements.lock pyproject.toml | $(BIN)/python
	@echo "setting up $(VENV) (once, about a minute) …"
	@$(PIP) install --require-hashes -r requirements.lock
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: requirements-dev.lock pyproject.toml | $(BIN)/python
	@echo "setting up $(VENV) for development (once, about a minute) …"
	@$(PIP) install --require-hashes -r requirements-dev.lock
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@ $(VENV)/.run

demo: $(VENV)/.run ## find the planted bug in the embedded reference server, and say where the report is
	@$(BIN)/kvstress run --server 'reference --memory-limit 50G' --workload speedbench --out reports/demo --overwrite; code=$$?; \
	if test $$code -eq 1; then echo "kvstress exited 1, as it should: it found the bug"; \
	else echo "kvstress exited $$code, and 1 was expected: the demonstration did not work"; exit 1; fi

test: $(VENV)/.dev ## the test suite
	@$(BIN)/python -m pytest -n $(WORKERS)

check: format lint types contracts test ## what CI runs

format: $(VENV)/.dev ## is the code formatted? (ruff format --diff)
	@$(BIN)/ruff format --check .

lint: $(VENV)/.dev
	@$(BIN)/ruff check .

types: $(VENV)/.dev
	@$(BIN)/mypy

contracts: $(VENV)/.dev ## who may import whom
	@$(BIN)/lint-imports

soak: $(VENV)/.dev ## a day of a million requests in virtual time: the slope of kvstress' own memory (about half an hour)
	@$(BIN)/python -m tests.soak

lock: ## renew both lock files (needs uv)
	uv pip compile pyproject.toml --group build --generate-hashes --no-header --no-annotate --no-emit-index-url --universal --python-version 3.11 -o requirements.lock
	uv pip compile pyproject.toml --group build --group dev --all-extras --generate-hashes --no-header --no-annotate --no-emit-index-url --universal --python-version 3.11 -o requirements-dev.lock

clean: ## remove the environment and default reports
	rm -rf $(VENV) reports/runs reports/demo

reference: $(VENV)/.run ## the reference server beside the report it is built from (reports/reference, under 20 minutes)
	@$(BIN)/python -m tests.reference.campaign

bisect-commits: $(VENV)/.dev ## git bisect over 32 commits of a small repository, one of which took the fix out (half a minute)
	@$(BIN)/python -m tests.gate.bisect_commits

live: $(VENV)/.dev ## real engines, each installed on demand outside the tree: a table of what came of every case
	@$(BIN)/python -m tests.live

live-transformers live-llama.cpp live-vllm: live-%: $(VENV)/.dev ## leave that engine running, and say how to stress it
	@$(BIN)/python -m tests.live.serve $*

live-healthy live-hybrid: live-%: $(VENV)/.dev ## many short runs on engines with nothing planted: alarms, requests, armed oracle-runs, the 95 % bound
	@$(BIN)/python -m tests.live.campaign $*

bench: $(VENV)/.dev ## CPU per streamed event beside bare httpx and installed peers, timing errors, start-up, re-judging (15 minutes)
	@$(BIN)/python -m tests.bench

finds: $(VENV)/.run ## planted defects and harmless habits against the table of who must find them (under 5 minutes; SEED=1)
	@$(BIN)/python -m tests.finds --seed $(or $(SEED),0)
