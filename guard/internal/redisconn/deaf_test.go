package redisconn_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// deafener dials connections that it can make half-open, as a firewall does that forgot
// them: Redis keeps writing, no process reads it, and no error comes.
type deafener struct {
	mu    sync.Mutex
	conns []*deafConn
}

type deafConn struct {
	net.Conn
	subscribed, deaf atomic.Bool
}

func (c *deafConn) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("subscribe")) {
		c.subscribed.Store(true)
	}
	return c.Conn.Write(b)
}

func (c *deafConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.deaf.Load() {
			return n, err
		}
	}
}

func (d *deafener) dial(_ context.Context, network, addr string) (net.Conn, error) {
	conn, err := net.Dial(network, addr)
	if err != nil {
		return nil, err
	}
	c := &deafConn{Conn: conn}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns = append(d.conns, c)
	return c, nil
}

// deafen makes the subscriptions that are open now deaf, and says how many that are.
func (d *deafener) deafen() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.conns {
		if c.subscribed.Load() {
			c.deaf.Store(true)
			n++
		}
	}
	return n
}

// A subscription goes half-open while its claim is far back in the queue: it does not hear
// that it comes to the front, nor that it is granted the lock, and it would ask by
// itself after ten seconds at the earliest. The probes that it does not hear either tell
// it to subscribe anew, and to ask.
func TestUnsubscribed_HalfOpenSubscriptionIsReplaced(t *testing.T) {
	t.Parallel()
	const queued = 8
	s := testenv.NewRedis(t)
	d := &deafener{}
	holder := s.Acquire(s.Guard(), "k")
	var hearing []*testenv.Caller
	for i := range queued {
		hearing = append(hearing, s.Caller(t.Context(), fmt.Sprint("hearing ", i), s.Guard(), "k"))
		s.AwaitQueue("k", i+1)
	}
	client := s.Server.Client(t, func(o *redis.Options) { o.Dialer = d.dial })
	deaf := s.Caller(t.Context(), "deaf", s.GuardOn(client), "k")
	owner := s.AwaitQueue("k", queued+1)[queued]
	s.Eventually(func() bool { return d.deafen() == 1 }, "a subscription to deafen")
	at := time.Now()
	s.Release(holder)
	for _, v := range hearing {
		v.Pass()
	}
	deaf.AwaitIn()
	assert.Less(t, deaf.At.Sub(at), 9*time.Second)
	channel := "redlatch:grant:" + strings.Split(owner, "-")[0]
	s.Eventually(func() bool { return s.Admin.PubSubNumSub(t.Context(), channel).Val()[channel] == 1 }, "the end of the old one")
	deaf.Pass()
}

// While no caller waits, nothing is sent: neither probes nor asks nor pings.
func TestUnsubscribed_IdleGuardSendsNothing(t *testing.T) {
	t.Parallel()
	s := testenv.NewRedis(t)
	g := s.Guard()
	holder := s.Acquire(s.Guard(), "k")
	waiter := s.Caller(t.Context(), "waiter", g, "k")
	s.AwaitQueue("k", 1)
	s.Eventually(func() bool { return s.Commands()["publish"] > 0 }, "a probe while a caller waits")
	s.Release(holder)
	waiter.Pass()
	s.Eventually(func() bool { return testenv.Remembered(g) == 0 }, "a Guard without keys and claims")
	s.ResetCommands()
	time.Sleep(1500 * time.Millisecond) // this is what is measured
	sent := s.Commands()
	assert.Zero(t, sent["publish"]+sent["evalsha"]+sent["eval"]+sent["ping"], "%v", sent)
}
