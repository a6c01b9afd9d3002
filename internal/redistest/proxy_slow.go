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

// Throttle lets so many bytes a second through, in each direction of each
// connection; 0 is no limit.
func (p *Proxy) Throttle(bytesPerSecond int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rate = bytesPerSecond
}

// HalfOpen stops all bytes on the connections that there are, for good: they stay
// open, and nobody learns anything. New ones work.
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

// slow takes the time that a frame needs. It is false when the link ended.
func (l *link) slow(frame []byte, delayed bool) bool {
	l.proxy.mu.Lock()
	var pause time.Duration
	if delayed {
		pause = l.proxy.delay
	}
	if rate := l.proxy.rate; rate > 0 {
		pause += time.Duration(len(frame)) * time.Second / time.Duration(rate)
	}
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
