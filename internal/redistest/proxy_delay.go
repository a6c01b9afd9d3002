package redistest

import (
	"net"
	"testing"
	"time"
)

// Delay has every request reach the server this much later. Requests that a
// client sends together are delayed together.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// HalfOpen stops all bytes on the connections that there are, for good: they stay
// open, and neither side notices. New ones work.
func (p *Proxy) HalfOpen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.silent.Store(true)
	}
}

// Refuse cuts all connections and refuses new ones, as a host does on which
// nothing listens, until accept is called.
func (p *Proxy) Refuse(tb testing.TB) (accept func()) {
	tb.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.listener.Close()
	for l := range p.links {
		l.cut()
	}
	return func() {
		l, err := net.Listen("tcp", p.addr)
		if err != nil {
			tb.Errorf("redistest: proxy: %v", err)
			return
		}
		p.serve(l)
	}
}

// delay takes the time that a request is delayed. It is false when the link ended.
func (l *link) delay() bool {
	l.proxy.mu.Lock()
	pause := l.proxy.delay
	l.proxy.mu.Unlock()
	if pause == 0 {
		return true
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.done:
		return false
	}
}
