# Thin: each target is a line or two. ARGS are handed on: make study ARGS="--configfile config/presets/x.yaml"
PYTHON ?= python3
ARGS ?=
SYSTEM = PYTHONPATH=src $(PYTHON) -B
SETUP = $(SYSTEM) -m tare.setup
VENV = PATH="$(CURDIR)/.venv/bin:$$PATH"

.DEFAULT_GOAL := help
.PHONY: help study demo test test-full doctor report retry relock lint clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 20

study: ## set up, run the quick study, end with results/quick/report.html
	@$(SETUP) study $(ARGS)

demo: ## show the reference study's summary and report; no Docker, no set-up
	@$(SYSTEM) scripts/show_demo.py

doctor: ## what this machine can measure, what would disturb it, and the remedies; changes nothing
	@$(SYSTEM) -m tare.doctor $(ARGS)

report: ## a report of what is finished so far, also while a study runs
	@test -x .venv/bin/python || { echo "nothing is set up or measured yet: make study" >&2; exit 1; }
	@$(VENV) python scripts/report_now.py $(ARGS)

retry: ## remove failed results only, then go on with the study
	@$(SETUP) retry $(ARGS)

test: ## set up, then every test this machine can run
	@$(SETUP) test
	@$(VENV) pytest $(ARGS)

test-full: ## the same and the slow tests
	@$(SETUP) test
	@$(VENV) pytest --run-slow $(ARGS)

lint: ## the checks of style, types and workflow
	@$(SETUP) test
	@$(VENV) ruff check .
	@$(VENV) ruff format --check .
	@$(VENV) snakefmt --check Snakefile rules
	@$(VENV) mypy
	@$(VENV) snakemake --lint

relock: ## resolve every lock in envs/ anew
	@$(SETUP) test
	@$(VENV) python scripts/relock.py $(ARGS)

clean: ## remove results (not the reference) and caches in this folder; refuses what is mounted
	@$(SETUP) clean $(ARGS)
