# `make lab` opens the notebooks, `make test` checks everything; `make help` lists the rest.
# Both do all of their own set-up: a virtual environment in .venv, and for the tests Chromium where it may be installed.

VENV     := .venv
BIN      := $(VENV)/bin
LAB_ARGS ?=
# A test process more than there are cores, since those of the browser wait for it; not more than eight on a big
# machine, for each holds its own JAX.
WORKERS  := $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); [ $$n -gt 7 ] && echo 8 || echo $$((n + 1)))
TESTS    :=
# Which layouts `make newest` and `make oldest` draw; and what they run beside them: what is read of JAX, one's own jit,
# trainings, auto, notebooks.
SEED       := 0
ENDS_TESTS := tests/engine/test_jax_compat.py tests/engine/test_jax_frames.py tests/engine/test_jax_programs.py tests/own tests/training tests/test_tested.py tests/auto/test_choice.py tests/test_notebooks.py
# Here before the tests of the browser read it, while what checks the page's TypeScript runs beside them.
MODULES  := meshlab/widgets/js/node_modules/.package-lock.json
PYTEST   := $(BIN)/python -m pytest
# A file stays in one process, which makes its fixtures once; in the order of tests/conftest.py.
SUITE    := $(PYTEST) -n $(WORKERS) --dist loadgroup --no-loadscope-reorder
PIP      := $(BIN)/python -m pip --disable-pip-version-check install -qq --no-compile --constraint constraints.txt
# What pip would do on one core; like pip it goes on where a package has a file that this Python cannot compile.
COMPILE  := { $(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true; }
# Else each of hundreds of processes would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help lab test nightly check lint prose format types js unit notebooks browser pictures bench busy compilers presets techniques serial gallery own newest oldest sweep docs constraints clean system

help: ## What can be made
	@grep -hE '^[a-z]+:.*## ' Makefile | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 20

# --- environments: each stamp says that its extra is installed as pyproject.toml has it now ---------------------------

$(VENV)/.made:
	@PYTHON="$(PYTHON)" MAKECMDGOALS="$(MAKECMDGOALS)" sh scripts/venv.sh $(VENV)
	@touch $@

$(VENV)/.notebook: $(VENV)/.made pyproject.toml constraints.txt
	@echo "Installing meshlab, JupyterLab and what the lessons need into $(VENV) (about a minute, once)."
	@$(PIP) --editable '.[lessons]' && $(COMPILE)
	@touch $@

$(VENV)/.dev: $(VENV)/.made pyproject.toml constraints.txt
	@echo "Installing meshlab and what its tests need into $(VENV) (about a minute, once)."
	@$(PIP) --editable '.[dev]' && $(COMPILE)
	@touch $(VENV)/.notebook $@

$(VENV)/.docs: $(VENV)/.made pyproject.toml constraints.txt
	@echo "Installing meshlab and what its site is built with into $(VENV) (half a minute, once)."
	@$(PIP) --editable '.[docs]' && $(COMPILE)
	@touch $(VENV)/.notebook $@

$(VENV)/.compilers: $(VENV)/.made scripts/compilers.txt
	@sh scripts/compilers.sh $(BIN)/python $(VENV)/compilers
	@touch $@

$(MODULES): meshlab/widgets/js/package-lock.json
	@sh scripts/modules.sh meshlab/widgets/js

system: $(VENV)/.dev
	@sh scripts/browser.sh $(BIN)/python

# --- what people type -------------------------------------------------------------------------------------------------

lab: $(VENV)/.notebook ## Open the notebooks in JupyterLab (LAB_ARGS="--no-browser --port 8888")
	@$(BIN)/meshlab lab $(LAB_ARGS)

test: ## Lint, types, TypeScript, unit tests, notebooks, browser; of the largest a share (tests/share.py)
	@$(MAKE) --no-print-directory -j2 system $(VENV)/.compilers $(MODULES)
	@sh scripts/beside.sh "$(MAKE) --no-print-directory check" $(SUITE) $(TESTS)

docs: $(VENV)/.docs ## The documentation site, into .site/html; notebooks are executed where they or meshlab have changed
	@$(BIN)/python -m sphinx -W -q -b html -d .site/doctrees docs .site/html
	@echo "Open .site/html/index.html."

nightly: ## Everything: all cases of all tests, both ends of the versions, and many layouts of each model (hours)
	@$(MAKE) docs
	@MESHLAB_SHARE=all $(MAKE) test
	@sh scripts/beside.sh "$(MAKE) --no-print-directory oldest" $(MAKE) --no-print-directory newest
	@day=$$(date +%Y%m%d); sh scripts/beside.sh \
	    "$(BIN)/python -m meshlab.verify --serial --each 4 --seed $$((day + 1)) --journal serial.jsonl" \
	    $(BIN)/python -m meshlab.verify --each 14 --seed $$day --journal sweep.jsonl

check: lint prose types js ## Everything that runs no code: lint, format, prose, types, TypeScript

lint: $(VENV)/.dev ## Lint, and whether the code is formatted
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

prose: $(VENV)/.dev ## Plain English, by our own rules: pages, notebooks, messages, public docstrings
	@$(BIN)/python scripts/prose.py

format: $(VENV)/.dev ## Format, and repair what lint can repair
	@$(BIN)/ruff format
	@$(BIN)/ruff check --fix

types: $(VENV)/.dev $(MODULES) ## Types: Python's, and where npm is there the page's, of what Python sends it
	@$(BIN)/pyright --pythonpath $(BIN)/python
	@PYTHONPATH="$(CURDIR)" JAX_PLATFORMS=cpu $(BIN)/python scripts/page_types.py
	@tsc=meshlab/widgets/js/node_modules/.bin/tsc; [ ! -x $$tsc ] || $$tsc -p meshlab/widgets/js

js: $(VENV)/.dev ## The page's TypeScript: its tests; where npm is there types, lint and bundle
	@sh scripts/check_js.sh meshlab/widgets/js "$(CURDIR)/$(BIN)/python"

unit: $(VENV)/.dev $(VENV)/.compilers ## Unit tests: no notebook, no browser
	@$(SUITE) -m "not browser and not notebook" $(TESTS)

notebooks: $(VENV)/.dev ## Execute every notebook
	@$(PYTEST) -m notebook

browser: system ## All browser tests: JupyterLab in a real Chromium
	@MESHLAB_PICTURES=1 MESHLAB_SHARE=all $(PYTEST) -m browser

compilers: $(VENV)/.dev $(VENV)/.compilers ## What TPU and GPU compilers make of plans, into docs/accuracy.md and techniques.md (resumable, three hours)
	@MESHLAB_COMPILERS=$(VENV)/compilers $(BIN)/python -m benchmarks.compilers --write docs/accuracy.md
	@MESHLAB_COMPILERS=$(VENV)/compilers $(BIN)/python -m benchmarks.substitutes --compile --write docs/accuracy.md
	@MESHLAB_COMPILERS=$(VENV)/compilers $(BIN)/python -m benchmarks.peaks --compile --write docs/accuracy.md
	@MESHLAB_COMPILERS=$(VENV)/compilers $(BIN)/python -m benchmarks.staged --compile docs/accuracy.md
	@MESHLAB_COMPILERS=$(VENV)/compilers $(BIN)/python -m benchmarks.techniques --compile docs/techniques.md

serial: $(VENV)/.dev ## What micro-batches do to each model, into docs/serial.md
	@$(BIN)/python -m benchmarks.serial docs/serial.md

presets: $(VENV)/.dev ## What the presets of ml.layouts make of each model, into docs/presets.md
	@$(BIN)/python -m benchmarks.presets docs/presets.md

gallery: $(VENV)/.dev ## The models that have names under their published layouts, into docs/gallery.md
	@$(BIN)/python -m benchmarks.gallery docs/gallery.md

own: $(VENV)/.dev ## How much of compiled programs ml.explain explains, into docs/own-jit.md (resumable, half an hour)
	@$(BIN)/python -m benchmarks.own docs/own-jit.md

techniques: $(VENV)/.dev ## What each technique of the literature sends, into docs/techniques.md
	@$(BIN)/python -m benchmarks.techniques docs/techniques.md

busy: js system $(VENV)/.compilers ## All tests beside eight busy processes, which take most of the time
	@sh scripts/busy.sh 8 $(SUITE) $(TESTS)

pictures: system ## Pictures of the workbench in all sizes and themes, with contact sheets
	@$(BIN)/python -m tests.browser.pictures

bench: system ## Benchmarks: trace, plan, re-plan, drop to redrawn chart
	@$(BIN)/python -m benchmarks

# Both ends of the versions that are tested, each in an environment of its own, with nothing pinned but those ends.
# JAX 0.10.0 can stand still while it reads a program from its compilation cache.
define at_an_end
	@rm -rf .$@ && PYTHON="$(PYTHON)" MAKECMDGOALS=$@ sh scripts/venv.sh .$@ $(1)
	@echo "Installing meshlab and JupyterLab into .$@ ($$(.$@/bin/python --version), a minute or two)."
	@.$@/bin/python -m pip --disable-pip-version-check install -qq \
	    --editable '.[checkpoints,notebook]' pytest hypothesis $(2)
	@.$@/bin/python -W error -m meshlab.verify --each 3 --seed $(SEED) $(if $(SAMPLE),--checked 4) --journal .$@/sweep.jsonl
	@JAX_ENABLE_COMPILATION_CACHE=false .$@/bin/python -m pytest -q $(ENDS_TESTS)
endef

newest: ## All models, auto and the notebook on the newest Python, JAX and all else (SAMPLE=1 checks few, SEED=1 others)
	$(call at_an_end,newest,)

oldest: ## The same on the oldest that are promised
	$(call at_an_end,3.11,$$(.oldest/bin/python meshlab/tested.py))

sweep: $(VENV)/.dev ## Predicted collectives against compiled programs, over many random layouts (resumable, long)
	@$(BIN)/python -m meshlab.verify --layouts 200 --journal sweep.jsonl

constraints: ## Take the newest versions, and write down which (run `make test` before you commit it)
	@rm -rf $(VENV) && PYTHON="$(PYTHON)" sh scripts/venv.sh $(VENV)
	@$(BIN)/python -m pip --disable-pip-version-check install -qq --editable '.[dev,docs]'
	@head -2 constraints.txt > $(VENV)/new && $(BIN)/python -m pip freeze --exclude-editable >> $(VENV)/new
	@mv $(VENV)/new constraints.txt

clean: ## Remove what make has made, but not your notebooks
	rm -rf $(VENV) .newest .oldest .xla .site .pytest_cache .ruff_cache .hypothesis tests/browser/artifacts benchmarks/results
