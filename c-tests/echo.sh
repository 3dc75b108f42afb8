#!/bin/bash
# What examples/echo_server.c promises, seen from outside: a silent connection and a
# dribbling one are closed in time, none is closed early, a talking one stays, and a
# client that does not read delays nobody.
# usage: echo.sh PROGRAM
set -eu
for _ in 1 2 3 4 5; do
	port=$((20000 + RANDOM % 20000))
	"$1" $port >/dev/null 2>&1 &
	server=$!
	trap 'kill $server 2>/dev/null' EXIT
	for _ in {1..100}; do
		{ exec 3<>/dev/tcp/127.0.0.1/$port; } 2>/dev/null && break 2
		kill -0 $server 2>/dev/null || break
		sleep 0.05
	done
done
since() { echo $(((${EPOCHREALTIME/./} - $1) / 1000)); }

# Milliseconds from $3 until descriptor $1 is at its end; a dribbler sends $2 meanwhile.
lasts() {
	local begin=$3 byte
	while (($(since "$begin") < 20000)); do
		[ -z "$2" ] || printf '%s' "$2" >&"$1" 2>/dev/null || break
		# 1 is the end, above 128 the time.
		read -r -t 0.1 -n 1 -u "$1" byte 2>/dev/null || [ $? -gt 128 ] || break
	done
	since "$begin"
}

exec 4<>/dev/tcp/127.0.0.1/$port 5<>/dev/tcp/127.0.0.1/$port
trap '' PIPE
slow=$(lasts 4 x "${EPOCHREALTIME/./}")
((slow >= 400 && slow < 1900)) || { echo "the dribbler was closed after $slow ms"; exit 1; }
begin=${EPOCHREALTIME/./}
while (($(since "$begin") < 3000)); do
	echo hello >&5
	read -r -t 5 -u 5 line && [ "$line" = hello ] || { echo 'no echo'; exit 1; }
	sleep 0.2
done
begin=${EPOCHREALTIME/./}
exec 6<>/dev/tcp/127.0.0.1/$port
idle=$(lasts 6 '' "$begin")
((idle >= 1900 && idle < 10000)) || { echo "the silent one was closed after $idle ms"; exit 1; }

# A line that begins in the packet that ends another one has a time of its own.
exec 7<>/dev/tcp/127.0.0.1/$port
for part in a $'\nb' $'\nc' $'\n'; do
	printf '%s' "$part" >&7 2>/dev/null || { echo 'a line was closed early'; exit 1; }
	sleep 0.3
done
read -r -t 5 -u 7 line && [ "$line" = a ] && read -r -t 5 -u 7 line && [ "$line" = b ] &&
	read -r -t 5 -u 7 line && [ "$line" = c ] || { echo 'a line was closed early'; exit 1; }

# Clients that leave without reading, and one that stays.
for _ in {1..20}; do
	head -c 20000 /dev/zero 2>/dev/null >/dev/tcp/127.0.0.1/$port || true
done
exec 8<>/dev/tcp/127.0.0.1/$port
timeout 1 cat /dev/zero >&8 2>/dev/null || true
exec 9<>/dev/tcp/127.0.0.1/$port
echo hello >&9
read -r -t 5 -u 9 line && [ "$line" = hello ] || { echo 'one client delayed another'; exit 1; }
kill -0 $server
