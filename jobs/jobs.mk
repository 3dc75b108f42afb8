# hwheel-jobs: durable timers in PostgreSQL. README.md is its page.
#
#   make jobs           build/hwheel-jobs; 2 minutes
#   make install-jobs   the program, and units for systemd; uninstall-jobs removes them
#   make demo-jobs      a first day: TLS, a queue, Python, a killed node, the page
#   make check CHECK=jobs   the tests in which nothing fails
#   make test-jobs      all of them, against real servers; 6 minutes
#   make storm-jobs     all failures at once, and a neighbour; half an hour, or STORM seconds
#   make bench-jobs     a million jobs, and three peers; writes the end of README.md; 25 minutes
#
# Tests and benchmark start a server of their own.
# In its directory, so that cargo finds the crates that `make deb` has put there.
JOBS_CARGO = env -C jobs $(CARGO) $(1) --locked --target-dir '$(abspath $(TARGET))/jobs'
JOBS_PROGRAM = $(TARGET)/jobs/$(CARGO_BUILD_TARGET)/release/hwheel-jobs

.PHONY: jobs jobs-workers install-jobs uninstall-jobs demo-jobs test-jobs storm-jobs bench-jobs
jobs: | $(BUILD)
	$(need-rust)
	$(call say,CARGO,hwheel-jobs)
	$(Q)$(call JOBS_CARGO,build) --release
	$(Q)cp $(JOBS_PROGRAM) $(BUILD)/

# hwheel-jobs@NAME.service and hwheel-jobs-web@NAME.service read /etc/hwheel-jobs/NAME.
JOBS_UNITS = $(DESTDIR)$(PREFIX)/lib/systemd/system
# $(call unit,what,subcommand,its variable,its arguments)
unit = sed -e 's|@BINDIR@|$(BINDIR)|; s|@WHAT@|$(1)|; s|@COMMAND@|$(2)|' \
	-e 's|@OPTIONS@|$(3)|; s|@LINE@|$(4)|' jobs/hwheel-jobs@.service.in
units = $(call unit,A node,run,OPTIONS=--kinds sql$(comma)http,run --name %H:%i $$OPTIONS) \
		> '$(1)/hwheel-jobs@.service' && \
	$(call unit,The page,web,HWHEEL_WEB_TOKEN=...,web $$WEB_OPTIONS) \
		> '$(1)/hwheel-jobs-web@.service'
$(BUILD)/units: force
	$(Q)rm -rf $@ && mkdir -p $@
	$(Q)$(call units,$@)

install-jobs: jobs
	$(call say,INSTALL,$(DESTDIR)$(PREFIX))
	$(Q)$(INSTALL) -d '$(DESTDIR)$(BINDIR)' '$(JOBS_UNITS)' '$(DESTDIR)$(MANDIR)/man1'
	$(Q)$(INSTALL) -m 755 $(BUILD)/hwheel-jobs '$(DESTDIR)$(BINDIR)/'
	$(Q)$(INSTALL) -m 644 jobs/hwheel-jobs.1 '$(DESTDIR)$(MANDIR)/man1/'
	$(Q)$(call units,$(JOBS_UNITS))
	$(Q)chmod 644 '$(JOBS_UNITS)'/hwheel-jobs*@.service

uninstall-jobs:
	$(call say,REMOVE,$(DESTDIR)$(PREFIX))
	$(Q)rm -f '$(DESTDIR)$(BINDIR)/hwheel-jobs' '$(JOBS_UNITS)'/hwheel-jobs@.service \
		'$(JOBS_UNITS)'/hwheel-jobs-web@.service '$(DESTDIR)$(MANDIR)'/man1/hwheel-jobs.1

NO_POSTGRES = no PostgreSQL server is installed; on Debian: apt-get install postgresql
find-postgres = PATH="$$PATH:$$(echo /usr/lib/postgresql/*/bin | tr ' ' :)" command -v initdb >/dev/null
need-postgres = $(Q)$(find-postgres) || { echo '$(NO_POSTGRES)'; exit 1; }

demo-jobs: jobs
	$(need-postgres)
	$(Q)jobs/demo.sh $(BUILD)/hwheel-jobs

# The workers to import, with their drivers, and the programs of the tests. A language that is
# not there is left out, and the test says so.
WORKERS = $(TARGET)/jobs-workers
GO_WORKER = github.com/hwheel/hwheel/jobs/workers/go
jobs-workers:
	$(call say,BUILD,$(WORKERS))
	$(Q)mkdir -p $(WORKERS)
	$(Q)rm -rf $(WORKERS)/python && cp -r jobs/workers/python $(WORKERS)/
	$(Q)if { [ -e $(WORKERS)/venv ] || python3 -m venv $(WORKERS)/venv; } \
		&& $(WORKERS)/venv/bin/pip install -q mypy 'psycopg[binary]' $(WORKERS)/python; \
	then cd $(WORKERS)/python && ../venv/bin/mypy --no-error-summary; \
	else rm -rf $(WORKERS)/venv; echo 'SKIPPED: python'; fi
	$(Q)rm -rf $(WORKERS)/node_modules/hwheel-worker $(WORKERS)/program.mjs \
		&& npm install --silent --no-audit --install-links --prefix $(WORKERS) ./jobs/workers/node \
		&& cp jobs/tests/workers/program.mjs $(WORKERS)/ || echo 'SKIPPED: node'
	$(Q)mkdir -p $(WORKERS)/go && cp jobs/tests/workers/program.go $(WORKERS)/go/main.go && cd $(WORKERS)/go \
		&& rm -rf go.mod readme && if { go mod init program \
			&& go mod edit -replace $(GO_WORKER)=$(abspath jobs/workers/go) && go mod tidy; } >/dev/null 2>&1; \
	then go vet . && go build -o ../program-go .; \
	else echo 'SKIPPED: go'; fi
	$(Q)rm -rf $(WORKERS)/rust/src $(WORKERS)/rust/hwheel-worker-* $(WORKERS)/program-rust
	$(Q)mkdir -p $(WORKERS)/rust/src/bin && cp jobs/Cargo.lock $(WORKERS)/rust/ \
		&& cp jobs/tests/workers/program.rs $(WORKERS)/rust/src/bin/
	$(Q)printf '%s\n' '[package]' 'name = "program"' 'edition = "2021"' '[workspace]' '[dependencies]' \
		'hwheel-worker = { path = "hwheel-worker-$(VERSION)" }' 'postgres = "0.19"' \
		"$$(grep ^env_logger jobs/workers/rust/Cargo.toml)" > $(WORKERS)/rust/Cargo.toml
	$(Q)$(call JOBS_CARGO,package) -q -p hwheel-worker --no-verify --allow-dirty
	$(Q)tar -xmzf $(TARGET)/jobs/package/hwheel-worker-$(VERSION).crate -C $(WORKERS)/rust
	$(Q)cd $(WORKERS)/rust && $(CARGO) build -q --target-dir target && cp target/debug/program ../program-rust

# Most of the time the tests wait.
JOBS_THREADS = --test-threads 4
test-jobs: jobs-workers
	$(need-postgres)
	$(call say,TEST,jobs)
	$(Q)$(call JOBS_CARGO,test) -q --doc -p hwheel-worker
	$(Q)HWHEEL_WORKERS='$(abspath $(WORKERS))' $(call JOBS_CARGO,test) -- --include-ignored $(JOBS_THREADS)
	$(Q)$(MAKE) --no-print-directory demo-jobs

STORM = 1800
storm-jobs: jobs-workers
	$(need-postgres)
	$(call say,STORM,jobs for $(STORM) s)
	$(Q)HWHEEL_WORKERS='$(abspath $(WORKERS))' HWHEEL_STORM_SECONDS=$(STORM) \
		$(call JOBS_CARGO,test) --test storm -- --nocapture

# The peers of the benchmark.
PEERS = $(TARGET)/jobs-peers
$(PEERS)/peers-go: jobs/benches/peers.go jobs/jobs.mk
	$(call say,BUILD,$(PEERS))
	$(Q)mkdir -p $(PEERS)/go && cp jobs/benches/peers.go $(PEERS)/go/main.go
	$(Q)npm install --silent --no-audit --prefix $(PEERS) graphile-worker@0.18 pg-boss@12 pg@8
	$(Q)cd $(PEERS)/go && { [ -e go.mod ] || go mod init peers; } >/dev/null 2>&1 \
		&& go get github.com/riverqueue/river@v0.51.2 >/dev/null 2>&1 \
		&& go mod tidy >/dev/null 2>&1 && go build -o ../peers-go .

bench-jobs: $(PEERS)/peers-go
	$(need-postgres)
	$(call say,BENCH,jobs)
	$(Q)HWHEEL_PEERS='$(abspath $(PEERS))' $(call JOBS_CARGO,bench) --bench storm -- '$(abspath jobs/README.md)'
