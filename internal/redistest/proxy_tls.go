package redistest

import (
	"crypto/tls"
	"crypto/x509"
	"net/http/httptest"
	"testing"
)

// NewTLSProxy is NewProxy with TLS towards its clients, who connect with the returned configuration. A frozen proxy
// accepts connections and does not shake hands, as a server that hangs.
func NewTLSProxy(tb testing.TB, targetAddr string) (*Proxy, *tls.Config) {
	tb.Helper()
	server := httptest.NewTLSServer(nil) // for its certificate
	defer server.Close()
	trusted := x509.NewCertPool()
	trusted.AddCert(server.Certificate())
	p := newProxy(tb, targetAddr, &tls.Config{Certificates: server.TLS.Certificates, MinVersion: tls.VersionTLS12})
	// P-256 is written in assembly. The race detector makes handshakes with the default curves, which are in Go, ten
	// times as slow.
	return p, &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12, CurvePreferences: []tls.CurveID{tls.CurveP256}}
}
