package redisurl

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"
)

// dialTime bounds a dial, with its TLS, where the URL does not.
const dialTime = 5 * time.Second

// tlsDialer is nil for a connection without TLS: go-redis's own will do. Its errors say that
// it is TLS that fails: a server without it waits in silence for the rest of the hello, which
// looks like one that hangs.
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

// tlsError does not wrap the error, for go-redis would dial again, and again, after a timeout.
func tlsError(addr string, err error) error {
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &certificate) {
		return fmt.Errorf("no TLS with %s: %v", addr, err) //nolint:errorlint // see above
	}
	return fmt.Errorf("no TLS with %s (%v): if that is a plain port, the URL begins with redis, not rediss", addr, err) //nolint:errorlint // see above
}
