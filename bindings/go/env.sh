# Sourced by test.sh and bench.sh: Go, with its caches kept out of the way.
. ../lib.sh
need 'no Go of version 1.19 or later: apt-get install golang-go' \
	sh -c 'go version | grep -E "go(1\.(19|[2-9][0-9])|[2-9])"'
need 'no C compiler, which cgo wants: apt-get install gcc' "${CC:-cc}" --version
export GOCACHE="$SCRATCH/cache" GOFLAGS=-mod=mod GOTOOLCHAIN=local GOPROXY=off
