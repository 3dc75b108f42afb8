# The platforms: both processors, glibc and musl.
PLATFORMS := x86_64-linux-gnu x86_64-linux-musl aarch64-linux-gnu aarch64-linux-musl
space := $(subst ,, )

# $(call …,platform): its processor; what builds for it, where a compiler for glibc lends
# itself to musl; what runs its programs; the variables of make that say so.
processor = $(firstword $(subst -, ,$(1)))
rust-target = $(subst -linux,-unknown-linux,$(1))
musl-specs = /usr/lib/$(1)/musl-gcc.specs
platform-cc = $(call processor,$(1))-linux-gnu-gcc$(if $(findstring \
	musl,$(1)),$(space)-specs=$(call musl-specs,$(1))$(if $(findstring \
	aarch64,$(1)),$(space)-mno-outline-atomics))
emulator = $(if $(filter-out $(call processor,$(RUST_HOST)),$(call processor,$(1))),qemu-$(call \
	processor,$(1))$(if $(findstring gnu,$(1)),$(space)-L /usr/$(1)))
platform = CARGO_BUILD_TARGET=$(call rust-target,$(1)) BUILD=$(BUILD)/$(1) \
	CC='$(call platform-cc,$(1))' CXX=$(call processor,$(1))-linux-gnu-g++

# A musl of Debian's for another processor is a package of that processor's.
debian-name = $(subst x86_64,amd64,$(subst aarch64,arm64,$(call processor,$(1))))
need-platform = \
	$(call need,$(call processor,$(1))-linux-gnu-gcc --version,apt-get install gcc-$(subst \
		_,-,$(call processor,$(1)))-linux-gnu) \
	$(if $(findstring musl,$(1)),$(call need,test -e $(call musl-specs,$(1)),dpkg \
		--add-architecture $(call debian-name,$(1)) && apt-get update && \
		apt-get install musl-dev:$(call debian-name,$(1)))) \
	$(call need,test -d $(RUST_LIB)/$(call rust-target,$(1)),the target $(call \
		rust-target,$(1)) of Rust: rustup target add $(call rust-target,$(1)))
