package redistest

import (
	"bufio"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const dialTimeout = 5 * time.Second

// link is one client connection and its connection to the server.
type link struct {
	proxy   *Proxy
	client  net.Conn
	holding bool // a request is held, or on its way after that; proxy.mu

	once   sync.Once
	done   chan struct{} // closed by abort
	silent atomic.Bool   // nothing flows any more, see HalfOpen

	mu         sync.Mutex // protects what follows
	server     net.Conn
	pending    []*swallow // one per request without a reply yet, mostly nil
	subscribed bool
}

// serve carries one connection until both sides are done with it.
func (l *link) serve() {
	defer l.proxy.wg.Done()
	defer l.proxy.forget(l)
	defer l.abort()
	if !l.connect() {
		return
	}
	var requests sync.WaitGroup
	requests.Go(l.carryRequests)
	l.carryReplies()
	l.abort()
	requests.Wait()
}

func (l *link) connect() bool {
	if !l.awaitFlow() {
		return false
	}
	server, err := net.DialTimeout("tcp", l.proxy.targetAddr(), dialTimeout)
	if err != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if isClosed(l.done) {
		_ = server.Close()
		return false
	}
	l.server = server
	return true
}

// awaitFlow waits while the proxy is frozen. It is false when the link has ended.
func (l *link) awaitFlow() bool {
	for {
		flow := l.proxy.flow()
		if l.silent.Load() {
			<-l.done
			return false
		}
		if isClosed(flow) {
			return !isClosed(l.done)
		}
		select {
		case <-flow:
		case <-l.done:
			return false
		}
	}
}

func (l *link) carryRequests() {
	r := bufio.NewReader(l.client)
	for {
		burst := r.Buffered() > 0 // it came with the one before
		req, err := readFrame(r)
		if err != nil {
			break
		}
		if !l.awaitRelease(req) || !burst && !l.delay() || !l.awaitFlow() {
			return
		}
		l.expect(req)
		if _, err := l.server.Write(req); err != nil {
			return
		}
	}
	// The client is gone. The server still gets to read what it was sent, and
	// ends the link by closing its side.
	if l.awaitFlow() {
		_ = l.server.(*net.TCPConn).CloseWrite()
	}
}

// awaitRelease waits if req is to be held back. It is false when the link ended.
func (l *link) awaitRelease(req []byte) bool {
	h := l.proxy.takeHold(req, l)
	if h == nil {
		return true
	}
	select {
	case <-h.released:
		return true
	case <-l.done:
		return false
	}
}

var subscribeCommands = []string{
	"subscribe", "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe", "sunsubscribe",
}

var messageKinds = append([]string{"message", "pmessage", "smessage"}, subscribeCommands...)

// expect notes that req is about to get a reply.
func (l *link) expect(req []byte) {
	isSubscribe := slices.Contains(subscribeCommands, firstWord(req))
	var s *swallow
	if !isSubscribe {
		s = l.proxy.takeSwallow(req)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if isSubscribe {
		l.subscribed = true
		return
	}
	l.pending = append(l.pending, s)
}

func (l *link) carryReplies() {
	r := bufio.NewReader(l.server)
	clientGone := false
	for {
		reply, err := readFrame(r)
		if !l.awaitFlow() || err != nil {
			return
		}
		// A client that left is no reason to close the server's side: requests
		// that it sent may still be held back.
		if s := l.answered(reply); s != nil {
			_ = l.client.Close()
			clientGone = true
			close(s.fired)
		}
		if !clientGone {
			_, err = l.client.Write(reply)
			clientGone = err != nil
		}
	}
}

// answered matches a reply with the oldest request, and returns the rule that
// wants it lost. A message is no reply.
func (l *link) answered(reply []byte) *swallow {
	l.mu.Lock()
	defer l.mu.Unlock()
	// RESP3 marks what no request asked for; in RESP2 only its form shows it.
	isMessage := reply[0] == '>' || l.subscribed && slices.Contains(messageKinds, firstWord(reply))
	if isMessage || len(l.pending) == 0 {
		return nil
	}
	s := l.pending[0]
	l.pending = l.pending[1:]
	return s
}

// cut closes the link as a broken network does: a request that is held back
// still arrives. The caller has proxy.mu.
func (l *link) cut() {
	if l.holding {
		_ = l.client.Close()
		return
	}
	l.abort()
}

// abort closes both sides and ends all waiting.
func (l *link) abort() {
	l.once.Do(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		close(l.done)
		_ = l.client.Close()
		if l.server != nil {
			_ = l.server.Close()
		}
	})
}
