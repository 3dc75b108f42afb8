#!/bin/sh
# The first day with hwheel-jobs: roles, TLS, a queue, a job that a Python program takes, a
# job that fires on the second of two nodes after the first was killed, and a dead job that
# the page revives. Starts a server of its own, in a temporary directory, and removes it.
# usage: demo.sh PROGRAM|PACKAGE.deb
set -eu
given=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
PATH="$PATH:$(echo /usr/lib/postgresql/*/bin | tr ' ' :)"
dir=$(mktemp -d)
first='' second='' page='' taker=''

# PostgreSQL does not run as root.
server() {
	if [ "$(id -u)" = 0 ]; then
		runuser -u postgres -- "$@"
	else
		"$@"
	fi
}
finish() {
	kill $first $second $page $taker 2>/dev/null || true
	wait
	server "$(command -v pg_ctl)" -D "$dir/data" -m immediate stop >/dev/null 2>&1 || true
	rm -rf "$dir"
}
trap finish EXIT
[ "$(id -u)" != 0 ] || chown postgres "$dir"
sql() {
	psql -qAtX -v ON_ERROR_STOP=1 -h "$dir" -p $port -U postgres postgres -c "$1"
}
app() {
	psql -qAtX -v ON_ERROR_STOP=1 "$where user=shop" -c "$1" >/dev/null
}
wait_for() {
	for _ in $(seq 600); do
		[ "$(sql "SELECT $1")" != t ] || return 0
		sleep 0.1
	done
	echo "never true: $1" >&2
	exit 1
}
has() {
	command -v "$1" >/dev/null || { echo "  SKIPPED: $1 is not installed"; return 1; }
}

program=$given
case $given in *.deb)
	echo "* The package $(basename "$given"), unpacked"
	dpkg-deb -x "$given" "$dir/root"
	program=$dir/root/usr/bin/hwheel-jobs;;
esac

echo '* A database server, with TLS and the schema of hwheel-jobs'
cd "$dir"
port=$((20000 + $$ % 10000))
server "$(command -v initdb)" -D data -U postgres -A trust -N -E UTF8 >/dev/null
where="host=$dir port=$port dbname=postgres"
tls=off
if has openssl; then
	server openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 9 \
		-keyout data/server.key -out data/server.crt -subj /CN=localhost \
		-addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE \
		2>/dev/null
	cp data/server.crt root.crt
	printf '%s\n' 'local all postgres trust' 'hostssl all all all scram-sha-256' > data/pg_hba.conf
	where="host=localhost port=$port dbname=postgres sslmode=verify-full sslrootcert=$dir/root.crt"
	tls=on
fi
server "$(command -v pg_ctl)" -D data -l log -w -o "-c listen_addresses=localhost -c port=$port \
	-c unix_socket_directories=$dir -c ssl=$tls" start >/dev/null
"$program" --db "host=$dir port=$port user=postgres" install
sql "UPDATE hwheel.settings SET lease_length = '2 s'"

echo '* Roles: shop schedules, runner runs, operator uses the page'
"$program" install --grants > grants.sql
sql "$(cat grants.sql)"
for role in shop:app runner:node operator:app; do
	password=$(od -An -N12 -tx1 /dev/urandom | tr -d ' \n')
	sql "CREATE ROLE ${role%:*} LOGIN PASSWORD '$password' IN ROLE hwheel_${role#*:}"
	echo "*:*:*:${role%:*}:$password" >> passwords
done
chmod 600 passwords
export PGPASSFILE="$dir/passwords"
sql "CREATE TABLE mail (text text, at timestamptz DEFAULT clock_timestamp());
	CREATE FUNCTION send_mail(key text, due timestamptz, payload jsonb) RETURNS void
		LANGUAGE sql AS 'INSERT INTO mail VALUES (payload->>''text'')';
	CREATE FUNCTION charge(key text, due timestamptz, payload jsonb) RETURNS void
		LANGUAGE plpgsql AS 'BEGIN INSERT INTO invoice VALUES (key); END';
	CREATE TABLE sent (key text);
	GRANT INSERT ON mail TO hwheel_node;
	GRANT INSERT ON sent TO hwheel_app"

echo '* The first node, and a job that is due in 6 s'
"$program" --db "$where user=runner" run --name first & first=$!
app "SELECT hwheel.schedule('hello', now() + interval '6 s', sql => 'send_mail',
	payload => '{\"text\": \"hello, 6 s later\"}')"
wait_for "EXISTS (SELECT FROM hwheel.job WHERE state = 'claimed')"
"$program" --db "$where user=operator" list

echo '* The first node is killed; the second has to notice it'
"$program" --db "$where user=runner" run --name second & second=$!
kill -9 "$first"
wait "$first" 2>/dev/null || true
first=''
wait_for "EXISTS (SELECT FROM mail)"
wait_for "EXISTS (SELECT FROM hwheel.node WHERE name = 'second' AND lateness <> '{}')"
sql "SELECT format('* \"%s\" was sent once, %s ms late', max(text),
	round(extract(epoch FROM max(mail.at - due)) * 1000, 1))
	FROM mail, hwheel.all_jobs WHERE key = 'hello' HAVING count(*) = 1"

echo '* A queue, whose jobs a Python program takes'
"$program" --db "$where user=operator" queue letters --max-running 2
if python3 -c 'import psycopg as p; assert tuple(map(int, p.__version__.split(".")[:3])) >= (3, 2, 4)' 2>/dev/null; then
	PYTHONPATH=$here/workers/python/src DATABASE_URL="$where user=shop" \
		python3 "$here/tests/workers/program.py" letters & taker=$!
	app "SELECT hwheel.schedule('letter-' || i, now() + interval '1 s', queue => 'letters')
		FROM generate_series(1, 3) i"
	wait_for "count(*) = 3 FROM sent"
	wait_for "count(*) = 3 FROM hwheel.all_jobs WHERE queue = 'letters' AND state = 'done'"
	echo '  Three letters are sent.'
else
	echo '  SKIPPED: Python has no psycopg 3.2.4; on Debian 13: apt-get install python3-psycopg'
fi

echo '* A job that dies, found and revived on the page'
app "SELECT hwheel.schedule('invoice-17', now(), sql => 'charge', max_attempts => 1)"
wait_for "EXISTS (SELECT FROM hwheel.job WHERE state = 'dead')"
has curl || exit 0
HWHEEL_WEB_TOKEN=$(od -An -N12 -tx1 /dev/urandom | tr -d ' \n')
export HWHEEL_WEB_TOKEN
"$program" --db "$where user=operator" web --listen 127.0.0.1:0 2> page.log & page=$!
for _ in $(seq 600); do
	! grep -q 'the page is on' page.log || break
	sleep 0.1
done
url=$(sed -n 's|.*the page is on \(http://[0-9.:]*\)/.*|\1|p' page.log)
get() {
	curl -fsS --noproxy '*' -u "operator:$HWHEEL_WEB_TOKEN" "$@"
}
get "$url/jobs?view=dead" > dead.html
id=$(sed -n 's|.*href="/job/\([0-9]*\)"><bdi>invoice-17<.*|\1|p' dead.html)
printf '  The page says: %s\n' "$(get "$url/job/$id" | sed -n \
	's|.*<th>last error</th><td><bdi>\([^<]*\)<.*|\1|p' | sed 's/&quot;/"/g')"
sql 'CREATE TABLE invoice (key text); GRANT INSERT ON invoice TO hwheel_node'
token=$(sed -n 's|.*name="token" value="\([^"]*\)".*|\1|p' dead.html)
get -o /dev/null --data-urlencode "token=$token" -d "id=$id" "$url/revive"
wait_for "EXISTS (SELECT FROM invoice)"
echo '  invoice-17 lives again, and is charged.'
"$program" --db "$where user=operator" stats
