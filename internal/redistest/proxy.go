package redistest

import (
	"bytes"
	"crypto/tls"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Proxy is a TCP proxy between Redis clients and one server, with faults on
// request. It reads RESP, so it knows which reply belongs to which request. Its
// methods may be called from any goroutine.
type Proxy struct {
	addr string
	tls  *tls.Config    // nil = clients speak plain TCP
	wg   sync.WaitGroup // the accept loop and all links

	mu       sync.Mutex // protects what follows
	target   string
	listener net.Listener
	links    map[*link]struct{}
	swallows []*swallow
	holds    []*hold
	cut      bool
	closed   bool
	thawed   chan struct{} // closed while bytes may flow
	delay    time.Duration // of requests
}

// swallow loses the reply of the n-th request that matches.
type swallow struct {
	match func(req []byte) bool
	n     int
	fired chan struct{}
}

// hold keeps the first request that matches until it is released.
type hold struct {
	match    func(req []byte) bool
	held     chan struct{}
	released chan struct{}
}

// Contains matches requests that have s in any of their arguments, such as the
// SHA-1 of a script.
func Contains(s string) func(req []byte) bool {
	return func(req []byte) bool { return bytes.Contains(req, []byte(s)) }
}

// Command matches requests by the name of the command, in any case.
func Command(name string) func(req []byte) bool {
	name = strings.ToLower(name)
	return func(req []byte) bool { return firstWord(req) == name }
}

// NewProxy listens on a free loopback port and connects what it accepts with
// targetAddr. It is closed, and all its goroutines are joined, when tb ends.
func NewProxy(tb testing.TB, targetAddr string) *Proxy {
	tb.Helper()
	return newProxy(tb, targetAddr, nil)
}

func newProxy(tb testing.TB, targetAddr string, config *tls.Config) *Proxy {
	tb.Helper()
	l, err := listen()
	must(tb, "proxy", err)
	p := &Proxy{
		target: targetAddr, addr: l.Addr().String(), tls: config,
		links: map[*link]struct{}{}, thawed: make(chan struct{}),
	}
	close(p.thawed)
	p.serve(l)
	tb.Cleanup(p.close)
	return p
}

// Addr is where clients find the proxy.
func (p *Proxy) Addr() string { return p.addr }

// URL is Addr as redis.ParseURL takes it.
func (p *Proxy) URL() string { return "redis://" + p.Addr() }

// Client returns a client of the proxy, as Server.Client does for a server.
func (p *Proxy) Client(tb testing.TB, opts ...func(*redis.Options)) *redis.Client {
	tb.Helper()
	return newClient(tb, p.Addr(), opts)
}

// SwallowReply loses the reply of the n-th request, counted from 1 and from
// now over all connections, that match is true for. The server has executed the
// request; instead of its reply, the client sees its connection cut. The
// channel is closed when that has happened. Match gets the request's bytes as
// they are on the wire. Subscribe commands do not count: their confirmations
// are messages and not replies.
func (p *Proxy) SwallowReply(match func(req []byte) bool, n int) (fired <-chan struct{}) {
	s := &swallow{match: match, n: n, fired: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.swallows = append(p.swallows, s)
	return s.fired
}

// HoldRequest holds back the first request from now that match is true for,
// and whatever follows it on its connection. The channel is closed when one is
// held. After release it goes to the server, even if its client closed the
// connection, or Cut did, in the meantime.
func (p *Proxy) HoldRequest(match func(req []byte) bool) (held <-chan struct{}, release func()) {
	h := &hold{match: match, held: make(chan struct{}), released: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds = append(p.holds, h)
	return h.held, sync.OnceFunc(func() { close(h.released) })
}

// Cut closes all connections, and new ones as soon as they are accepted, until
// Heal.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	for l := range p.links {
		l.cut()
	}
}

// Heal ends a Cut.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
}

// Redirect connects new connections with another server, as a name that moves to a
// promoted replica does. Connections that there are stay: Cut ends them.
func (p *Proxy) Redirect(targetAddr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = targetAddr
}

func (p *Proxy) targetAddr() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.target
}

// Freeze stops all bytes in both directions, the end of a connection included,
// until Thaw. Connections stay open, and new ones are accepted.
func (p *Proxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if isClosed(p.thawed) {
		p.thawed = make(chan struct{})
	}
}

// Thaw ends a Freeze. What arrived in the meantime flows on, late.
func (p *Proxy) Thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !isClosed(p.thawed) {
		close(p.thawed)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// serve accepts connections until l is closed.
func (p *Proxy) serve(l net.Listener) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listener = l
	p.wg.Add(1)
	go p.accept(l)
}

func (p *Proxy) accept(l net.Listener) {
	defer p.wg.Done()
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		if p.tls != nil {
			client = tls.Server(client, p.tls) // its first Read, by the link, shakes hands
		}
		if l := p.admit(client); l != nil {
			go l.serve()
		} else {
			_ = client.Close()
		}
	}
}

// admit registers a connection, unless none is wanted.
func (p *Proxy) admit(client net.Conn) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut || p.closed {
		return nil
	}
	l := &link{proxy: p, client: client, done: make(chan struct{})}
	p.links[l] = struct{}{}
	p.wg.Add(1)
	return l
}

func (p *Proxy) forget(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	for l := range p.links {
		l.abort()
	}
	_ = p.listener.Close()
	p.mu.Unlock()
	p.wg.Wait()
}

// takeSwallow counts a request, and returns the rule that wants its reply lost.
func (p *Proxy) takeSwallow(req []byte) *swallow {
	p.mu.Lock()
	defer p.mu.Unlock()
	var due *swallow
	kept := p.swallows[:0]
	for _, s := range p.swallows {
		if s.match(req) {
			s.n--
			if s.n <= 0 && due == nil {
				due = s
				continue
			}
		}
		kept = append(kept, s)
	}
	p.swallows = kept
	return due
}

// takeHold returns the rule that wants a request held, and marks its link.
func (p *Proxy) takeHold(req []byte, l *link) *hold {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, h := range p.holds {
		if h.match(req) {
			p.holds = append(p.holds[:i], p.holds[i+1:]...)
			l.holding = true
			close(h.held)
			return h
		}
	}
	return nil
}

func (p *Proxy) flow() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.thawed
}
