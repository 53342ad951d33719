# The front door. Every goal first runs scripts/setup, which installs what is missing or says what to install.

.PHONY: help demo build test test-all bench docs wheel install format tidy clean
.DEFAULT_GOAL := help

help:
	@echo "make demo      set up, build, and train one task with eleven methods; a table and build/demo/report.html"
	@echo "make build     set up and build; the program is build/bin/laconic"
	@echo "make test      set up, build, and run the tests of the optimised build but the slow ones"
	@echo "make test-all  also pip install, a build without the optional parts, sanitizers, types defined twice, fuzzing"
	@echo "make bench     the full benchmarks; results also in build/bench-*.json"
	@echo "make docs      the documentation as a site, build/site/index.html"
	@echo "make wheel     the Python package for the torch that is here, in build/wheel; or: pip install ."
	@echo "make install   library, headers and program to PREFIX (default /usr/local), for CMake's find_package(laconic)"
	@echo "make format    clang-format over our sources"
	@echo "make tidy      clang-tidy over our sources"
	@echo "make clean     remove build/ (the Python environment .venv stays)"

build:
	@scripts/setup build
	@scripts/build release

# The program alone: tests, examples and the Python package are not its business.
demo:
	@scripts/setup build
	@scripts/build release laconic
	@scripts/demo

# STAGES names stages of scripts/test; release without it.
test:
	@scripts/setup $(if $(STAGES),test-all,test)
	@scripts/test $(STAGES)

test-all:
	@scripts/setup test-all
	@scripts/test all

bench: build
	build/bin/laconic bench kernels --json build/bench-kernels.json
	build/bin/laconic bench exchange --json build/bench-exchange.json
	build/bin/laconic bench methods --json build/bench-methods.json

docs:
	@scripts/docs || [ $$? = 77 ]

wheel:
	@scripts/setup build
	@scripts/wheel

PREFIX ?= /usr/local
install: build
	cmake --install build --prefix "$(PREFIX)"

format:
	@scripts/setup format
	@scripts/sources | xargs clang-format -i

tidy:
	@scripts/setup tidy
	@scripts/tidy

clean:
	rm -rf build
