package retry_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard/internal/retry"
)

func within(t *testing.T, most, got time.Duration) {
	t.Helper()
	assert.GreaterOrEqual(t, got, most/2)
	assert.LessOrEqual(t, got, most)
}

func TestBackoff_FailuresMakeThePauseLonger(t *testing.T) {
	t.Parallel()
	var p retry.Backoff
	for range 30 { // the longest pause is random
		p.Reset()
		for most := 100 * time.Millisecond; most < 10*time.Second; most *= 2 {
			within(t, most, p.Next(0))
		}
		within(t, 10*time.Second, p.Next(10*time.Second))
		within(t, 10*time.Second, p.Next(10*time.Second))
	}
	within(t, 100*time.Millisecond, p.Next(10*time.Second+1))
	within(t, 200*time.Millisecond, p.Next(0))
	within(t, time.Second, p.Reset())
	within(t, 100*time.Millisecond, p.Next(0))
}

func TestBackoff_APauseEnds(t *testing.T) {
	closed := make(chan struct{})
	close(closed)
	over, cancel := context.WithCancel(context.Background())
	cancel()
	for name, test := range map[string]struct {
		ctx  context.Context
		stop <-chan struct{}
		want time.Duration
	}{
		"by itself": {context.Background(), nil, time.Minute},
		"by stop":   {context.Background(), closed, 0},
		"by ctx":    {over, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				retry.Pause(test.ctx, test.stop, time.Minute)
				assert.Equal(t, test.want, time.Since(begun))
			})
		})
	}
}
