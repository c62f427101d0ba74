# Everything a person or CI does with this repository. `make` or `make help` lists it.
#
# A bare machine needs Python 3.11 or newer and make. The locked requirements go into .venv, and again only when the lock changed:
# the stamp file's name holds the lock's checksum.

PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$name && exit; done; echo python3)
IN_VENV := .venv/bin/python
PIP_INSTALL := $(IN_VENV) -m pip install -qq --disable-pip-version-check --no-input --require-hashes --no-deps
checksum = $(shell cksum < $(1) | tr ' ' '-')
RUN_STAMP := .venv/.installed-run-$(call checksum,requirements.txt)
DEV_STAMP := .venv/.installed-dev-$(call checksum,requirements-dev.txt)
# A .venv whose Python was removed or upgraded away, or that was never finished, is made anew.
ifneq ($(filter up demo test chaos bench check format lock,$(MAKECMDGOALS)),)
ifneq ($(shell $(IN_VENV) -c 'import pip, sys; print(sys.version_info >= (3, 11))' 2>/dev/null),True)
$(shell rm -rf .venv)
endif
endif

# Paths of zones come from the locked tzdata alone, on every machine alike.
export PYTHONTZPATH =
# Eight processes that each compile the application anew take twice as long to start.
unexport PYTHONDONTWRITEBYTECODE
# Most tests wait for processes, so two at a time; each of the two has its own databases.
PARALLEL ?= 2

.PHONY: help up demo test chaos bench check format lock clean
.DEFAULT_GOAL := help

help:  ## Show this list
	@echo "Punctual: make what?"
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  \1\t\2/p' Makefile
	@echo "PORT, RECEIVER_PORT and DATA_DIR move what 'make up' and 'make demo' start, as in: make up PORT=5000"

up: $(RUN_STAMP)  ## Run everything here: databases, web, worker, scheduler, demo receiver (Ctrl-C stops it)
	@$(IN_VENV) -m flask --app wsgi up

demo: $(RUN_STAMP)  ## The same with a day of made-up jobs and cron entries, for a look at the dashboard
	@$(IN_VENV) -m flask --app wsgi up --demo

test: $(DEV_STAMP)  ## Run the tests on throw-away databases; ARGS goes to pytest: make test ARGS='-k cron'
	@$(IN_VENV) -m pytest -n $(PARALLEL) $(ARGS)

chaos: $(DEV_STAMP)  ## Break everything under load and count what is lost: make chaos ARGS='--jobs 20000 --faults 100 --seed 1'
	@$(IN_VENV) -m tests.chaos $(ARGS)

bench: $(DEV_STAMP)  ## Measure: make bench ARGS='pages --jobs 1000000' or ARGS=cron_burst
	@$(IN_VENV) -m bench $(ARGS)

check: $(DEV_STAMP)  ## Lint, formatting, types
	@$(IN_VENV) -m ruff check .
	@$(IN_VENV) -m ruff format --check .
	@$(IN_VENV) -m mypy --strict app worker scheduler

format: $(DEV_STAMP)  ## Put the code into its format
	@$(IN_VENV) -m ruff format .
	@$(IN_VENV) -m ruff check --fix .

UV_COMPILE = $(IN_VENV) -m uv pip compile --quiet --universal --generate-hashes --python-version 3.11 \
	--no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock'
lock: $(DEV_STAMP)  ## Write requirements.txt and requirements-dev.txt anew from pyproject.toml (UPGRADE=1: newest releases)
	@$(UV_COMPILE) $(if $(UPGRADE),--upgrade) --extra embedded pyproject.toml -o requirements.txt
	@$(UV_COMPILE) $(if $(UPGRADE),--upgrade) --all-extras -c requirements.txt pyproject.toml -o requirements-dev.txt

clean:  ## Remove .venv and caches; the data in DATA_DIR stays
	rm -rf .venv .cache .ruff_cache .mypy_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(IN_VENV):
	@$(PYTHON) -c 'import sys' 2>/dev/null || \
		{ echo "Python is missing: install Python 3.11 or newer, then run make again."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Punctual needs Python 3.11 or newer, and $(PYTHON) is `$(PYTHON) -V`: install one (or name it: make up PYTHON=python3.12)."; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
		{ echo "Python's venv module is missing: install it (Debian and Ubuntu: apt-get install python3-venv), then run make again."; exit 1; }
	@rm -rf .venv
	@$(PYTHON) -m venv .venv

$(RUN_STAMP): | $(IN_VENV)
	@echo "Installing the locked requirements into .venv ..."
	@$(PIP_INSTALL) -r requirements.txt || { echo "The requirements could not be installed: is a package index reachable?"; exit 1; }
	@rm -f .venv/.installed-run-* && touch $@

# The development lock holds all of the other one, in the same versions.
$(DEV_STAMP): | $(IN_VENV)
	@echo "Installing the locked development requirements into .venv ..."
	@$(PIP_INSTALL) -r requirements-dev.txt || { echo "The requirements could not be installed: is a package index reachable?"; exit 1; }
	@rm -f .venv/.installed-* && touch $@ $(RUN_STAMP)
