# indexgrep. `make help` lists the targets; `make run` and `make test` need Python 3.11+, git and make, nothing else.

REPO ?=
PATTERN ?= ^class \w+\(IndexGrepError\)
BENCH_REPO ?=
QUERIES ?=
RUNS ?= 5
PYTEST_ARGS ?=
SECONDS ?= 600
STEPS ?=
SEED ?=
REPLAY ?=

# What the user types reaches the programs as data: literally (a `$` starts no Make variable) and through the
# environment (a quote is nothing to the shell).
$(foreach name,REPO PATTERN BENCH_REPO QUERIES,$(eval override $(name) := $$(value $(name))))
export REPO PATTERN BENCH_REPO QUERIES RUNS

VENV := .venv
BIN := $(VENV)/bin
PYTHON_SOURCES := backend rplugin tests tools benchmarks
LUA_SOURCES := $(wildcard lua plugin tests/nvim tools/run.lua)
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: help run test lint format bench soak clean
.DEFAULT_GOAL := help

help: ## list the targets
	@sed -n 's/^\([a-z]*\):[^#]*## /\1\t/p' $(MAKEFILE_LIST) | \
		awk -F '\t' '{ printf "  make %-8s %s\n", $$1, $$2 }'

run: $(VENV)/.run ## search in Neovim: REPO= (a folder), PATTERN= (a regex); without a terminal, print the answer
	@$(BIN)/python tools/run.py

test: lint ## run the linters and every test: PYTEST_ARGS=
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(VENV)/.dev ## ruff, mypy, import-linter, and stylua and luacheck where they can be had
	$(BIN)/ruff check --quiet $(PYTHON_SOURCES)
	$(BIN)/ruff format --quiet --check $(PYTHON_SOURCES)
	$(BIN)/mypy --package indexgrep --package benchmarks
	$(BIN)/lint-imports --no-logo
	@sh tools/lint-lua.sh check $(LUA_SOURCES)

format: $(VENV)/.dev ## rewrite the sources as the linters want them
	$(BIN)/ruff check --quiet --fix $(PYTHON_SOURCES)
	$(BIN)/ruff format --quiet $(PYTHON_SOURCES)
	@sh tools/lint-lua.sh format $(LUA_SOURCES)

bench: $(VENV)/.bench ## compare with other tools on the Linux source: BENCH_REPO=, QUERIES= (a regex on their names, or `fresh`), RUNS=
	$(BIN)/python -m benchmarks

soak: $(VENV)/.dev ## change small trees at random and kill servers, comparing answers with ripgrep's: SECONDS=, STEPS=, SEED=, or REPLAY= (a file of steps)
	@PYTHONPATH="tests:.$${PYTHONPATH:+:$$PYTHONPATH}" $(BIN)/python -m model.soak --seconds $(SECONDS) \
		$(if $(STEPS),--steps $(STEPS)) $(if $(SEED),--seed $(SEED)) $(if $(REPLAY),--replay '$(REPLAY)')

clean: ## remove what make and the tools made here; indexes in the cache folder stay
	rm -rf $(VENV) build backend/*.egg-info tools/node_modules bench-results
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find backend rplugin tests tools benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# One virtual environment; a stamp for each set of packages in it, renewed when the packaging changes.
$(BIN)/python:
	@PYTHON="$(PYTHON)" sh tools/make-venv.sh $(VENV)

$(VENV)/.run: pyproject.toml | $(BIN)/python
	@echo "installing indexgrep into $(VENV)"
	@$(PIP) --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	@echo "installing indexgrep and what its tests need into $(VENV)"
	@$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.run

$(VENV)/.bench: pyproject.toml | $(BIN)/python
	@echo "installing indexgrep and the tools it is compared with into $(VENV)"
	@$(PIP) --editable '.[bench]'
	@touch $@ $(VENV)/.run
