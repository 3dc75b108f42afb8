# Prints the probes that verify/probes.c comes past, with their arguments.
set pagination off
set breakpoint pending on
set debuginfod enabled off
set language c

break -probe-stap hwheel:start
commands
silent
printf "= start %d %d %ld\n", $_probe_arg1 != 0, $_probe_arg2 != 0, $_probe_arg3
continue
end

break -probe-stap hwheel:cancel
commands
silent
printf "= cancel %d %ld\n", $_probe_arg1 != 0, $_probe_arg2
continue
end

break -probe-stap hwheel:expire_entry
commands
silent
printf "= expire_entry %ld %d\n", $_probe_arg2, $_probe_arg3 == (long)&'probes.c'::fired
continue
end

break -probe-stap hwheel:expire_exit
commands
silent
printf "= expire_exit %d\n", $_probe_arg1 != 0
continue
end

break -probe-stap hwheel:kick
commands
silent
printf "= kick %d\n", $_probe_arg1 != 0
continue
end

break -probe-stap hwheel:cascade
commands
silent
printf "= cascade %d\n", $_probe_arg1 != 0
continue
end

run
