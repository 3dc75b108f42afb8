#!/bin/sh
set -eu
"$CXX" -std=c++11 -O2 -I"$HWHEEL_PREFIX/include" -o "$SCRATCH/bench" bench.cpp \
	-L"$HWHEEL_PREFIX/lib" -lhwheel
"$SCRATCH/bench"
