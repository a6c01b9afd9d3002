package redistest

import (
	"crypto/tls"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestProxyTLS_TLSProxyPassesEverything(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p, config := NewTLSProxy(t, s.Addr())
	c := p.Client(t, func(o *redis.Options) { o.TLSConfig = config })
	require.NoError(t, c.Set(t.Context(), t.Name(), "x", time.Minute).Err())
	require.Equal(t, int64(1), s.Client(t).Del(t.Context(), t.Name()).Val())

	lost := p.SwallowReply(Command("get"), 1)
	require.Error(t, c.Process(t.Context(), unrepeated{redis.NewCmd(t.Context(), "get", "none")}))
	await(t, lost)

	stranger := p.Client(t, once, func(o *redis.Options) { o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12} })
	require.ErrorContains(t, stranger.Ping(t.Context()).Err(), "certificate")
	plain := p.Client(t, once)
	require.Error(t, plain.Ping(t.Context()).Err())
}

// unrepeated is a command that go-redis sends once.
type unrepeated struct{ *redis.Cmd }

func (unrepeated) NoRetry() bool { return true }

// What connects while the proxy is frozen gets its handshake when it thaws.
func TestProxyTLS_TLSProxyFrozenDoesNotShakeHands(t *testing.T) {
	t.Parallel()
	p, config := NewTLSProxy(t, Shared(t).Addr())
	p.Freeze()
	raw, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	defer func() { _ = raw.Close() }()
	config.ServerName = "127.0.0.1"
	conn := tls.Client(raw, config)
	done := make(chan error, 1)
	go func() { done <- conn.Handshake() }()
	select {
	case err := <-done:
		t.Fatalf("shook hands: %v", err)
	case <-time.After(instant):
	}
	p.Thaw()
	require.NoError(t, <-done)
}
