# What the parts share that build the library with a tool of LLVM in it.

RUST_HOST := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
RUST_LIB := $(shell rustc --print sysroot 2>/dev/null)/lib/rustlib
CLANG ?= clang-19
need-sanitizers = $(call need,$(CLANG) --version,apt-get install clang-19 libclang-rt-19-dev) \
	$(call need,test -d $(RUST_LIB)/src,rustup component add rust-src)
again = $(MAKE) --no-print-directory

# $(call must-find,what the tool says,command): the command fails, and so.
must-find = @mkdir -p $(BUILD)/found; \
	if $(strip $(2)) >$(BUILD)/found/$@.log 2>&1; then \
		echo 'not found: $(1)'; exit 1; fi; \
	grep -q '$(1)' $(BUILD)/found/$@.log || { cat $(BUILD)/found/$@.log; exit 1; }; \
	echo '    figures: found what was planted: $(1)'
