//go:build race

package timers

func init() {
	underRaceDetector = true
}
