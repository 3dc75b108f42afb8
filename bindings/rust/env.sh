# Sourced by test.sh and bench.sh, which run in the root of the tree.
. ../lib.sh
need 'no Rust of version 1.85 or later: rustup install stable' cargo --version
cd ../..
