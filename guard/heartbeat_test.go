package guard

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard/internal/clock"
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
		p := &heartbeat{store: s, tasks: g, instance: "0123", name: "web-7:1", timeout: time.Second}
		begun := time.Now()
		for range 61 { // a minute
			p.touch(clock.Now())
			time.Sleep(time.Second)
		}
		assert.Equal(t, 61*time.Second, time.Since(begun), "no caller waits for it")
		<-g.Close()
		assert.Equal(t, []string{"0123 web-7:1 1m0s", "0123 web-7:1 1m0s", "0123 web-7:1 1m0s", "0123 web-7:1 1m0s"}, s.names)
		assert.ErrorIs(t, s.err, context.DeadlineExceeded)
	})
}

func TestHeartbeat_WithoutANameAnnouncesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &announcer{}, task.NewGroup()
		(&heartbeat{store: s, tasks: g, instance: "0123", timeout: time.Second}).touch(clock.Now())
		(&heartbeat{tasks: g, instance: "0123", name: "web-7:1", timeout: time.Second}).touch(clock.Now())
		<-g.Close()
		assert.Empty(t, s.names)
	})
}

func TestHostAndProcess_IsShortAndPrintable(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	assert.Equal(t, hostAndProcess(host, err, os.Getpid()), new(Guard).newHeartbeat().name)
	for name, c := range map[string]struct {
		host string
		err  error
		want string
	}{
		"as it is":     {"web-7", nil, "web-7:4711"},
		"as it can be": {strings.Repeat("w", 64), nil, strings.Repeat("w", 64) + ":4711"},
		"too long":     {strings.Repeat("w", 65), nil, strings.Repeat("w", 64) + ":4711"},
		"no text":      {"web\xff", nil, "unknown:4711"},
		"not known":    {"web-7", errors.New("not known"), "unknown:4711"},
		"cut apart":    {strings.Repeat("w", 63) + "ü", nil, "unknown:4711"},
	} {
		assert.Equal(t, c.want, hostAndProcess(c.host, c.err, 4711), name)
	}
}
