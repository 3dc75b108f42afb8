module github.com/hwheel/hwheel/bindings/go

go 1.19
