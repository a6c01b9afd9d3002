package redisurl

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"
)

// dialTime bounds a dial with its TLS handshake, unless the URL does.
const dialTime = 5 * time.Second

// tlsDialer returns nil for a connection without TLS, which go-redis dials. Its errors say that TLS
// failed: a server without TLS waits for more of the hello in silence, as if it hung.
func tlsDialer(config *tls.Config, bound time.Duration) func(context.Context, string, string) (net.Conn, error) {
	if config == nil {
		return nil
	}
	if bound <= 0 {
		bound = dialTime
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, bound)
		defer cancel()
		plain, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		config := config.Clone()
		if config.ServerName == "" {
			config.ServerName, _, _ = net.SplitHostPort(addr)
		}
		conn := tls.Client(plain, config)
		if err := conn.HandshakeContext(ctx); err != nil {
			_ = plain.Close()
			return nil, tlsError(addr, err)
		}
		return conn, nil
	}
}

// tlsError does not wrap the error, because go-redis dials again after a timeout.
func tlsError(addr string, err error) error {
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &certificate) {
		return fmt.Errorf("no TLS with %s: %v", addr, err) //nolint:errorlint // see above
	}
	return fmt.Errorf("no TLS with %s (%v): if that is a plain port, the URL begins with redis, not rediss", addr, err) //nolint:errorlint // see above
}
