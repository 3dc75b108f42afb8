package hwheel

/*
#cgo pkg-config: hwheel
*/
import "C"
