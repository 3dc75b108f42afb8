#!/bin/sh
# Shows a job that fires on the second of two nodes after the first was killed.
# Starts a server of its own, in a temporary directory, and removes it.
# usage: demo.sh PROGRAM
set -eu
program=$(realpath "$1")
PATH="$PATH:$(echo /usr/lib/postgresql/*/bin | tr ' ' :)"
dir=$(mktemp -d)
first='' second=''

# PostgreSQL does not run as root.
server() {
	if [ "$(id -u)" = 0 ]; then
		runuser -u postgres -- "$@"
	else
		"$@"
	fi
}
finish() {
	kill $first $second 2>/dev/null || true
	wait
	server "$(command -v pg_ctl)" -D "$dir/data" -m immediate stop >/dev/null 2>&1 || true
	rm -rf "$dir"
}
trap finish EXIT
[ "$(id -u)" != 0 ] || chown postgres "$dir"
sql() {
	psql -qAtX -v ON_ERROR_STOP=1 -h "$dir" -U postgres postgres -c "$1"
}
wait_for() {
	for _ in $(seq 200); do
		[ "$(sql "SELECT $1")" != t ] || return 0
		sleep 0.1
	done
	echo "never true: $1" >&2
	exit 1
}

echo '* A database server, with the schema of hwheel-jobs'
cd "$dir"
server "$(command -v initdb)" -D data -U postgres -A trust -N >/dev/null
server "$(command -v pg_ctl)" -D data -l log -w \
	-o "-c listen_addresses='' -c unix_socket_directories=$dir" start >/dev/null
export DATABASE_URL="host=$dir user=postgres"
"$program" install
sql "UPDATE hwheel.settings SET lease_length = '2 s'
	; CREATE TABLE mail (text text, at timestamptz DEFAULT clock_timestamp())
	; CREATE FUNCTION send_mail(key text, due timestamptz, payload jsonb) RETURNS void
		LANGUAGE sql AS 'INSERT INTO mail VALUES (payload->>''text'')'"

echo '* The first node, and a job that is due in 6 s'
"$program" run --name first & first=$!
sql "SELECT hwheel.schedule('hello', now() + interval '6 s', sql => 'send_mail',
	payload => '{\"text\": \"hello, 6 s later\"}')" >/dev/null
wait_for "EXISTS (SELECT FROM hwheel.job WHERE state = 'claimed')"
"$program" list

echo '* The first node is killed; the second has to notice it'
"$program" run --name second & second=$!
kill -9 "$first"
wait "$first" 2>/dev/null || true
first=''
wait_for "EXISTS (SELECT FROM mail)"
wait_for "EXISTS (SELECT FROM hwheel.node WHERE name = 'second' AND lateness <> '{}')"
sql "SELECT format('* \"%s\" was sent once, %s ms late', max(text),
	round(extract(epoch FROM max(mail.at - due)) * 1000, 1))
	FROM mail, hwheel.job HAVING count(*) = 1"
