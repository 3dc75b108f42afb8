#!/bin/bash
# Checks the documents: what they link to and name is there, and their commands
# work. Those are every block marked sh, a document at a time, in a directory of
# its own that holds the program of the README, where the source has it. What CI
# runs by itself is not run again, and of the long targets of make only that they
# exist is checked; each is said.
set -eu
make=$1 cc=$2
shift 2
repo=$PWD
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export HOME=$dir CARGO_HOME=${CARGO_HOME:-$HOME/.cargo} RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup}

mkdir "$dir/examples"
awk '/^```c$/ {on=1; next} /^```/ {if (on) exit; on=0} on' README.md > "$dir/examples/hello.c"
diff -u examples/hello.c "$dir/examples/hello.c" ||
	{ echo "README.md's program is not examples/hello.c"; exit 1; }

mkdir "$dir/bin"
ln -s "$(command -v "$cc")" "$dir/bin/cc"
cat > "$dir/bin/make" <<END
#!/bin/bash
set -eu
PATH='$PATH'
unset MAKEFLAGS MAKELEVEL
cd '$repo'
if [[ "\$*" == demo || "\$*" == test ]] || grep -q "^[^#]*step.* make \$1\b" .ci/run; then
	echo "    by CI:   make \$*"
elif [[ "\$1" == install || "\$1" == uninstall ]]; then
	echo "    run:     make \$*"
	'$(command -v "$make")' --no-print-directory "\$@" >/dev/null
else
	echo "    exists:  make \$*"
	'$(command -v "$make")' --no-print-directory -n "\$@" >/dev/null
fi
END
printf '#!/bin/sh\necho "    by CI:   sudo $*"\n' > "$dir/bin/sudo"
chmod +x "$dir/bin/make" "$dir/bin/sudo"

# Somebody calls each target: a document, the help, CI, a package or a script names it, or it
# is a part of one of these.
called=$(
	$make -s help | awk '$1 == "make" { print $2 }'
	sed -nE 's/^(TEST|CHECK|LONG)_PARTS \+= |^VERIFY_(SHORT|LONG) \+= //p' Makefile ./*/*.mk
	grep -rohE '\bmake (-[a-zA-Z]+ )?[a-z0-9_-]+' --include='*.md' --include='*.sh' \
		--include='*.py' --include='*.rs' --include='*.txt' --include='*.yml' \
		--exclude-dir={.git,build,target,vendor,node_modules} . .ci/* | sed 's/.* //'
	sed -n 's/.*_target = "\(.*\)",/\1/p' bindings/luajit/*.rockspec
	sed -n 's/^hwheel_make([a-z_]* \([a-z]*\) .*/\1/p' CMakeLists.txt
)
for target in $($make -pn help 2>/dev/null | sed -n 's/^\.PHONY: *//p' | sed 's/\bforce\b//'); do
	grep -qwxF -- "$target" <(tr ' ' '\n' <<<"$called") ||
		{ echo "nobody calls make $target"; exit 1; }
done

# The map of the files has them all.
for file in src/*.rs src/*/*.rs src/*/*/*.rs; do
	case $file in src/tests/*) continue;; esac
	grep -qF "| \`${file#src/}\` " docs/ARCHITECTURE.md ||
		{ echo "the map in docs/ARCHITECTURE.md does not name $file"; exit 1; }
done

for doc in "$@"; do
	# Every relative link leads to a file.
	grep -o '](\([^)#]*\))' "$doc" | sed 's/^](//; s/)$//' | grep -v : |
		while read -r link; do
			[ -e "$(dirname "$doc")/$link" ] ||
				{ echo "$doc: no file $link"; exit 1; }
		done
	# Every function that it names exists.
	grep -oE '\bhwheel_[a-z_]+\(' "$doc" | tr -d '(' | sort -u |
		while read -r name; do
			grep -q "^	$name;" hwheel.map ||
				{ echo "$doc: there is no $name()"; exit 1; }
		done
	awk '/^```sh$/ {on=1; next} /^```/ {on=0} on' "$doc" > "$dir/commands"
	[ -s "$dir/commands" ] || continue
	if grep -q pkg-config "$dir/commands" && ! command -v pkg-config >/dev/null; then
		echo "    skipped: $doc, pkg-config is not installed (apt-get install pkg-config)"
		continue
	fi
	(cd "$dir" && PATH="$dir/bin:$PATH" bash -euo pipefail commands) ||
		{ echo "a command of $doc failed"; exit 1; }
done
