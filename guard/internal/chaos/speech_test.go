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
	TLS      bool
	Protocol int // RESP 2 or 3
}

func drawSpeech(seed uint64) speech {
	rng := rand.New(rand.NewPCG(seed, 1<<33))
	return speech{TLS: chance(rng, 33), Protocol: 2 + rng.IntN(2)}
}

func (s speech) String() string {
	if s.TLS {
		return fmt.Sprintf("RESP%d over TLS", s.Protocol)
	}
	return fmt.Sprintf("RESP%d", s.Protocol)
}

// proxy makes the way from a worker to a server.
func (s speech) proxy(t *testing.T, addr string) *redistest.Proxy {
	t.Helper()
	if !s.TLS {
		return redistest.NewProxy(t, addr)
	}
	p, _ := redistest.NewTLSProxy(t, addr)
	return p
}

// config is what a client takes. Whom it speaks with is not what is tested here.
func (s speech) config() *tls.Config {
	if !s.TLS {
		return nil
	}
	return &tls.Config{
		InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, CurvePreferences: redistest.QuickCurves, //nolint:gosec // see above
	}
}

// wrap is for a dialer of the user's own: go-redis takes its connections as they are.
func (s speech) wrap(conn net.Conn) net.Conn {
	if !s.TLS {
		return conn
	}
	return tls.Client(conn, s.config())
}
