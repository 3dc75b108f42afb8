# hwheel: build, test, install. V=1 shows the commands.
.PHONY: all test clean
all:
	cargo rustc --release --lib --crate-type staticlib

test:
	cargo test

clean:
	cargo clean
	rm -rf build
