#!/bin/sh
# Runs bindings/<language>/binding.sh for each language given, and sums up.
#
#   run.sh <command> <scratch directory> <language>...
#
# The command is test or package; suites.sh and bench.sh run the others. The script gets
# the command as its argument. Of the command test, VERSIONS names the versions of the
# language, of those that `binding.sh versions` prints, the oldest first:
#   all              each of them
#   ends             the oldest and the newest
#   3.9.6 18.17.1    these, whatever the language
# Without VERSIONS, and for a language that prints none, it is the version that is found.
# The script runs in its own directory, with
#   HWHEEL_PREFIX    where the library is installed: include/, lib/
#   HWHEEL_PRIVATE   what the static library wants of the system
#   PKG_CONFIG_PATH, LD_LIBRARY_PATH   set so that both find that library
#   SCRATCH          an absolute directory of its own for whatever it makes,
#                    kept from run to run
#   CC, CXX          the compilers
#   VERSION          the version of the language, or nothing
# and exits with 0 if it passed, with 77 if it was skipped, the last line of
# its output saying why and what to install, and otherwise with something else.
# Of what passes only the last line is shown; V=1 shows all.
set -u
command=$1 scratch=$2
shift 2
limit=${BINDING_TIMEOUT:-900}
here=$(dirname "$0")
export PKG_CONFIG_PATH="$HWHEEL_PREFIX/lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"
export LD_LIBRARY_PATH="$HWHEEL_PREFIX/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

[ "$command" = test ] || VERSIONS=
mkdir -p "$scratch" || exit
runs=$(for language in "$@"; do
	known=$(cd "$here/$language" && ./binding.sh versions) || exit
	case ${VERSIONS:-} in
	'') these= ;;
	all) these=$known ;;
	ends) these=$(echo "$known" | sed -n '1p; $p' | uniq) ;;
	*) these=$(echo "$VERSIONS" | tr ' ' '\n' | grep -Fx -e "$known") || continue ;;
	esac
	for version in ${these:--}; do echo "$language $version"; done
done) || exit
[ -n "$runs" ] || { echo "no version of VERSIONS='$VERSIONS' is one of $*"; exit 1; }

n=0 pass=0 fail=0 skip=0
printf 'KTAP version 1\n1..%s\n' "$(echo "$runs" | wc -l)"
while read -r language VERSION <&3; do
	n=$((n + 1))
	SCRATCH=$scratch/$language title="$language $VERSION"
	log=$scratch/$language.$command.log
	if [ "$VERSION" = - ]; then
		VERSION='' title=$language
	else
		SCRATCH=$SCRATCH/$VERSION
		log=$scratch/$language-$VERSION.$command.log
	fi
	export SCRATCH VERSION
	mkdir -p "$SCRATCH"
	(cd "$here/$language" && timeout "$limit" ./binding.sh "$command") >"$log" 2>&1
	code=$?
	last=$(tail -n 1 "$log")
	if [ -n "${V:-}" ] || { [ $code -ne 0 ] && [ $code -ne 77 ]; }; then
		sed 's/^/# /' "$log"
	fi
	case $code in
	0) pass=$((pass + 1)); [ -z "$last" ] || echo "# $last"; echo "ok $n $title" ;;
	77) skip=$((skip + 1)); echo "ok $n $title # SKIP $last"; echo "  skipped: $title: $last" ;;
	*) fail=$((fail + 1)); echo "not ok $n $title # exit $code" ;;
	esac
done 3<<END
$runs
END
printf '  bindings: %s passed, %s failed, %s skipped\n' "$pass" "$fail" "$skip"
[ "$fail" -eq 0 ] && [ "$n" -gt 0 ]
