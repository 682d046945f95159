# Every target sets up what it needs in .venv. `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
BIN := .venv/bin
SETUP := pyproject.toml tools/install.sh
CHECKED := src tests benchmarks tools examples
PROSE := $(CHECKED) docs README.md CONTRIBUTING.md CHANGELOG.md SECURITY.md Makefile mkdocs.yml
# The commands start many processes; without compiled modules each would compile all that it imports.
export PYTHONDONTWRITEBYTECODE :=
# Tests of one file share its fixtures, so a file stays with one worker; tests/conftest.py says which come first.
PYTEST := $(BIN)/pytest -n auto --dist loadfile --no-loadscope-reorder

.PHONY: help install demo test tests-alone test-slow coverage check format docs torture bench tables lock licences pictures release clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

install: .venv/.core ## .venv with seesay in it; EXTRAS=train to train as well

.venv/.core: $(SETUP)
	@tools/install.sh $(EXTRAS)
	@touch $@

.venv/.dev: $(SETUP)
	@tools/install.sh dev,docs
	@touch $@ .venv/.core

demo: .venv/.core ## index and search photographs, then serve the page (PHOTOS=DIR, SERVE=0, PORT=8000)
	@tools/demo.sh

test: check tests-alone ## the checks and the tests; beside each other with make -j2

tests-alone: .venv/.dev
	$(PYTEST)

test-slow: .venv/.dev ## the tests that take minutes, and those in a browser
	@tools/chromium.sh
	@$(BIN)/pip install -q -e '.[cluster]' || \
	    echo "No Ray for this Python: the tests of clusters are skipped."
	$(BIN)/pytest -m "slow or browser"

coverage: .venv/.dev ## the tests with line and branch coverage
	@tools/chromium.sh
	$(PYTEST) --cov --cov-report=term

check: .venv/.dev ## format, lint, types, layers, spelling, fresh tables
	$(BIN)/ruff format --check $(CHECKED)
	$(BIN)/ruff check $(CHECKED)
	$(BIN)/mypy src/seesay benchmarks tools examples
	$(BIN)/lint-imports
	$(BIN)/codespell $(PROSE)
	$(BIN)/python tools/tables.py --check

format: .venv/.dev ## format the code and fix what ruff can
	$(BIN)/ruff check --fix $(CHECKED)
	$(BIN)/ruff format $(CHECKED)

docs: .venv/.dev ## the documentation site, in site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

torture: .venv/.dev ## kills, bombs, damage, hostile clients (SECONDS=900, WRITE=1 fills docs/reliability.md)
	@$(BIN)/pip install -q atheris 2>/dev/null || echo "No atheris for this Python: header readers are not fuzzed by coverage."
	$(BIN)/python -m tools.torture --seconds $(or $(SECONDS),900) $(if $(WRITE),--write)

bench: .venv/.dev ## every benchmark but answers, recorded in results/benchmarks.jsonl
	@$(BIN)/pip install -q sentence-transformers # which benchmarks.peers compares with
	@failed=0; for file in $(filter-out benchmarks/answers.py,$(wildcard benchmarks/[a-z]*.py)); do \
	    name=$$(basename $$file .py); echo "== $$name"; \
	    $(BIN)/python -m benchmarks.$$name --record || failed=1; done; exit $$failed

tables: .venv/.dev ## fill the tables of README and docs from results/
	$(BIN)/python tools/tables.py

lock: .venv/.dev ## deploy/requirements.lock: versions and hashes for the container
	$(BIN)/python tools/lock.py

licences: .venv/.core ## the licences of all that an installation brings (EXTRAS=train)
	@$(BIN)/python tools/licences.py $(EXTRAS)

pictures: .venv/.dev ## pictures of the demo served on port 8000; tools/picture.py says how to take the README's
	$(BIN)/python tools/picture.py docs/images start viewer

release: .venv/.dev ## dist/: a wheel, an sdist and the documentation, checked; the wheel tried alone
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m tools.release

clean: ## remove everything generated, .venv and the demo too
	rm -rf .venv demo dist site .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
