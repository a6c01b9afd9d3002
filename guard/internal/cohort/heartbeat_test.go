package cohort_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/cohort"
	"github.com/redlatch/redlatch/guard/internal/task"
)

// announcer counts announcements, each of which takes so long.
type announcer struct {
	takes time.Duration
	names []string
	err   error // how the last one ended
}

func (s *announcer) Announce(ctx context.Context, instance, name string, life time.Duration) error {
	s.names = append(s.names, instance+" "+name+" "+life.String())
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
	}
	s.err = ctx.Err()
	return s.err
}

func TestHeartbeat_TouchAnnouncesNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &announcer{takes: time.Hour}, task.NewGroup()
		p := cohort.NewHeartbeat(cohort.HeartbeatConfig{Store: s, Tasks: g, Instance: "0123", Name: "web-7:1", Timeout: time.Second})
		begun := time.Now()
		for range 61 { // a minute
			p.Touch(clock.Now())
			time.Sleep(time.Second)
		}
		assert.Equal(t, 61*time.Second, time.Since(begun), "nobody waits for it")
		<-g.Close()
		assert.Equal(t, []string{"0123 web-7:1 1m0s", "0123 web-7:1 1m0s", "0123 web-7:1 1m0s", "0123 web-7:1 1m0s"}, s.names)
		assert.ErrorIs(t, s.err, context.DeadlineExceeded)
	})
}

func TestHeartbeat_WithoutANameAnnouncesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &announcer{}, task.NewGroup()
		cohort.NewHeartbeat(cohort.HeartbeatConfig{Store: s, Tasks: g, Instance: "0123", Timeout: time.Second}).Touch(clock.Now())
		cohort.NewHeartbeat(cohort.HeartbeatConfig{Tasks: g, Instance: "0123", Name: "web-7:1", Timeout: time.Second}).Touch(clock.Now())
		<-g.Close()
		assert.Empty(t, s.names)
	})
}
