#: Bindings. BINDINGS=cpp or PACKAGES=python names some.
#:   make test-bindings  the tests of each language that is installed
#:   make test-packages  builds the packages, and uses them in empty environments
#:   make address        REPOSITORY=<host>/<owner>/<name>: the address in the packages
#
# Each language is a directory with a test.sh, which bindings/run.sh
# describes. `make test-bindings BINDINGS=cpp` runs one.
BINDINGS ?= $(patsubst bindings/%/test.sh,%,$(wildcard bindings/*/test.sh))

.PHONY: test-bindings
test-bindings: $(STAGE)/.done
	$(call say,TEST,bindings)
	$(Q)HWHEEL_PREFIX=$(STAGE) HWHEEL_PRIVATE='$(PRIVATE)' CC='$(CC)' CXX='$(CXX)' \
		bindings/run.sh test.sh '$(abspath $(BUILD)/bindings)' $(BINDINGS)

# The packages, each built, installed into an empty environment and used there.
PACKAGES ?= $(patsubst bindings/%/package.sh,%,$(wildcard bindings/*/package.sh))
.PHONY: test-packages
test-packages: $(STAGE)/.done
	$(call say,TEST,packages)
	$(Q)HWHEEL_PREFIX=$(STAGE) HWHEEL_PRIVATE='$(PRIVATE)' CC='$(CC)' CARGO='$(CARGO)' \
		HWHEEL_VERSION=$(VERSION) bindings/run.sh package.sh '$(abspath $(BUILD)/packages)' \
		$(PACKAGES)

# The tests of the languages' own timers, run on ours. They come from checkouts that the
# caller names; bindings/suites/run.sh has the rest.
SUITES ?= $(sort $(patsubst bindings/suites/%/suite.sh,%,$(wildcard bindings/suites/*/suite.sh)) \
	$(filter-out run,$(patsubst bindings/suites/%.sh,%,$(wildcard bindings/suites/*.sh))))
.PHONY: test-suites
test-suites: $(STAGE)/.done
	$(call say,TEST,suites)
	$(Q)HWHEEL_PREFIX=$(STAGE) HWHEEL_PRIVATE='$(PRIVATE)' CC='$(CC)' CXX='$(CXX)' \
		CARGO='$(CARGO)' NODE='$(abspath $(NODE))' CPYTHON='$(abspath $(CPYTHON))' \
		NETTY='$(abspath $(NETTY))' JDK='$(abspath $(JDK))' GO='$(abspath $(GO))' \
		TOKIO='$(abspath $(TOKIO))' \
		bindings/suites/run.sh '$(abspath $(BUILD)/suites)' $(SUITES)

# Each language against its own timers. Writes the tables of docs/BINDINGS.md.
.PHONY: bench-bindings
bench-bindings: $(STAGE)/.done
	$(call say,BENCH,bindings)
	$(Q)HWHEEL_PREFIX=$(STAGE) CC='$(CC)' CXX='$(CXX)' \
		bindings/bench.sh '$(abspath $(BUILD)/bindings)' docs/BINDINGS.md $(BINDINGS)

# The project has no public address yet: the packages carry one that stands for it.
# At the release `make address REPOSITORY=<host>/<owner>/<name>` puts in the real one.
.PHONY: address check-address
address:
	$(call say,ADDRESS,$(REPOSITORY))
	$(Q)tools/address.sh '$(REPOSITORY)'

CHECK_PARTS += check-address
check-address:
	$(call say,CHECK,address)
	$(Q)c-tests/address.sh
