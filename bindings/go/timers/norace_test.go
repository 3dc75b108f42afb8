//go:build !race

package timers

const underRaceDetector = false
