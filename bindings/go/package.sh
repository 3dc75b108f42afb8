#!/bin/bash
# The module as a proxy serves it, with the static library inside; got and used by a
# module in an empty directory.
set -euo pipefail
. ./env.sh
alone
arch=$(machine) || skip "$arch"
case $arch in x64) arch=amd64 ;; esac
need 'no Python, which makes the zip file: apt-get install python3' python3 --version
path=$(sed -n 's/^module //p' go.mod) version=v$HWHEEL_VERSION
tree="$SCRATCH/tree/$path@$version"
mkdir -p "$tree/timers"
cp timers/*.go "$tree/timers"
cp ./*.go go.mod README.md ../../LICENSE-* "$HWHEEL_PREFIX/include/hwheel.h" "$tree"
strip -g -o "$tree/libhwheel_linux_$arch.a" "$HWHEEL_PREFIX/lib/libhwheel.a"
# The library of the system stays for other machines and for who asks for it.
sed -i "1i //go:build hwheel_installed || !(linux \&\& $arch)\n" "$tree/link_installed.go"
cat >"$tree/link_linux_$arch.go" <<END
//go:build !hwheel_installed

package hwheel

/*
#cgo CFLAGS: -I\${SRCDIR}
#cgo LDFLAGS: \${SRCDIR}/libhwheel_linux_$arch.a -lgcc_s -lutil -lrt -lpthread -lm -ldl
*/
import "C"
END
[ -z "$(gofmt -l "$tree")" ] || { echo "gofmt: $(gofmt -l "$tree")"; exit 1; }

# The files that a module proxy serves.
proxy=$SCRATCH/dist/$path/@v
mkdir -p "$proxy"
echo "$version" >"$proxy/list"
echo "{\"Version\":\"$version\",\"Time\":\"2000-01-01T00:00:00Z\"}" >"$proxy/$version.info"
cp go.mod "$proxy/$version.mod"
(cd "$SCRATCH/tree" && find . -type f -printf '%P\n' | LC_ALL=C sort | python3 -c '
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_DEFLATED) as file:
    for name in sys.stdin.read().split():
        file.write(name)' "$proxy/$version.zip")

# The go.mod of README.md, up to the line for the tree.
awk '/^```/ { on = $0 == "```go.mod"; next } on && !/^replace/' README.md >"$SCRATCH/clean/go.mod"
export GOPROXY=file://$SCRATCH/dist GONOSUMDB=${path%/bindings/go}
export GOPATH=$SCRATCH/clean/path GOFLAGS='-mod=mod -modcacherw'
mkdir "$SCRATCH/clean/smallest"
cd "$SCRATCH/clean/smallest"
cat >main.go <<END
package main

import (
	"context"
	"fmt"
	"time"

	hwheel "$path"
)

func main() {
	wheel, err := hwheel.New(hwheel.Options{})
	if err != nil {
		panic(err)
	}
	defer wheel.Close()
	wheel.Once(hwheel.In(10*time.Millisecond), 42)
	ctx, done := context.WithCancel(context.Background())
	wheel.Run(ctx, make([]hwheel.Event, 1), func(events []hwheel.Event) {
		fmt.Println("hello", events[0].Cookie, "from", hwheel.Version())
		done()
	})
}
END
mv ../go.mod .
GOFLAGS=-modcacherw go mod tidy >"$SCRATCH/get" 2>&1 || { cat "$SCRATCH/get"; exit 1; }
grep -q "$path $version" go.mod
[ "$(go run .)" = "hello 42 from $HWHEEL_VERSION" ]
go mod vendor
[ "$(go run -mod=vendor .)" = "hello 42 from $HWHEEL_VERSION" ]
go test -count=1 "$path" "$path/timers" >"$SCRATCH/tests" || { cat "$SCRATCH/tests"; exit 1; }
echo "$path@$version, $(du -k "$proxy/$version.zip" | cut -f 1) kB: installed, first timer" \
	"fired, hostile calls passed"
