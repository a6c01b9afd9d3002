package embedded

import (
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// resolution is how exactly a ttl is kept. An embedded Redis may drop a key earlier than
// a real one by this much, so it has to be less than what a lease keeps in reserve.
const resolution = time.Millisecond

// keyClock makes the keys of a miniredis age with the time that passes; by itself it lets
// none expire.
//
// It runs before each command that a client sends, rather than in a goroutine: a
// goroutine that gets its turn late would age a key by time from before
// the key was set, and a lock would lapse under a holder that may trust it. It does not run for the commands inside a script: time stands still in a script,
// as in Redis. (miniredis's own ClockTTL lets keys expire between two calls of one.)
type keyClock struct {
	redis   *miniredis.Miniredis
	clients sync.Map // *server.Peer of connections, as keys

	mu   sync.Mutex // protects last
	last time.Time  // up to when the keys have aged
}

func newClock(m *miniredis.Miniredis) *keyClock {
	return &keyClock{redis: m, last: time.Now()}
}

// tick is a server.Hook. It never answers the command itself.
func (c *keyClock) tick(peer *server.Peer, _ string, _ ...string) bool {
	if c.sentByClient(peer) {
		c.catchUp()
	}
	return false
}

// sentByClient distinguishes a connection from the peer that miniredis makes up for a call
// inside a script. The peer comes with its Ctx set, a connection gets one while it
// runs its first command. Inside a script the server is locked, and aging keys would
// wait for ever.
func (c *keyClock) sentByClient(peer *server.Peer) bool {
	if peer.Ctx == nil {
		if _, known := c.clients.LoadOrStore(peer, struct{}{}); !known {
			peer.OnDisconnect(func() { c.clients.Delete(peer) })
		}
		return true
	}
	_, known := c.clients.Load(peer)
	return known
}

func (c *keyClock) catchUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if elapsed := now.Sub(c.last); elapsed >= resolution {
		c.redis.FastForward(elapsed)
		c.last = now
	}
}
