# Short names for what meson and tools/ do. `make help` lists them.

# The release build and the sanitized one; both are ordinary meson build directories.
BUILD      = build
BUILD_TEST = build-test
# Both may come from the environment as well; a relative one is below this directory.
PREFIX     ?= /usr/local
DESTDIR    ?=
PYTHON     = /usr/bin/python3
FUZZ_SECONDS = 60
ROUNDS     = 100000

# Whole, without a slash at its end: `make install PREFIX=./x/` and the environment mean the same.
whole = $(if $(filter ~/%,$(1)),$(patsubst ~/%,$(HOME)/%,$(1)),$(if $(filter /%,$(1)),$(1),$(CURDIR)/$(1)))
no_slash = $(if $(filter-out /,$(1)),$(patsubst %/,%,$(1)),$(1))
prefix  := $(call no_slash,$(call whole,$(PREFIX)))
destdir := $(if $(DESTDIR),$(call whole,$(DESTDIR)))

# One line where the place is not ours to write to, before anything is copied.
MAY_INSTALL = { \
	for part in bin include lib libexec share; do \
		at='$(destdir)'"$$(sed -n 's/^prefix=//p' $(BUILD)/meson-private/cove.pc)/$$part"; \
		until test -e "$$at"; do at=$$(dirname "$$at"); done; \
		test -w "$$at" || { echo "make install: $$at is not yours to write to: needs root, or" \
			"PREFIX=\$$HOME/.local" >&2; exit 1; }; \
	done; }

# Makes the new library known to the dynamic linker, and says what this shell does not find there.
FIND_INSTALLED = { \
	lib=$$(pkg-config --variable=libdir $(BUILD)/meson-private/cove.pc); \
	bin=$$(pkg-config --variable=prefix $(BUILD)/meson-private/cove.pc)/bin; \
	test "$$(id -u)" -ne 0 || PATH="$$PATH:/usr/sbin:/sbin" ldconfig; \
	case ":$$PATH:" in *":$$bin:"*) ;; *) echo "To find cove: export PATH=$$bin:\$$PATH";; esac; \
	test "$$(pkg-config --variable=libdir cove 2>/dev/null)" = "$$lib" || \
		echo "To build programs with libcove: export PKG_CONFIG_PATH=$$lib/pkgconfig"; }

.PHONY: all quickstart test test-quick test-all attack attack-selftest conformance vm-test bench faults churn lint fuzz format tidy install clean help

all: ## build the programs, the library and the manual into ./build (the default)
	@tools/packages build
	@test -f $(BUILD)/build.ninja || \
		meson setup $(BUILD) -Dbuildtype=release -Dtests=false --prefix='$(prefix)' >$(BUILD).log 2>&1 || \
		{ cat $(BUILD).log; rm -f $(BUILD).log; exit 1; }
	@rm -f $(BUILD).log
ifneq ($(origin PREFIX),file)
	@grep -qxF 'prefix=$(prefix)' $(BUILD)/meson-private/cove.pc || meson configure $(BUILD) -Dprefix='$(prefix)'
endif
	@ninja -C $(BUILD)
	@ln -sfn src/cli/cove $(BUILD)/cove

quickstart: ## from a fresh clone to an agent's job in a box, explained line by line
	@tools/quickstart

test: ## unit tests, fuzz corpus, lint and end-to-end tests, under sanitizers, as root and not
	@tools/packages build image test
	@$(PYTHON) -B tools/test-runner

test-quick: ## while you work: unit tests, lint and a few end-to-end tests; less than a minute
	@tools/packages build test
	@$(PYTHON) -B tools/test-runner --quick

test-all: test attack attack-selftest faults churn ## all that there is, for a night: an hour and more

attack: all ## attack boxes from inside and see whether the walls hold; a table at the end; WALL=gvisor
	@tools/packages build test
	@$(PYTHON) -B tools/attack $(if $(WALL),--wall $(WALL))

attack-selftest: ## switch one protection off at a time: the attack suite must notice each
	@tools/packages build test
	@$(PYTHON) -B tools/attack --selftest

conformance: all ## other people's programs against Cove, as published; what a registry does not give is skipped
	@$(PYTHON) -B tools/conformance

vm-test: all ## limits on a real cgroup v2 host: Debian's kernel in a virtual machine, without KVM
	@tools/packages vm
	@$(PYTHON) -B tools/vm-test --build $(BUILD)

bench: all ## measure against bwrap, runc, crun and docker where installed; writes bench/RESULTS.md
	@tools/packages image bench
	@$(PYTHON) -B bench/run

faults: all ## kill -9, ENOSPC and EIO at every moment of a create and a delete, and 500 random kills
	@tools/packages test
	@$(PYTHON) -B tools/faults

churn: all ## ROUNDS (100000) boxes made and removed; prints what is not back where it was
	@ninja -C $(BUILD) bench/churn >/dev/null
	@$(PYTHON) -B tools/churn --rounds $(ROUNDS)

lint: ## layers, sizes, banned calls, format, names in ARCHITECTURE.md
	@tools/packages lint
	@$(PYTHON) tools/lint

fuzz: ## fuzz every target for FUZZ_SECONDS (60) each, starting from the kept corpus
	@tools/packages build fuzz
	@tests/fuzz/run.sh $(FUZZ_SECONDS)

format: ## apply .clang-format to the C files
	@tools/packages lint
	@$(PYTHON) tools/lint --format

tidy: all ## clang-tidy over src/, for a curious afternoon; not part of the tests
	@tools/packages fuzz
	@clang-tidy -p $(BUILD) --quiet $$(git ls-files 'src/*.c')

install: all ## install below PREFIX (/usr/local, or the one given last); honours DESTDIR
	@$(MAY_INSTALL)
	@DESTDIR='$(destdir)' meson install -C $(BUILD) --no-rebuild
	@test -n '$(destdir)' || $(FIND_INSTALLED)

clean: ## remove the build directories (the cached test image goes with them)
	@rm -rf $(BUILD) $(BUILD_TEST) build-fuzz build-vm build-controls

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' Makefile
