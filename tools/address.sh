#!/bin/bash
# Gives the project its public address, which the packages and the pages of the bindings name.
# Changes the files of the tree where it is started.
#
#   address.sh <host>/<owner>/<name>
set -euo pipefail
now=$(sed -n 's|^module \(.*\)/bindings/go$|\1|p' bindings/go/go.mod) to=${1:-}
[[ $to =~ ^[a-z0-9-]+(\.[a-z0-9-]+)+/[A-Za-z0-9_-]+/[A-Za-z0-9._-]+$ ]] ||
	{ echo "The address is '$to', not <host>/<owner>/<name>, as in $now" >&2; exit 1; }

# Maven's name for the owner: io.github.owner, io.gitlab.owner, otherwise the host
# backwards.
group() {
	local host=${1%%/*} owner
	owner=$(cut -d / -f 2 <<<"$1" | tr 'A-Z_' 'a-z-')
	case $host in
	github.com | gitlab.com) echo "io.${host%.com}.$owner" ;;
	*) echo "$(tr . '\n' <<<"$host" | tac | paste -sd .).$owner" ;;
	esac
}
from_group=$(group "$now") to_group=$(group "$to")
# The package of Java, its directory, and its name in the functions of C.
from_package=${from_group//-/_} to_package=${to_group//-/_}
from_jni=${from_package//_/_1} to_jni=${to_package//_/_1}
from_path=${from_package//./\/} to_path=${to_package//./\/}
grep -rlF -e "$now" -e "$from_group" -e "$from_package" -e "$from_path" bindings Cargo.toml \
	debian/watch hwheel.cdx.json jobs | while read -r file; do
	sed -i -e "s|${now//./\\.}|$to|g" \
		-e "s|\(<groupId>\|META-INF/maven/\)${from_group//./\\.}\b|\1$to_group|g" \
		-e "s|${from_package//./\\.}\b|$to_package|g" -e "s|$from_path\b|$to_path|g" \
		-e "s|Java_${from_jni//./_}_|Java_${to_jni//./_}_|g" "$file"
done
src=bindings/java/src
[ "$from_path" = "$to_path" ] || {
	mkdir -p "$src/$to_path"
	mv "$src/$from_path"/* "$src/$to_path/"
	(cd "$src" && rmdir -p --ignore-fail-on-non-empty "$from_path")
}
