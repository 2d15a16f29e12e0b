# The commands of this project. Everything works without make as well: see README.md.

VENV := .venv
PY := $(VENV)/bin/python
export PYTHONUTF8 := 1

RIGHT := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))
# The Python that makes .venv: the one you name (make book PYTHON=python3.12), else the one
# that made it before, else the first right one on the PATH.
CANDIDATES := $(or $(PYTHON),$(PY) python3.11 python3.12 python3.13 python3 python)
WRONG = $(PYTHON) is not a Python 3.11, 3.12 or 3.13 that runs: \
	name one with make $@ PYTHON=/path/to/python3.11
NONE = No Python 3.11, 3.12 or 3.13 was found: install one and run this again, \
	or name it with make $@ PYTHON=/path/to/python3.11
define install
@for p in $(CANDIDATES); do \
	if "$$p" -c '$(RIGHT)' >/dev/null 2>&1; then exec "$$p" book/install.py $(1); fi; \
done; echo "$(if $(PYTHON),$(WRONG),$(NONE))." >&2; exit 1
endef

.DEFAULT_GOAL := help
.PHONY: help book test lab data copies gpu-check bench clean

help:  ## show this list
	@echo "The Transformer, Derived. Commands:"; echo
	@sed -n 's/^\([a-z-]*\):  ## \(.*\)/  make \1@\2/p' Makefile \
		| while IFS=@ read -r name what; do printf '%-18s%s\n' "$$name" "$$what"; done
	@echo; echo "The first one makes .venv, with the Python you name: PYTHON=python3.12."

book:  ## install, fetch the data, build the book, say where its first page is
	$(call install,book)
	@$(PY) book/build.py

test:  ## install what the tests need, then run all of them
	$(call install,test)
	@$(PY) tests

lab:  ## open the book's pages and notebooks in JupyterLab
	$(call install,book)
	@$(PY) -m jupyterlab --LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate

data:  ## fetch the data only (CMUdict, Shakespeare), with their hashes checked
	$(call install,book)
	@$(VENV)/bin/transformer-lab data

copies:  ## write the notebooks for a class: a student's copy and one with solutions
	$(call install,book)
	@$(PY) book/copies.py

gpu-check:  ## train briefly on the GPU and compare with the CPU (under five minutes)
	$(call install,book)
	@$(VENV)/bin/transformer-lab gpu-check

bench:  ## measure our speed against other libraries, as ratios (up to six minutes)
	$(call install,test)
	@$(PY) bench

clean:  ## delete the built book and its cache (data, runs and .venv stay)
	@rm -rf _build
	@echo "_build is gone; .venv, your runs and the fetched data are still there."
