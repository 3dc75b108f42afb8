#!/bin/sh
# Builds nginx twice: with its tree of timers, and with the wheel of ngx_event_timer.c.
#
#   build.sh NGINX STAGE OUT
#
# NGINX is the source of nginx 1.18 or later, STAGE the prefix of an installed hwheel. OUT/tree
# and OUT/wheel get one copy each, with the program in objs/nginx. NGINX_FLAGS are further
# flags of its configure script.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
nginx=$1 stage=$2 out=$3

# The source of a release has it at the top, a checkout below auto.
configure=configure
[ -e "$nginx/configure" ] || configure=auto/configure

for kind in tree wheel; do
	rm -rf "$out/$kind"
	mkdir -p "$out"
	cp -r "$nginx" "$out/$kind"
	cc=-O2 ld=
	if [ $kind = wheel ]; then
		cp "$here/ngx_event_timer.h" "$here/ngx_event_timer.c" "$out/wheel/src/event/"
		cc="-O2 -I$stage/include" ld="$stage/lib/libhwheel.a -lpthread"
	fi
	(
		cd "$out/$kind"
		echo '#include <pcre2.h>' | cc -DPCRE2_CODE_UNIT_WIDTH=8 -E - >/dev/null 2>&1 ||
			without=--without-http_rewrite_module
		echo '#include <zlib.h>' | cc -E - >/dev/null 2>&1 ||
			without="${without:-} --without-http_gzip_module"
		./$configure --with-cc-opt="$cc" --with-ld-opt="$ld" ${without:-} ${NGINX_FLAGS:-}
		make -j2
	) >"$out/$kind.log" 2>&1 || {
		tail -20 "$out/$kind.log"
		exit 1
	} >&2
done
