//go:build race

package timers

const underRaceDetector = true
