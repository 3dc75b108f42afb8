# The C tests on each platform. What is not of this machine's processor runs under an
# emulator: it shows what the library does there, not what weak ordering does to it.
.PHONY: test-platforms test-platforms-run $(PLATFORMS:%=test-c-%)
VERIFY_LONG += test-platforms
test-platforms:
	$(Q)$(record) $(again) $@-run
test-platforms-run: $(PLATFORMS:%=test-c-%)

# With musl: not C++, of which Debian has no library for it, nor the test that takes
# the place of glibc's allocator by its own names. Under the emulator: not what measures
# or limits the memory of its process, which is the emulator's as well, or has an
# allocator or pages of its own; nor fork, as the emulator ignores MADV_WIPEONFORK; nor what
# looks at the blocked signals of a thread, of which the emulator keeps some.
left-out = $(if $(findstring musl,$(1)),unwind noalloc) \
	$(if $(call emulator,$(1)),errno fork keys large_pages noalloc refused_errno \
		resources small thread trap_memory)

# Debian's musl comes without the headers of the kernel.
kernel-headers = $(if $(findstring musl,$(1)),$(addprefix $(space)-idirafter ,/usr/include \
	/usr/include/$(call processor,$(1))-linux-gnu /usr/$(call processor,$(1))-linux-gnu/include))

$(PLATFORMS:%=test-c-%): test-c-%:
	$(Q)$(call need-platform,$*) \
		$(call need,$(call processor,$*)-linux-gnu-g++ --version,apt-get install g++-$(subst \
			_,-,$(call processor,$*))-linux-gnu) \
		$(if $(call emulator,$*),$(call need,$(firstword $(call emulator,$*)) \
			--version,apt-get install qemu-user)) \
		echo '  TEST    $*$(if $(strip $(call left-out,$*)),$(comma) without $(sort \
			$(call left-out,$*)))'; \
		$(if $(call emulator,$*),KTAP_TIMEOUT=600 KTAP_RUN='$(call emulator,$*)') \
		$(MAKE) --no-print-directory $(call platform,$*) \
		CPPFLAGS='$(CPPFLAGS)$(call kernel-headers,$*)' C_TESTS='$(filter-out $(call \
			left-out,$*),$(C_TESTS))' test-c
