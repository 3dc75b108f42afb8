#!/bin/bash -eu
# Started by OSS-Fuzz in the source of the library; CC and OUT are its. The makefile has the
# flags of the program, which are those of its engine and sanitizer.
unset CFLAGS CXXFLAGS RUSTFLAGS
make build/fuzz/api CLANG="$CC"
cp build/fuzz/api "$OUT/"
verify/fuzz/corpus.sh unpack verify/fuzz/api.corpus build/fuzz/kept
zip -jqr "$OUT/api_seed_corpus.zip" build/fuzz/kept
printf '[libfuzzer]\nmax_len = 600\n' >"$OUT/api.options"
