#!/bin/bash
# Parts of `make release` and `make dist-vendor`.
#
#   release.sh version <version>   every file that names the version names this one
#   release.sh tools               installs what a release needs, on Debian, as root
#   release.sh collect <version> <build> <release> <strict>
#                                  copies what was built, with its sums; says what is missing
#   release.sh vendor <directory> <cargo>
#                                  writes what a C project checks in to have the library in its
#                                  tree: the header, the licences, the source with the crates that
#                                  it is built of, and files for CMake, Meson and make, which call
#                                  cargo. It builds without a network. What only the tests and the
#                                  maintainers use is left out, and what git has not committed.
set -euo pipefail

case $1 in
version)
	version=$2 wrong=0
	named() { # named <file> <what it must have on a line>
		grep -qF -- "$2" "$1" || { echo "$1 does not name $version"; wrong=1; }
	}
	named Makefile "VERSION := $version"
	for manifest in Cargo.toml jobs/Cargo.toml bindings/rust/async/Cargo.toml jobs/workers/rust/Cargo.toml; do named $manifest "version = \"$version\""; done
	for part in MAJOR:1 MINOR:2 PATCH:3; do
		named include/hwheel.h "#define HWHEEL_VERSION_${part%:*} $(echo "$version" |
			cut -d . -f "${part#*:}")"
	done
	named meson.build "version: '$version'"
	named debian/changelog "hwheel ($version-"
	for python in bindings/python jobs/workers/python; do
		named $python/pyproject.toml "version = \"$version\""
	done
	for node in bindings/node jobs/workers/node; do
		named $node/package.json "\"version\": \"$version\""
	done
	for java in pom.xml README.md; do named bindings/java/$java "<version>$version</version>"; done
	named bindings/go/README.md "bindings/go v$version"
	named hwheel.cdx.json "hwheel@$version"
	named CHANGELOG.md "## $version"
	exit $wrong
	;;
tools)
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -q
	# Packages of another vendor for these languages conflict with Debian's.
	languages=()
	command -v javac >/dev/null || languages+=(default-jdk-headless)
	command -v npm >/dev/null || languages+=(nodejs npm)
	apt-get -o DPkg::Lock::Timeout=600 install -qy --no-install-recommends build-essential \
		ca-certificates debhelper gcc-aarch64-linux-gnu git libc6-dev lintian luajit \
		musl-dev musl-tools pkg-config python3-dev python3-venv "${languages[@]}"
	if [ "$(dpkg --print-architecture)" = amd64 ]; then
		# The C library for the other processor with musl is a package of that processor.
		dpkg --add-architecture arm64
		apt-get update -q
		apt-get -o DPkg::Lock::Timeout=600 install -qy --no-install-recommends musl-dev:arm64 ||
			echo 'there is no musl-dev:arm64 here: no archive for aarch64 with musl'
	fi
	command -v rustup >/dev/null || apt-get install -qy --no-install-recommends rustup
	rustup toolchain list | grep -q ^stable || rustup default stable
	for processor in x86_64 aarch64; do
		rustup target add $processor-unknown-linux-gnu $processor-unknown-linux-musl ||
			echo "rustup has no targets for $processor here"
	done
	cargo install -q --locked cargo-auditable cargo-cyclonedx@0.5.9
	;;
collect)
	version=$2 build=$3 release=$4 strict=$5 missing=0
	take() { # take <what it is> <pattern> [<its name in the release>]
		local file found= to
		for file in $2; do
			[ -e "$file" ] || continue
			to=$release/${3:-$(basename "$file")} found=1
			[ ! -e "$to" ] || { echo "two files are called $(basename "$to")"; exit 1; }
			cp "$file" "$to"
		done
		[ -n "$found" ] || { echo "  missing: $1"; missing=$((missing + 1)); }
	}
	take 'the source' "$build/hwheel-$version.tar.gz"
	for platform in x86_64-linux-gnu x86_64-linux-musl aarch64-linux-gnu aarch64-linux-musl; do
		take "the prebuilt archive for $platform" "$build/hwheel-$version-$platform.tar.gz"
	done
	take 'packages for Debian' "$build/deb/*_$version-*.deb"
	take 'the crate' "$build/packages/rust/target/package/hwheel-$version.crate"
	take 'the crate of futures' "$build/packages/rust/target/package/hwheel-async-$version.crate"
	take 'the wheel for Python' "$build/packages/python/dist/*.whl"
	# PyPI wants the name that the source of the library has.
	take 'the source for Python' "$build/packages/python/dist/*.tar.gz" \
		"hwheel-$version-python.tar.gz"
	take 'the package for npm' "$build/packages/node/dist/*.tgz"
	take 'the jar and its pom' "$build/packages/java/dist/hwheel-*"
	take 'the list of crates' hwheel.cdx.json "hwheel-$version.cdx.json"
	awk -v head="## $version" 'index($0, "## ") == 1 { on = index($0, head) == 1; next } on' \
		CHANGELOG.md >"$release/CHANGES.md"
	(cd "$release" && sha256sum -- * >SHA256SUMS)
	ls -l "$release" | awk 'NF > 2 { print "    " $9 ", " $5 " bytes" }'
	[ "$missing" -eq 0 ] || [ -z "$strict" ] || exit 1
	;;
vendor)
	dir=$2 cargo=$3
	rm -rf "$dir"
	mkdir -p "$dir/.cargo"
	git archive HEAD Cargo.toml Cargo.lock build.rs src include hwheel.map hwheel.pc.in Makefile \
		CMakeLists.txt meson.build LICENSE-MIT LICENSE-APACHE | tar -xC "$dir"
	rm -r "$dir/src/tests"
	cd "$dir"
	# Without the crates of tests and of model checkers, and the one that writes the header.
	awk '/^\[/ { on = !/^\[(build-dependencies|dev-dependencies|\[test\]|\[bench\]|target\.)/ }
		/^(readme|include) = |^# Regenerates|^header = / { skip = /\[$/; next }
		skip { skip = !/^\]/; next }
		on || !/./' Cargo.toml | cat -s >Cargo.trimmed
	awk '/feature = "header"/ { off = 1 } off && /^mod header/ { exit }
		!off; off && /;$/ { off = 0 }' build.rs | sed -e 's/sets `checked`/and sets `checked`/; s/, and writes the C header with the feature `header`//' \
		-e ':a' -e '/^\n*$/{$d;N;ba' -e '}' >build.trimmed
	mv Cargo.trimmed Cargo.toml
	mv build.trimmed build.rs
	"$cargo" vendor vendor >.cargo/config.toml 2>log || { cat log; exit 1; }
	rm log
	;;
*) exit 2 ;;
esac
