package guardweb

import (
	"context"
	"time"

	"github.com/redlatch/redlatch/guard/inspect"
)

// Sizes gives how much a History remembers.
func Sizes(h *History) (names, events int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.names), len(h.events)
}

// StopClock has all that a History sees happen at one moment, until later moves on.
func StopClock(h *History) (later func(time.Duration)) {
	now := time.Now()
	h.now = func() time.Time { return now }
	return func(d time.Duration) { now = now.Add(d) }
}

// Filter gives how many keys match, as long as ctx lasts.
func Filter(ctx context.Context, keys ...string) int {
	var f found
	for _, key := range keys {
		f.locks = append(f.locks, inspect.Info{Key: key})
	}
	locks, _ := filter(ctx, f, func(string) bool { return true })
	return len(locks)
}

// Words are what the page says of an error.
func Words(err error) string { return words(err) }
