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
)

const (
	// MaxInstanceLength is the longest name of an instance, in bytes.
	MaxInstanceLength = 128

	presencePulse = 20 * time.Second // between two announcements
	presenceLife  = time.Minute      // of each of them
)

// Instance names this Guard to people: package inspect shows it for who holds and who
// waits, also in the programs that are built on it. While the Guard holds or wants a lock it
// writes the name to Redis every 20 s, where it stays for a minute. The name is no secret.
// The default is the host's name and the process's id, as in "web-7:4711"; an empty name
// switches this off. A name is UTF-8 and has at most 128 bytes. A Guard by NewWithStore
// tells it only if the store has a method Announce, see package guardstore.
func Instance(name string) Option {
	return guardOption(func(c *config) error {
		switch {
		case len(name) > MaxInstanceLength:
			return &OptionError{"Instance", fmt.Sprintf("has %d bytes, the most is %d", len(name), MaxInstanceLength)}
		case !utf8.ValidString(name):
			return &OptionError{"Instance", "is not UTF-8"}
		}
		c.instanceName = &name
		return nil
	})
}

// presence tells the store who this Guard is.
type presence struct {
	g    *Guard
	to   guardstore.Announcer // nil = nobody is told
	name string
	due  atomic.Int64 // a clock.Instant
}

func newPresence(g *Guard) *presence {
	p := &presence{g: g, name: hostAndProcess()}
	if g.instanceName != nil {
		p.name = *g.instanceName
	}
	if to, ok := g.store.(guardstore.Announcer); ok && p.name != "" {
		p.to = to
	}
	return p
}

// hostAndProcess is shorter than a name may be.
func hostAndProcess() string {
	host, err := os.Hostname()
	if err != nil || !utf8.ValidString(host) {
		host = "unknown"
	}
	return host[:min(len(host), 64)] + ":" + strconv.Itoa(os.Getpid())
}

// touch is called while a lock is held or wanted. That a name does not get through is no
// harm.
func (p *presence) touch(at clock.Instant) {
	due := p.due.Load()
	if p.to == nil || at < clock.Instant(due) || !p.due.CompareAndSwap(due, int64(at.Add(presencePulse))) {
		return
	}
	p.g.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), p.g.patience())
		defer cancel()
		_ = p.to.Announce(ctx, p.g.instance, p.name, presenceLife)
	})
}
