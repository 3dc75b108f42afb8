module hwheel

go 1.19
