package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"testing"
	"time"
)

// QuickCurves is for clients of a TLS proxy: P-256 is written in assembly. The race detector makes
// handshakes with the default ones, which are in Go, ten times as slow.
var QuickCurves = []tls.CurveID{tls.CurveP256}

// NewTLSProxy is NewProxy with TLS towards its clients, under a certificate made for it.
// Clients connect with the returned configuration. While the proxy is frozen, it accepts
// connections and does not shake hands, as a server that hangs.
func NewTLSProxy(tb testing.TB, targetAddr string) (*Proxy, *tls.Config) {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatalf("redistest: TLS proxy: %v", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		tb.Fatalf("redistest: TLS proxy: %v", err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatalf("redistest: TLS proxy: %v", err)
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(certificate)
	p := newProxy(tb, targetAddr, &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		MinVersion:   tls.VersionTLS12,
	})
	return p, &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12, CurvePreferences: QuickCurves}
}
