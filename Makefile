# `make help` lists what can be made: the lines below that say so after ##.
# Every target makes the environment it needs, from requirements.txt (hashed), in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1

.PHONY: all help test proofs site check-site book page pdf release notebooks lint format lock extras federation another versions newest nightly bench refs clean
all: test book  ## test, then book: what make does when it is told no more

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# One make at a time builds the environment: the next one waits for the lock and then finds it built.
LOCKED := import fcntl, subprocess, sys; lock = open("Makefile"); fcntl.flock(lock, fcntl.LOCK_EX); sys.exit(subprocess.call(sys.argv[1:]))

ifndef BUILDING
$(READY): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -c '$(LOCKED)' $(MAKE) -s BUILDING=1 $@
else
# uv when present, else venv and pip. What is locked is installed anew only if the lock has changed.
LOCK := $(VENV)/.lock
$(LOCK): requirements.txt
	if command -v uv >/dev/null 2>&1; then \
	  uv venv -q --clear --python $(PYTHON) $(VENV) && \
	  uv pip sync -q --python $(BIN)/python --require-hashes requirements.txt ; \
	else \
	  $(PYTHON) -m venv --clear $(VENV) && \
	  $(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements.txt ; \
	fi
	touch $@

# The project itself goes in last, editable: pip refuses to hash a folder.
$(READY): $(LOCK) pyproject.toml
	if command -v uv >/dev/null 2>&1; then \
	  uv pip install -q --python $(BIN)/python --no-deps --no-build-isolation -e . ; \
	else \
	  $(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e . ; \
	fi
	touch $@
endif

# Tests of what the extras install, which `make extras` runs.
ENGINES := tests/test_cluster.py tests/test_noise_labels.py tests/federation/test_market.py tests/federation/test_lies.py

# Notebooks, from the wheel alone: ten in `make extras`, all in `make nightly`.
FROM_WHEEL := tests/house/test_from_the_wheel.py

# Chapters and tests that have passed are not run again until something changes that they depend on; with CI set, all are.
test: $(READY)  ## run the tests and execute every page; again: what has changed since
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder $(ENGINES:%=--ignore=%) --ignore=$(FROM_WHEEL) $(if $(CI),,--reuse)

# Rocq is no package of Python: without it this says what to install.
proofs: $(READY)  ## have Rocq check the theorems of proofs/
	$(BIN)/python -m tests.proofs

# The rules of accessibility that the pages are tested by, from npm by a lock; without npm they are not tested for that.
AXE := tests/site/node_modules/.package-lock.json
$(AXE): tests/site/package-lock.json
	@npm ci --prefix tests/site --ignore-scripts --no-audit --no-fund --silent && touch $@ || \
	  echo "axe-core cannot be installed (npm ci): the pages will not be tested for accessibility"

site: $(READY)  ## build the site from these executions
	$(BIN)/jupyter-book build . --all -W --keep-going -n -q

check-site: $(READY) $(AXE)  ## test the built site in a browser
	$(BIN)/python -m pytest -n auto --dist worksteal tests/site/test_site.py tests/site/test_drawn.py tests/site/test_search.py

book: site  ## site, then check-site: open _build/html/index.html
	$(MAKE) check-site

# The book and its library as a PDF each, from the site that `make book` has built: an installed Chromium prints them, pypdf puts them together.
PRINTER := $(VENV)/.pdf
$(PRINTER): $(READY) requirements-pdf.txt
	if command -v uv >/dev/null 2>&1; then \
	  uv pip install -q --python $(BIN)/python --require-hashes -r requirements-pdf.txt ; \
	else \
	  $(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements-pdf.txt ; \
	fi
	touch $@

pdf: $(PRINTER)  ## print the built site as PDF: the book, and its library
	$(BIN)/python book/_ext/pdf.py

# What a release consists of, in dist/: of a commit that says which version it is, tested and built as ever.
release: $(READY)  ## check what a release says of itself, and put sdist, wheel, site and PDF into dist/
	$(BIN)/python -m tests.release check
	$(MAKE) test
	$(MAKE) book
	$(MAKE) pdf
	$(BIN)/python -m tests.release pack

# One page: run, held against its references, built as the site shows it (make page PAGE=book/ridge/idea.md).
page: $(READY)  ## run and build one page: make page PAGE=book/ridge/idea.md
	! grep -qs '^```{code-cell}' $(PAGE) || $(BIN)/python -m pytest -q --reuse $(PAGE)
	$(BIN)/python book/_ext/page.py $(PAGE)

# The site on the newest Sphinx, MyST and theme, without jupyter-book: in an environment of its own that has no lock, with the
# outputs of the last `make test`. Warnings are listed and end nothing.
NEWEST := _build/newest/venv
newest: $(READY)  ## build the site on the newest Sphinx, into _build/newest
	if command -v uv >/dev/null 2>&1; then \
	  uv venv -q --clear --python $(BIN)/python $(NEWEST) && \
	  uv pip install -q --upgrade --python $(NEWEST)/bin/python -r requirements-newest.in ; \
	else \
	  $(BIN)/python -m venv --clear $(NEWEST) && \
	  $(NEWEST)/bin/python -m pip install -q --disable-pip-version-check -r requirements-newest.in ; \
	fi
	$(NEWEST)/bin/python book/_ext/newest.py

# The pages as notebooks, built without running them; then JupyterLab, where a changed number stops nothing.
NOTEBOOKS := _build/notebooks/.ready
$(NOTEBOOKS): $(READY) _config.yml _toc.yml conf.py $(shell find book hdpm_lib data/claims -name '*.md' -o -name '*.py' -o -name '*.yaml')
	$(BIN)/python book/_ext/notebooks.py
	touch $@

notebooks: $(NOTEBOOKS)  ## open the pages as notebooks in JupyterLab
	HDPM_MODE=$${HDPM_MODE-explore} $(BIN)/jupyter lab --notebook-dir _build _build/notebooks/book/index.ipynb

lint: $(READY)  ## check style, types and docstrings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m tests.format_chapters
	mkdir -p _build/typing && ln -sfn ../../book _build/typing/hdpm_book
	$(BIN)/mypy
	$(BIN)/python -m tests.docstrings

format: $(READY)  ## lay out code, and the cells of pages
	$(BIN)/ruff format .
	$(BIN)/python -m tests.format_chapters --write

# Writes requirements.txt anew from requirements.in for every supported Python. Needs uv (pip install uv).
COMPILE := uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--no-emit-find-links --no-header --no-annotate
lock:  ## write the locks anew, from requirements*.in
	$(COMPILE) requirements.in -o requirements.txt
	$(COMPILE) -c requirements.txt requirements-cluster.in -o requirements-cluster.txt
	$(COMPILE) -c requirements.txt requirements-flower.in -o requirements-flower.txt
	$(COMPILE) -c requirements.txt -c requirements-flower.txt requirements-simulation.in -o requirements-simulation.txt
	$(COMPILE) -c requirements.txt requirements-nightly.in -o requirements-nightly.txt
	$(COMPILE) -c requirements.txt requirements-pdf.in -o requirements-pdf.txt

# A cluster, and a federation, on this machine: what they need goes on top of the environment, with locks of its own.
INSTALLED := $(VENV)/.extras
$(INSTALLED): $(READY) requirements-cluster.txt requirements-flower.txt requirements-simulation.txt
	if command -v uv >/dev/null 2>&1; then \
	  for extra in cluster flower simulation; do \
	    uv pip install -q --python $(BIN)/python --require-hashes -r requirements-$$extra.txt || exit 1 ; done ; \
	else \
	  for extra in cluster flower simulation; do \
	    $(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements-$$extra.txt || exit 1 ; \
	  done ; \
	fi
	touch $@

# Tests of the real engines, which start them on loopback, of tables in Parquet, and of what a stranger downloads.
extras: $(INSTALLED)  ## test a cluster, a federation and ten downloaded notebooks on this machine
	$(BIN)/python -m pytest $(ENGINES) tests/federation/test_table.py $(FROM_WHEEL)

# FL-Market with three owners, each a process with her own data and ledger: flower/README.md.
federation: $(INSTALLED)  ## train with three owners who are processes
	PYTHONPATH=.:flower $(BIN)/python -m tests.demonstration $(ARGS)

# Its wheel is installed there, and needs no more than it brings.
another: $(READY)  ## test the library on another Python, if one is here
	$(BIN)/python -m tests.another_python

# Oldest are the lower bounds of pyproject.toml; each has an environment of its own, which is removed.
versions: $(READY)  ## test the library with the oldest and the newest packages that it admits
	$(BIN)/python -m tests.versions

# Another processor adds up in another order: one without AVX, and the kernels of another maker with threads.
OLD := OPENBLAS_CORETYPE=Prescott NPY_DISABLE_CPU_FEATURES="X86_V3 X86_V4 AVX512_ICL AVX512_SPR" XLA_FLAGS=--xla_cpu_max_isa=SSE4_2
OTHER := OPENBLAS_CORETYPE=Zen OPENBLAS_NUM_THREADS=4 NPY_DISABLE_CPU_FEATURES="X86_V4 AVX512_ICL AVX512_SPR" XLA_FLAGS=--xla_cpu_max_isa=AVX2 PYTHONHASHSEED=1

# What takes longer than `make test` may: a fault for every computed verdict, every change that a reader may make, wrong
# theorems, mutants of the library, and what is killed.
NIGHTLY := $(VENV)/.nightly
$(NIGHTLY): $(READY) requirements-nightly.txt
	if command -v uv >/dev/null 2>&1; then \
	  uv pip install -q --python $(BIN)/python --no-deps --require-hashes -r requirements-nightly.txt ; \
	else \
	  $(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --require-hashes -r requirements-nightly.txt ; \
	fi
	touch $@

# `make test` draws the same examples and numbers each time, a night those of its date: make nightly SEED=... repeats one.
SEED ?= $(shell date +%Y%m%d)

nightly: $(NIGHTLY) $(INSTALLED)  ## what takes hours: planted faults, mutants, kills
	HDPM_NIGHTLY=1 $(BIN)/python -m pytest -n auto tests/book/test_claims_can_fail.py tests/book/test_rests.py tests/book/test_readers.py tests/federation/test_table.py tests/federation/test_owner.py
	$(BIN)/python -m tests.records
	if command -v coqc >/dev/null; then $(BIN)/python -m tests.proofs --nightly; \
	  else echo "no Rocq here: the proofs are not checked"; fi
	$(BIN)/python -m tests.reads
	$(BIN)/python -m tests.mutation
	$(BIN)/python -m pytest tests/test_gaussian.py $(ENGINES)
	HDPM_NIGHTLY=1 $(BIN)/python -m pytest $(FROM_WHEEL)
	PYTHONPATH=.:flower $(BIN)/python -m tests.federation.kills
	HDPM_TEST_SEED=$(SEED) $(BIN)/python -m pytest -n auto --dist loadfile --hypothesis-seed=$(SEED) tests --ignore=tests/site --ignore=tests/house $(ENGINES:%=--ignore=%)
	$(MAKE) versions
	$(MAKE) newest
	$(OLD) $(BIN)/python -m pytest -n auto --dist loadfile book
	$(OTHER) $(BIN)/python -m pytest -n auto --dist loadfile book
	other=$$($(BIN)/python -m tests.another_python --find); [ -z "$$other" ] || \
	  $(MAKE) CI=1 VENV=_build/another PYTHON=$$other test

bench: $(READY)  ## measure what the library costs
	$(BIN)/python -m tests.bench

# Rewrites what checked cells must print, of all pages or of one (make refs PAGE=book/ridge/idea.md), and once more with
# the stand-in data where it uses data. Read the diff before committing it.
refs: $(READY)  ## rewrite what checked cells must print; of one page with PAGE=
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder $(or $(PAGE),book) --update-refs
	HDPM_DATA=standin $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder $(or $(PAGE),book) --update-refs --data-dependent || [ $$? = 5 ]

clean:  ## remove the environment and all that was built
	rm -rf _build $(VENV)
