package retry

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	afterSuccess = time.Second            // the longest pause after a success
	afterFailure = 100 * time.Millisecond // the longest pause after the first failure; it doubles
	longest      = 10 * time.Second       // the longest pause
)

// Backoff counts the failures in a row of one loop. The zero value is ready to use.
type Backoff struct {
	failures int // since the last success
}

// Reset returns the pause after a success and forgets the failures.
func (b *Backoff) Reset() time.Duration {
	b.failures = 0
	return jittered(afterSuccess)
}

// Next returns the pause after a failure. If the attempt had run for longer than 10 s, the count
// starts again.
func (b *Backoff) Next(while time.Duration) time.Duration {
	if while > longest {
		b.failures = 0
	}
	most := longest
	if b.failures < 7 { // 100 ms * 2^7 is more than 10 s
		most = afterFailure << b.failures
		b.failures++
	}
	return jittered(most)
}

// jittered returns a duration between half of d and d.
func jittered(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// Pause waits for d, unless ctx ends or stop is closed before that. It returns whether stop was closed.
func Pause(ctx context.Context, stop <-chan struct{}, d time.Duration) (stopped bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-stop:
		return true
	}
	return false
}
