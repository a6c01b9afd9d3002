package quorum

import (
	"context"
	"slices"
	"sync"

	"github.com/redlatch/redlatch/guard/guardstore"
)

// Listen implements guardstore.Store. Messages flow as long as those of one server do.
func (s *Store) Listen(ctx context.Context, instance string, l guardstore.Listener) {
	all := &listener{Listener: l, silent: make([]bool, len(s.nodes))}
	var listening sync.WaitGroup
	for i, n := range s.nodes {
		listening.Go(func() { n.Listen(ctx, instance, serverListener{all, i}) })
	}
	listening.Wait()
}

// listener gets the messages of several servers.
type listener struct {
	guardstore.Listener

	mu     sync.Mutex
	silent []bool // whose messages do not flow, by their own word
}

// serverListener gets those of one server.
type serverListener struct {
	*listener
	node int
}

// Notify implements guardstore.Listener.
func (m serverListener) Notify(w guardstore.Notification) {
	if w.Owner == "" {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.silent[m.node] = w.Err != nil
		if w.Err != nil && slices.Contains(m.silent, false) {
			return
		}
	}
	m.Listener.Notify(w)
}
