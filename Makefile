# The common jobs. `make run` and `make test` set everything up by themselves, each what it needs; they
# need Python 3.11 or newer (with venv) and nothing else.

VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
INSTALLED := $(VENV)/installed
PYTEST_ARGS ?=
QUICK := units/test_parse units/test_pretty golden/test_golden contracts/test_call contracts/test_arguments \
    contracts/test_array programs/test_programs contracts/test_large contracts/test_files \
    contracts/test_files_text

# The first interpreter that really runs and is new enough; `make PYTHON=...` takes another.
works = $(shell $(1) -c 'import sys, venv, ensurepip; sys.version_info >= (3, 11) and print("$(1)")' \
            2>/dev/null)
PYTHON ?= $(or $(call works,python3),$(call works,python3.13),$(call works,python3.12),\
            $(call works,python3.11))

.PHONY: run test quick lint contract check docs bench bench-quick editors format clean
.DEFAULT_GOAL := run

run: $(READY)  ## the main job: run a program
	$(BIN)/finch run examples/spmv.finch

# On all cores, of which `PYTEST_ARGS="-n 0"` takes one; unbuffered, so that a log shows how far it is.
test: $(INSTALLED)  ## the whole suite
	$(BIN)/python -u -m pytest -n logical --dist worksteal $(PYTEST_ARGS)

# What finds most faults in least time (`tests/campaigns/mutate.py` says which), with no native code optimised.
quick: $(INSTALLED)  ## a part of the suite, in a minute
	$(BIN)/python -u -m pytest -q -n logical --dist worksteal -m "not slow" \
	    $(QUICK:%=tests/%.py) $(PYTEST_ARGS)

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/mypy finchlang repl

contract: $(INSTALLED)  ## who may import whom, and how long a file may be
	$(BIN)/python -m pytest -q tests/product/test_layout.py

check: lint contract test  ## what must pass before a change lands

bench: $(INSTALLED)  ## a table of times beside other libraries and C, and the performance goals
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	$(BIN)/python -m pytest -q tests/benchmarks $(PYTEST_ARGS)

bench-quick: $(INSTALLED)  ## one data set for each benchmark, without the peers that are not there
	$(BIN)/python -m pytest -q tests/benchmarks --quick $(PYTEST_ARGS)

editors: $(INSTALLED)  ## what editors know of the words, from the grammar
	$(BIN)/python editors/generate.py

docs: $(INSTALLED)  ## the documentation as pages, in build/site; a link to nowhere is an error
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# A stale build/ would bring deleted modules back into a wheel.
clean:
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +

$(READY): pyproject.toml
	@test -n "$(PYTHON)" || { echo "finchlang needs Python 3.11 or newer with venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(INSTALLED): $(READY)
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	@touch $@
