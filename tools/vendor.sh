#!/bin/bash
# Writes what a C project checks in to have the library in its tree: the header, the licences,
# the source with the crates that it is built of, and files for CMake, Meson and make, which call
# cargo. It builds without a network. What only the tests and the maintainers use is left out.
#
#   vendor.sh <directory> <cargo>	of the files that git has committed
set -euo pipefail
dir=$1 cargo=$2
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
