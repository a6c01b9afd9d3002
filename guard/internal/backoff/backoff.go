package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	afterSuccess = time.Second            // the longest pause after a try that went well
	afterFailure = 100 * time.Millisecond // the longest one after the first failure; it doubles
	longest      = 10 * time.Second       // and grows to this
)

// Backoff counts the failures in a row of one retry loop. Its zero value has counted none.
type Backoff struct {
	failures int // since a try went well
}

// Well gives the pause after a try that went well.
func (p *Backoff) Well() time.Duration {
	p.failures = 0
	return jittered(afterSuccess)
}

// Failed gives the pause after a try that failed after it had gone well for a while. A long while
// took none of the earlier failures to get there.
func (p *Backoff) Failed(while time.Duration) time.Duration {
	if while > longest {
		p.failures = 0
	}
	most := longest
	if p.failures < 7 { // 100 ms * 2^7 is more than 10 s
		most = afterFailure << p.failures
		p.failures++
	}
	return jittered(most)
}

// jittered gives a duration between half of d and d.
func jittered(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) } //nolint:gosec // jitter

// Pause waits for d, unless ctx ends or stop is closed before that.
func Pause(ctx context.Context, stop <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-stop:
	}
}
