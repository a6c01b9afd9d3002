package chaos_test

import (
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/redlatch/redlatch/internal/redistest"
)

// speech is how the workers of a run speak with servers.
type speech struct {
	TLS      int // how many servers speak it: the first ones
	Protocol int // RESP 2 or 3
}

// drawSpeech draws it for a topology. Those of a quorum do not speak TLS: while a link is silent,
// clients dial again and again, and the proxies, under the race detector, do not catch up with so
// many handshakes on two cores.
func drawSpeech(seed uint64, topo topology) (s speech) {
	rng := rand.New(rand.NewPCG(seed, 1<<33))
	if chance(rng, 33) && topo.name != "quorum" {
		s.TLS = topo.size
	}
	s.Protocol = 2 + rng.IntN(2)
	return s
}

func (s speech) String() string {
	if s.TLS > 0 {
		return fmt.Sprintf("RESP%d, to %d servers over TLS", s.Protocol, s.TLS)
	}
	return fmt.Sprintf("RESP%d", s.Protocol)
}

// proxy makes the way from a worker to the i-th server.
func (s speech) proxy(t *testing.T, i int, addr string) *redistest.Proxy {
	t.Helper()
	if i >= s.TLS {
		return redistest.NewProxy(t, addr)
	}
	p, _ := redistest.NewTLSProxy(t, addr)
	return p
}

// config is what a client of the i-th server takes. Whom it speaks with is not what is tested here.
func (s speech) config(i int) *tls.Config {
	if i >= s.TLS {
		return nil
	}
	return &tls.Config{
		InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, CurvePreferences: redistest.QuickCurves, //nolint:gosec // see above
	}
}

// wrap is for a dialer of the user's own, of servers that all speak alike: go-redis takes its
// connections as they are.
func (s speech) wrap(conn net.Conn) net.Conn {
	config := s.config(0)
	if config == nil {
		return conn
	}
	return tls.Client(conn, config)
}
