package task_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard/internal/task"
)

// WaitIdle returns once nothing runs, or when its time is up, as often as it is called.
func TestGroup_WaitIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := task.NewGroup()
		waited := func(d time.Duration) time.Duration {
			begun := time.Now()
			g.WaitIdle(d)
			return time.Since(begun)
		}
		assert.Zero(t, waited(time.Second))
		for range 2 {
			g.Go(func() {}) // no goroutine waits for it
			synctest.Wait()
			g.Go(func() { time.Sleep(time.Second) })
			g.Go(func() { time.Sleep(2 * time.Second) })
			assert.Equal(t, 500*time.Millisecond, waited(500*time.Millisecond))
			assert.Equal(t, 1500*time.Millisecond, waited(time.Minute))
			assert.Zero(t, waited(time.Second))
		}
	})
}

func TestGroup_Close(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := task.NewGroup()
		g.Go(func() { time.Sleep(time.Second) })
		begun, gone := time.Now(), g.Close()
		assert.False(t, g.Go(func() { t.Error("it is closed") }))
		assert.False(t, task.IsClosed(gone))
		<-gone
		assert.Equal(t, time.Second, time.Since(begun))
		assert.Equal(t, gone, g.Close())
	})
}
