#!/bin/bash
# A debugger stops at the probes of a program and reads their arguments.
#
#   probes.sh DIRECTORY PROGRAM
#
# PROGRAM is verify/probes.c, run with the library of DIRECTORY.
set -euo pipefail
directory=$1 program=$2

want='start 1 1 0
cancel 1 1
start 1 1 0
start 1 1 1
cascade 1
expire_entry 2001000000 1
expire_exit 1
start 1 1 0
expire_entry 1000000 1
expire_exit 1
start 1 1 0
kick 1'

seen=$(LD_LIBRARY_PATH=$directory gdb -nx -q -batch -x "${0%.sh}.gdb" "$program" 2>&1)
if grep -q 'ptrace: Operation not permitted' <<< "$seen"; then
	echo '    skipped: the debugger may not trace (a container wants --cap-add SYS_PTRACE)'
	exit
fi
diff <(echo "$want") <(sed -n 's/^= //p' <<< "$seen") ||
	{ echo "$seen"; exit 1; }
echo '    figures: a debugger stops at each and reads its arguments'
