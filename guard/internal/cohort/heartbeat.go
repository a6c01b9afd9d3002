package cohort

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

// Heartbeat writes the name of this process to the store while it holds or wants a lock.
type Heartbeat struct {
	HeartbeatConfig
	due atomic.Int64 // a clock.Instant
}

// HeartbeatConfig is what a Heartbeat needs.
type HeartbeatConfig struct {
	Store    guardstore.Announcer // nil = nothing is written
	Tasks    *task.Group          // owns its goroutines
	Instance string
	Name     string        // of the instance; empty = nothing is written
	Timeout  time.Duration // for one announcement
}

// NewHeartbeat makes a Heartbeat.
func NewHeartbeat(c HeartbeatConfig) *Heartbeat { return &Heartbeat{HeartbeatConfig: c} }

// Touch announces the name if 20 s have passed since it was announced.
func (h *Heartbeat) Touch(at clock.Instant) {
	due := h.due.Load()
	if h.Store == nil || h.Name == "" || at < clock.Instant(due) || !h.due.CompareAndSwap(due, int64(at.Add(interval))) {
		return
	}
	h.Tasks.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), h.Timeout)
		defer cancel()
		_ = h.Store.Announce(ctx, h.Instance, h.Name, life)
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
