# Everything here sets up what it needs on a fresh Debian 12 with git, make, g++ and Python 3.11 with pip.
#   PYTHON=python3.x  the interpreter to build for     PRESET=release|dev  the C++ tests' build
#   JOBS=n            processes to build with          ARGS="..."          passed on by demo and bench
#   GPU=1             with the CUDA backend, from then on until GPU=0; needs nvcc (docs/gpu.md)
#   WERROR=1          compiler warnings are errors, from then on until WERROR=0
#   SECONDS=n         how long make fuzz runs
#   ARCHITECTURES=... with GPU=1: the GPUs to build for, in CMake's words (native: this machine's; empty: the default)
PYTHON ?= python3
remembered := $(shell cat .venv/.gpu 2>/dev/null)
GPU ?= $(firstword $(remembered))
ARCHITECTURES ?= $(word 2,$(remembered))
gpu := $(filter-out 0,$(GPU))
variant := $(if $(gpu),1 $(ARCHITECTURES),0)
PRESET ?= $(if $(gpu),cuda,release)
export GPU := $(if $(gpu),1,0)
export ARCHITECTURES
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test test-all image-test build bench wheels docs lint format sanitize fuzz clean always

sources := CMakeLists.txt pyproject.toml README.md $(shell find $(wildcard cmake include) src python -type f -not -name '*.pyc' -not -name '*.so')

help:
	@echo "make demo      build, then classify encrypted handwritten digits"
	@echo "make test      build, then run the C++ and the Python tests"
	@echo "make test-all  the same with the full matrix: every case on every mesh, over ranks and of every degree"
	@echo "make image-test  run the service of packaging/ as its unit and as its image, as root (docs/serving.md)"
	@echo "make build     build the package into .venv (then: .venv/bin/heliograph --help)"
	@echo "make build GPU=1   the same with the CUDA backend (nvcc is needed; docs/gpu.md)"
	@echo "make bench     measure; figures beside their floors"
	@echo "make docs      the pages and the API as a site, build/docs/site/index.html"
	@echo "make wheels    wheels for other machines, in dist/, each tried where nothing else is (docs/install.md)"
	@echo "make sanitize  the C++ tests labelled sanitize under the address and undefined-behaviour sanitizers"
	@echo "make fuzz      the fuzz targets by clang and libFuzzer, SECONDS=60 of each, side by side (docs/fuzzing.md)"
	@echo "make lint      all checks of .pre-commit-config.yaml    make format  apply the formatters"
	@echo "make clean     remove build/ and .venv/"

# Where the environment was made: a copied or moved one is made anew.
.venv/.place: always
	@mkdir -p .venv
	@[ "$$(cat $@ 2>/dev/null)" -ef . ] || pwd -P >$@
.venv/.setup: .venv/.place scripts/setup.sh scripts/common.sh
	@PYTHON='$(PYTHON)' scripts/setup.sh
	@touch $@
# With which backends; changed only where that changes.
.venv/.gpu: .venv/.setup always
	@echo '$(variant)' | cmp -s - $@ || echo '$(variant)' >$@
# A stamp says that the package was installed from the present sources, another that an extra's requirements are there.
.venv/.package: .venv/.setup .venv/.gpu scripts/install.sh $(sources)
	@scripts/install.sh
	@touch $@
.venv/.extra-%: .venv/.package scripts/extra.sh
	@scripts/extra.sh $*
	@touch $@
# Before the package: the build finds MPI only if it is there.
.venv/.hosts: .venv/.setup scripts/hosts.sh
	@scripts/hosts.sh
	@touch $@

build: .venv/.extra-demo

demo: .venv/.extra-demo
	@.venv/bin/python -m heliograph.cli demo $(ARGS)

test: .venv/.hosts .venv/.extra-test
	@scripts/test.sh $(PRESET)
test-all: .venv/.hosts .venv/.extra-test
	@MATRIX=full scripts/test.sh $(PRESET)

image-test: .venv/.extra-test
	@scripts/image.sh

sanitize: .venv/.setup
	@scripts/cpp-tests.sh sanitize

fuzz:
	@scripts/fuzz.sh $(or $(filter-out 0,$(SECONDS)),60)

bench: .venv/.extra-demo
	@PATH="$(CURDIR)/.venv/bin:$$PATH" .venv/bin/python benchmarks/run.py $(ARGS)

docs: .venv/.extra-docs
	@scripts/docs.sh

# PYTHONS="python3.11 python3.12 ..." names interpreters; with GPU=1 the CUDA backend's wheel as well.
wheels: .venv/.setup
	@scripts/wheels.sh

lint: .venv/.extra-lint
	@.venv/bin/python -m pre_commit run --all-files

format: .venv/.extra-lint
	@for hook in clang-format gersemi ruff ruff-format; do .venv/bin/python -m pre_commit run $$hook --all-files || true; done

clean:
	rm -rf build .venv dist
