# Stoker from a fresh clone: `make serve`. Works with GNU make 3.81 (macOS) and later.

VENV := .venv
BIN := $(VENV)/bin
# Rebuilt when the lock or the project's metadata is newer; kept inside the environment, so that both go together.
STAMP := $(VENV)/installed
UV := uv==0.13.9

OLD_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
# The first Python that is new enough; macOS still ships 3.9 as `python3`.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	$$python -c '$(OLD_ENOUGH)' 2>/dev/null && echo $$python && break; done)

SERVE_OPTIONS := $(if $(MODEL),--model "$(MODEL)") $(if $(PORT),--port "$(PORT)") \
	$(if $(WATCHDOG_PORT),--watchdog-port "$(WATCHDOG_PORT)")

# Debian's packages of what tests hold boards, alerts and reports against; each has a command of its own name.
OBSERVERS := prometheus prometheus-alertmanager chromium

# Tests that start whole trees.
TREES := tests/alerts tests/chaos tests/dashboards tests/e2e

.PHONY: help install serve test test-trees test-others chaos soak-short simulate evaluate dashboards-check pictures stack lock openblas observers clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP) ## make .venv with exactly what requirements.lock names, and .venv/bin/stoker

serve: $(STAMP) openblas ## serve a model (MODEL=demo, a folder or a hub name; PORT=8000; WATCHDOG_PORT=8001)
	@exec $(BIN)/stoker serve $(SERVE_OPTIONS)

test: $(STAMP) openblas observers ## lint, check formats and types, run every test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@$(MAKE) --no-print-directory --jobs=2 test-trees test-others

# Trees are looked at in real time, and two of them at once would leave nothing of two processors to anybody: so they
# run one after the other, and what only computes or waits for a single process beside them.
test-trees: $(STAMP)
	$(BIN)/pytest $(TREES)

# Its words come in one piece, not among those of the other.
test-others: $(STAMP)
	@mkdir -p build
	@$(BIN)/pytest $(addprefix --ignore=,$(TREES)) >build/test-others.txt 2>&1; \
		ended=$$?; cat build/test-others.txt; exit $$ended

chaos: $(STAMP) openblas ## kill the engine under eight clients for ten minutes; every text must be what it is undisturbed
	$(BIN)/python -m tests.chaos.run --minutes 10

soak-short: $(STAMP) openblas ## ten minutes of load and chaos on a tree of its own, with a verdict and a report
	$(BIN)/python -m tests.soak.short --minutes 10

simulate: $(STAMP) ## live through a thousand simulated runs of 72 hours of faults, in minutes
	$(BIN)/python -m tests.simulation.run --runs 1000 --hours 72
	$(BIN)/python -m tests.simulation.policy --runs 1000

evaluate: $(STAMP) ## judge 200 generated 72-hour runs of each kind, healthy and sick; the table of docs/detection.md
	$(BIN)/stoker watch evaluate --runs 200

dashboards-check: $(STAMP) openblas observers ## five minutes of mixed load under a real Prometheus, then every query of every board
	$(BIN)/python -m tests.dashboards.mixed_run --minutes 5

pictures: $(STAMP) openblas observers ## docs/pictures: the boards after a mixed run of the demo model, and the status page (needs npm)
	$(BIN)/python -m tests.pictures.take --minutes 4
	$(BIN)/python -m tests.pictures.status_page

stack: ## Prometheus, Alertmanager, Grafana and Tempo in Docker, on Linux with Stoker itself; then http://127.0.0.1:3000
	@test "$$(uname)" = Darwin || export COMPOSE_PROFILES=container; docker compose up --detach --build --wait

lock: build/lock/bin/uv ## resolve pyproject.toml anew into requirements.lock, for Linux and macOS
	build/lock/bin/uv pip compile pyproject.toml --universal --python-version 3.11 --extra dev --upgrade \
		--generate-hashes --custom-compile-command "make lock" --quiet --output-file requirements.lock

clean: ## remove .venv and what builds and tools have left
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .src/*.egg-info

$(STAMP): requirements.lock pyproject.toml | $(BIN)/pip
	$(BIN)/pip install --disable-pip-version-check --only-binary :all: --require-hashes -r requirements.lock
	$(BIN)/pip install --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(BIN)/pip:
	@test -n "$(PYTHON)" || { echo "Stoker needs Python 3.11 or newer, and none was found:" \
		"install one, or name it with \`make PYTHON=/path/to/python3\`." >&2; exit 1; }
	@$(PYTHON) -c '$(OLD_ENOUGH)' || { echo "Stoker needs Python 3.11 or newer, and $(PYTHON) is" \
		"$$($(PYTHON) --version 2>&1): name another with \`make PYTHON=/path/to/python3\`." >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
		&& apt-get update -qq && apt-get install -y -qq python3-venv >/dev/null; } \
		|| { echo "$(PYTHON) lacks the venv module: install it (Debian, Ubuntu: apt-get install python3-venv)." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# Only a speed-up of MLX on Linux CPUs: when it cannot be installed here, say so and go on.
openblas: $(STAMP)
	@$(BIN)/python -c 'import sys; from stoker.engine.blas import missing_warning as w; sys.exit(w() is not None)' \
		|| { test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
			&& apt-get update -qq && apt-get install -y -qq libopenblas0-pthread >/dev/null; } \
		|| $(BIN)/python -c 'from stoker.engine.blas import missing_warning as w; print(w())' >&2

# Debian would start the servers as it installs them, unless this policy forbids it; a policy that is there already stays.
observers:
	@missing=; for each in $(OBSERVERS); do command -v $$each >/dev/null || missing="$$missing $$each"; done; \
	test -z "$$missing" && exit; policy=/usr/sbin/policy-rc.d; \
	if test "$$(id -u)" = 0 && command -v apt-get >/dev/null; then \
		test -e $$policy || { trap "rm -f $$policy" EXIT; printf '#!/bin/sh\nexit 101\n' >$$policy; chmod +x $$policy; }; \
		apt-get update -qq && apt-get install -y -qq --no-install-recommends $$missing >/dev/null && exit; \
	fi; echo "Tests against these are skipped, since they are not installed:$$missing" >&2

build/lock/bin/uv: | $(BIN)/pip
	$(BIN)/python -m venv build/lock
	build/lock/bin/pip install --disable-pip-version-check --quiet $(UV)
