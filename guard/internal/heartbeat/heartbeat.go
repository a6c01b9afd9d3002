package heartbeat

import (
	"context"
	"os"
	"strconv"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/task"
)

const (
	interval = 20 * time.Second // between two announcements
	life     = time.Minute      // of each of them
)

// Heartbeat writes the name of this process to the store.
type Heartbeat struct {
	Config
	due atomic.Int64 // a clock.Instant
}

// Config is what a Heartbeat needs.
type Config struct {
	Store    guardstore.Announcer // nil = nothing is written
	Tasks    *task.Group          // owns its goroutines
	Instance string
	Name     string        // of the instance; empty = nothing is written
	Timeout  time.Duration // for one announcement
}

// New makes a Heartbeat.
func New(c Config) *Heartbeat { return &Heartbeat{Config: c} }

// Touch is called while a lock is held or wanted, with the present instant.
func (p *Heartbeat) Touch(at clock.Instant) {
	due := p.due.Load()
	if p.Store == nil || p.Name == "" || at < clock.Instant(due) || !p.due.CompareAndSwap(due, int64(at.Add(interval))) {
		return
	}
	p.Tasks.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), p.Timeout)
		defer cancel()
		_ = p.Store.Announce(ctx, p.Instance, p.Name, life)
	})
}

// HostAndProcess is the name of an instance that has none, "web-7:4711": 85 bytes at most.
func HostAndProcess() string {
	host, err := os.Hostname()
	return hostAndProcess(host, err, os.Getpid())
}

func hostAndProcess(host string, err error, process int) string {
	host = host[:min(len(host), 64)]
	if err != nil || !utf8.ValidString(host) {
		host = "unknown"
	}
	return host + ":" + strconv.Itoa(process)
}
