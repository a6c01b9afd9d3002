package redisurl

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTLSDialer_ChecksTheNameOfTheServer(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(nil) // for 127.0.0.1 and example.com
	t.Cleanup(server.Close)
	addr, known := server.Listener.Addr().String(), x509.NewCertPool()
	known.AddCert(server.Certificate())
	for name, wrong := range map[string]bool{"": false, "example.com": false, "other.test": true} {
		conn, err := tlsDialer(&tls.Config{RootCAs: known, ServerName: name}, 0)(t.Context(), "tcp", addr)
		if wrong {
			require.ErrorContains(t, err, "certificate", name)
			continue
		}
		require.NoError(t, err, name)
		assert.NoError(t, conn.Close())
	}
	_, err := tlsDialer(&tls.Config{RootCAs: known}, 1)(t.Context(), "tcp", addr)
	require.Error(t, err, "a nanosecond is too short")
}

// The server has no TLS: it sends nothing, or something else.
func TestTLSDialer_ClosesConnectionsWithoutTLS(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would close unused files
	for says, want := range map[string]string{"": context.DeadlineExceeded.Error(), "-ERR no such command\r\n": "handshake"} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		addr := listener.Addr().String()
		left := make(chan error, 1)
		go func() {
			conn, err := listener.Accept()
			if !assert.NoError(t, err) {
				return
			}
			defer conn.Close()
			_, _ = conn.Write([]byte(says))
			_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
			_, err = io.Copy(io.Discard, conn)
			left <- err
		}()
		_, err = tlsDialer(new(tls.Config), 200*time.Millisecond)(t.Context(), "tcp", addr)
		require.ErrorContains(t, err, "no TLS with "+addr)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "the URL begins with redis, not rediss")
		require.NotErrorIs(t, <-left, os.ErrDeadlineExceeded, "the connection is left open")
		require.NoError(t, listener.Close())

		_, err = tlsDialer(new(tls.Config), 0)(t.Context(), "tcp", addr)
		require.ErrorContains(t, err, "refused")
	}
}
