package guard

import (
	"context"
	"fmt"
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
	heartbeatInterval = 20 * time.Second // between two announcements
	heartbeatLife     = time.Minute      // of each of them
	maxInstanceLength = 128              // bytes
)

// Instance names this Guard to people: package inspect, and the programs built on it, show it for
// holders and waiting processes. While the Guard holds or wants a lock it
// writes the name to Redis every 20 s, where it stays for a minute. The name is no secret.
// The default is the host's name and the process's id, as in "web-7:4711"; an empty name
// switches this off. A name is UTF-8 and has at most 128 bytes. A Guard by NewWithStore
// publishes it only if the store has a method Announce, see package guardstore.
func Instance(name string) Option {
	return guardOption(func(c *config) error {
		switch {
		case len(name) > maxInstanceLength:
			return &OptionError{"Instance", fmt.Sprintf("has %d bytes, the most is %d", len(name), maxInstanceLength)}
		case !utf8.ValidString(name):
			return &OptionError{"Instance", "is not UTF-8"}
		}
		c.instanceName = &name
		return nil
	})
}

// heartbeat writes the name of this process to the store while the Guard holds or wants a lock.
type heartbeat struct {
	store    guardstore.Announcer // nil = nothing is written
	tasks    *task.Group          // owns its goroutines
	instance string
	name     string        // of the instance; empty = nothing is written
	timeout  time.Duration // for one announcement

	due atomic.Int64 // a clock.Instant
}

// touch announces the name if 20 s have passed since the last announcement. It does not wait for the store.
func (h *heartbeat) touch(at clock.Instant) {
	due := h.due.Load()
	if h.store == nil || h.name == "" || at < clock.Instant(due) || !h.due.CompareAndSwap(due, int64(at.Add(heartbeatInterval))) {
		return
	}
	h.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), h.timeout)
		defer cancel()
		_ = h.store.Announce(ctx, h.instance, h.name, heartbeatLife)
	})
}

// hostAndProcess returns the name of an instance that has none, "web-7:4711": 85 bytes at most.
func hostAndProcess(host string, err error, process int) string {
	host = host[:min(len(host), 64)]
	if err != nil || !utf8.ValidString(host) {
		host = "unknown"
	}
	return host + ":" + strconv.Itoa(process)
}

// newHeartbeat makes the heartbeat of this Guard.
func (g *Guard) newHeartbeat() *heartbeat {
	host, err := os.Hostname()
	name := hostAndProcess(host, err, os.Getpid())
	if g.instanceName != nil {
		name = *g.instanceName
	}
	to, _ := g.store.(guardstore.Announcer)
	return &heartbeat{store: to, tasks: g.tasks, instance: g.instance, name: name, timeout: g.patience()}
}
