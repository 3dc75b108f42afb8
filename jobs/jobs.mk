# hwheel-jobs: durable timers in PostgreSQL. README.md is its page.
#
#   make jobs         build/hwheel-jobs
#   make demo-jobs    a job that fires on the second of two nodes
#   make test-jobs    against a real server, under three minutes
#   make bench-jobs   a million jobs; writes the end of README.md, eight minutes
#
# The tests and the benchmark start a server of their own.
JOBS_CARGO = $(CARGO) $(1) $(if $(V),,-q) --locked --manifest-path jobs/Cargo.toml \
	--target-dir $(TARGET)/jobs

.PHONY: jobs demo-jobs test-jobs bench-jobs have-postgres
jobs: | $(BUILD)
	$(call say,CARGO,hwheel-jobs)
	$(Q)$(call JOBS_CARGO,build) --release
	$(Q)cp $(TARGET)/jobs/release/hwheel-jobs $(BUILD)/

have-postgres:
	$(Q)PATH="$$PATH:$$(echo /usr/lib/postgresql/*/bin | tr ' ' :)" command -v initdb >/dev/null || \
		{ echo 'no PostgreSQL server is installed; on Debian: apt-get install postgresql'; exit 1; }

demo-jobs: have-postgres jobs
	$(Q)jobs/demo.sh $(BUILD)/hwheel-jobs

test-jobs: have-postgres
	$(call say,TEST,jobs)
	$(Q)$(call JOBS_CARGO,test)
	$(Q)$(MAKE) --no-print-directory demo-jobs

bench-jobs: have-postgres
	$(call say,BENCH,jobs)
	$(Q)$(call JOBS_CARGO,bench) --bench storm -- $(abspath jobs/README.md)
