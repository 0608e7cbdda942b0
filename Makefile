# The verbs of this project; a bare `make` lists them. All of them need python3 >= 3.11
# with venv, make and the package index, and nothing else; test-brokers, test-browser and
# lock say what they need beside that.
.DEFAULT_GOAL := help
.PHONY: help setup demo up test unit test-brokers test-browser bench chaos chaos-mutants check fmt docs lock

BIN := .venv/bin
PYTHON_RUN := $(BIN)/python
# the local environment unless the caller says otherwise: secrets are made, not asked for
export PM_ENV ?= local
export PATH := $(CURDIR)/$(BIN):$(PATH)
# bytecode is kept, as by default: a process starts in two thirds of the time
unexport PYTHONDONTWRITEBYTECODE

TESTS ?= tests
WORKERS ?= 3
PROFILE ?= ci
# files in their order (tests/conftest.py has it): no process waits long for another's end
PYTEST := pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder
# with DATABASE_URL set that server is used; otherwise an embedded one, for this run only
WITH_DATABASE = $(if $(DATABASE_URL),,$(PYTHON_RUN) -m pylota.embedded run --fast --)

help: ## list the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## make .venv with the locked dependencies; nothing to do the second time
	@./bin/setup

demo: setup ## watch one mail leave once, then serve until Ctrl-C
	@exec $(PYTHON_RUN) manage.py demo

up: setup ## web, worker and beat in the foreground, until Ctrl-C
	@exec $(PYTHON_RUN) manage.py up

test: setup ## the whole suite (TESTS=tests/api for a part of it)
	@$(WITH_DATABASE) $(PYTEST) -m "not brokers and not browser" $(TESTS)

unit: setup ## the pure tests: no database, no process, about half a minute
	@pytest -q tests/unit

test-brokers: export PM_TEST_AMQP_URL ?= amqp://guest:guest@127.0.0.1:5672//
test-brokers: export PM_TEST_REDIS_URL ?= redis://127.0.0.1:6379/9
test-brokers: setup ## the tests that need RabbitMQ and Redis (PM_TEST_AMQP_URL, PM_TEST_REDIS_URL)
	@$(WITH_DATABASE) pytest -q -m brokers tests

test-browser: setup ## the staff's ways in a real Chromium (on the PATH, or PM_TEST_CHROMIUM)
	@$(WITH_DATABASE) pytest -q -m browser tests/browser

bench: setup ## the hook of SES, one tenant's senders beside many's, the admin's pages
	$(PYTHON_RUN) -m bench.hooks
	$(PYTHON_RUN) -m bench.tenants
	@$(WITH_DATABASE) $(PYTHON_RUN) -m bench.pages

chaos: setup ## kill, cut and restart everything, and count mails (SEED=, PROFILE=ci|release, BROKER=)
	@$(PYTHON_RUN) -m chaos $(if $(SEED),--seed $(SEED)) --profile $(PROFILE) $(if $(BROKER),--broker $(BROKER))

chaos-mutants: setup ## the same against six deliberate mistakes, all of which it must catch
	@$(PYTHON_RUN) -m chaos.proof $(if $(SEED),--seed $(SEED)) $(if $(BROKER),--broker $(BROKER))

check: setup ## format, lint, types, import contracts, migrations, generated documents
	ruff format --check .
	ruff check .
	lint-imports
	mypy .
	@$(WITH_DATABASE) $(PYTHON_RUN) manage.py makemigrations --check --dry-run
	$(PYTHON_RUN) manage.py docs --check
	pytest -q tests/unit/test_documents.py

fmt: setup ## format the code and fix what ruff can fix
	ruff format .
	ruff check --fix .

docs: setup ## write the generated documents again
	$(PYTHON_RUN) manage.py docs

lock: ## write the locks again from requirements/*.in (needs uv on the PATH)
	@command -v uv >/dev/null || { echo "make lock needs uv on the PATH (the pip package of that name)" >&2; exit 1; }
	uv pip compile --universal --generate-hashes --python-version 3.11 \
	  --no-emit-index-url --no-emit-find-links --no-annotate --no-header \
	  requirements/runtime.in requirements/s3.in \
	  requirements/embedded.in -o requirements/runtime.lock
	uv pip compile --universal --generate-hashes --python-version 3.11 \
	  --no-emit-index-url --no-emit-find-links --no-annotate --no-header \
	  requirements/dev.in -o requirements/dev.lock
