# Each target installs its tools on a fresh Debian 12 with git, make, g++ and Python 3.11 with pip.
#   PYTHON=python3.x  the interpreter to build for     PRESET=release|dev  the preset of the C++ tests
#   JOBS=n            build processes                  ARGS="..."          arguments of demo and bench
#   GPU=1             build the CUDA backend, remembered until GPU=0; needs nvcc (docs/gpu.md)
#   WERROR=1          compiler warnings are errors, remembered until WERROR=0
#   SECONDS=n         duration of make fuzz
#   ARCHITECTURES=... with GPU=1: CMAKE_CUDA_ARCHITECTURES (native: this machine's GPUs; empty: the default)
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
	@echo "Try:"
	@echo "  make demo          build, then classify encrypted handwritten digits"
	@echo "  make build         build the package into .venv; commands of data owners, servers and services are then listed by"
	@echo "                     .venv/bin/heliograph --help"
	@echo "Server:"
	@echo "  make build GPU=1   build with the CUDA backend (needs nvcc; docs/gpu.md)"
	@echo "  make wheels        build wheels for other machines in dist/, and test each in a bare environment (docs/install.md)"
	@echo "  make bench         run the benchmarks; print figures with their floors"
	@echo "Service:"
	@echo "  make image-test    run the service of packaging/ as a systemd unit and as an image, as root (docs/serving.md)"
	@echo "Developer:"
	@echo "  make test          build, then run the C++ and the Python tests"
	@echo "  make test-all      the same with every case on every mesh, over ranks and of every degree"
	@echo "  make sanitize      run the C++ tests labelled sanitize under the address and undefined-behaviour sanitizers"
	@echo "  make fuzz          run the fuzz targets by clang and libFuzzer, SECONDS=60 of each in parallel (docs/fuzzing.md)"
	@echo "  make lint          run all checks of .pre-commit-config.yaml"
	@echo "  make format        apply the formatters"
	@echo "  make docs          build the pages and the API reference as a site, build/docs/site/index.html"
	@echo "  make clean         remove build/ and .venv/"

# The folder of the environment: after a copy or a move it is recreated.
.venv/.place: always
	@mkdir -p .venv
	@[ "$$(cat $@ 2>/dev/null)" -ef . ] || pwd -P >$@
.venv/.setup: .venv/.place scripts/setup.sh scripts/common.sh
	@PYTHON='$(PYTHON)' scripts/setup.sh
	@touch $@
# The selected backends; the file changes only if they do.
.venv/.gpu: .venv/.setup always
	@echo '$(variant)' | cmp -s - $@ || echo '$(variant)' >$@
# Stamps: the package is installed from the present sources; an extra's requirements are installed.
.venv/.package: .venv/.setup .venv/.gpu scripts/install.sh $(sources)
	@scripts/install.sh
	@touch $@
.venv/.extra-%: .venv/.package scripts/extra.sh
	@scripts/extra.sh $*
	@touch $@
# The tools of several hosts are installed before the package, because the build uses MPI only if it is installed.
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
	@PATH="$(CURDIR)/.venv/bin:$$PATH" .venv/bin/python -m benchmarks.run $(ARGS)

docs: .venv/.extra-docs
	@scripts/docs.sh

# PYTHONS="python3.11 python3.12 ..." selects interpreters; GPU=1 also builds the wheel of the CUDA backend.
wheels: .venv/.setup
	@scripts/wheels.sh

lint: .venv/.extra-lint
	@.venv/bin/python -m pre_commit run --all-files

format: .venv/.extra-lint
	@for hook in clang-format gersemi ruff ruff-format; do .venv/bin/python -m pre_commit run $$hook --all-files || true; done

clean:
	rm -rf build .venv dist
