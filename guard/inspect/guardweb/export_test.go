package guardweb

import (
	"time"
)

// StopClock has all that a History sees happen at one moment, until later moves on.
func StopClock(h *History) (later func(time.Duration)) {
	now := time.Now()
	h.now = func() time.Time { return now }
	return func(d time.Duration) { now = now.Add(d) }
}

// Words are what the page says of an error.
func Words(err error) string { return words(err) }
