# vipd: build, test, try. "make help" lists the targets.

GO       ?= go
BIN      := bin
PREFIX   ?= /usr/local
FUZZTIME ?= 30s
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)

# Packages whose tests boot the user-mode kernel (where the host has no IPVS).
# Binaries built with -race do not run there.
UML      = $(shell grep -rlE '\buml\.Main\b|\blab\.Main\b' --include='*_test.go' . | xargs -r -n1 dirname | sort -u)
# The rest of the product.
PRODUCT  = $(filter-out $(UML),$(shell find . -name '*_test.go' -not -path './test/*' -not -path '*/testdata/*' -printf '%h\n' | sort -u))
# Nothing can race where there is no goroutine: the race detector only takes time.
PURE     = ./conf ./conf/spread ./garp ./healthcheck ./ipvs ./ipvs/plan ./vrrp ./vrrp/packet ./vrrp/packet/vectors
RACE     = $(filter-out $(PURE),$(PRODUCT))
# What counts allocations does so without the race detector, too: these tests, of these packages.
COUNTING = $(filter-out $(PURE),$(sort $(shell grep -rl AllocsPerRun --include='*_test.go' . | xargs -r -n1 dirname)))
COUNTS   = $(shell find $(COUNTING) -maxdepth 1 -name '*_test.go' | xargs -r awk -F'[^A-Za-z0-9_]+' '/^func Test/ { name = $$2 } /AllocsPerRun/ { print name }' | sort -u | paste -sd'|')
# Whatever uses a site of namespaces, the longest first, then those that wait most:
# they leave the processors to the user-mode kernels of test/kernel.
LONGEST  = ./test/cases ./test/kernel ./test/interop ./test/acceptance
LAB      = $(LONGEST) $(filter-out $(LONGEST),$(sort $(UML) $(shell find ./test -name '*_test.go' -printf '%h\n')))

export VIPD_BIN := $(CURDIR)/$(BIN)/vipd
export PATH := $(PATH):/usr/sbin:/sbin

.DEFAULT_GOAL := build
.PHONY: build vipd setup lint test unit race labs fuzz bench bench-vrrp bench-ipvs demo lab install clean help

build: ## build the static binary bin/vipd
	@mkdir -p $(BIN)
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o $(BIN)/vipd ./cmd/vipd

setup: ## install what the tests need and is missing (Debian, as root)
	@test/setup.sh

$(BIN)/staticcheck: test/tools/go.mod test/tools/go.sum
	@mkdir -p $(BIN)
	cd test/tools && $(GO) build -o ../../$(BIN)/staticcheck honnef.co/go/tools/cmd/staticcheck

$(BIN)/gotestsum: test/tools/go.mod test/tools/go.sum
	@mkdir -p $(BIN)
	cd test/tools && $(GO) build -o ../../$(BIN)/gotestsum gotest.tools/gotestsum

# Some tests judge times by packets on a machine that others may use as well. A
# failed test is run once more, by itself; it is in the output, and one that
# fails twice fails the run. More than a few failures are not tried again.
TESTSUM = $(BIN)/gotestsum --format pkgname --rerun-fails=1 --rerun-fails-max-failures=6 --rerun-fails-run-root-test

# What staticcheck looks for.
CHECKS = SA*,S1*,ST1005,ST1006,ST1008,ST1012,ST1015,ST1017,ST1018,ST1019,U1000

lint: $(BIN)/staticcheck ## formatting, go vet and staticcheck must have nothing to say
	@unformatted=$$(gofmt -l $$(find . -name '*.go' -not -path '*/testdata/*')); \
	  if [ -n "$$unformatted" ]; then echo "not formatted (run gofmt -w):"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(BIN)/staticcheck -checks '$(CHECKS)' ./...

# go vet is a part of lint; these tests wait for timers much of their time, so more
# packages than there are processors run at once.
GOTEST = $(TESTSUM) --packages='$(1)' -- -p 3 -vet=off -count=1

race: build $(BIN)/gotestsum ## tests of the product's packages, with the race detector
	$(call GOTEST,$(RACE)) -race -timeout 5m

unit: build $(BIN)/gotestsum ## without it: pure packages, and tests that count allocations
	$(call GOTEST,$(PURE)) -timeout 5m
	$(call GOTEST,$(COUNTING)) -timeout 5m -run '^($(COUNTS))$$'

labs: build $(BIN)/gotestsum ## tests in network namespaces and in the user-mode kernel
	$(call GOTEST,$(LAB)) -timeout 15m

test: ## everything: lint, race, unit, labs (installs what is missing)
	@$(MAKE) --no-print-directory setup
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory race
	@$(MAKE) --no-print-directory unit
	@$(MAKE) --no-print-directory labs

fuzz: ## every fuzz target for FUZZTIME (30s) each
	@set -e; grep -rlE '^func Fuzz' --include='*_test.go' . | while read -r file; do \
	  for target in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/p' "$$file"); do \
	    echo "== $$target in $$(dirname $$file), $(FUZZTIME)"; \
	    $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$(dirname $$file)"; \
	  done; done

bench: ## all benchmarks, once
	$(GO) test -run '^$$' -bench . -benchmem $(PRODUCT)

bench-vrrp: setup build ## vipd beside the installed keepalived, in 4 minutes; writes docs/bench-vrrp.md
	@$(GO) build -o $(BIN)/bench-vrrp ./test/bench/vrrp
	$(BIN)/bench-vrrp -page docs/bench-vrrp.md

bench-ipvs: setup build ## the same of services and checks, in 5 minutes; writes docs/bench-ipvs.md
	@$(GO) build -o $(BIN)/bench-ipvs ./test/bench/ipvs
	$(BIN)/bench-ipvs -page docs/bench-ipvs.md

demo: setup build ## two directors, three servers, take-overs and a drain, in half a minute on a real kernel
	$(GO) run ./test/demo

lab: setup build ## the same site, and a shell in it
	$(GO) run ./test/demo -shell

install: build ## install vipd and its systemd unit, below PREFIX (/usr/local) and /etc
	install -D -m 0755 $(BIN)/vipd $(DESTDIR)$(PREFIX)/sbin/vipd
	install -D -m 0644 packaging/systemd/vipd.service $(DESTDIR)/etc/systemd/system/vipd.service
	install -D -m 0644 docs/vipd.example.toml $(DESTDIR)$(PREFIX)/share/doc/vipd/vipd.example.toml

clean: ## remove what was built
	rm -rf $(BIN) coverage.out

help: ## this list
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/\1\t\2/p' Makefile | awk -F'\t' '{printf "  %-10s %s\n", $$1, $$2}'
