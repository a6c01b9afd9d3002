package quorum

import (
	"context"
)

// SameServer finds two clients that lead to one server. A server that does not answer is
// not found out.
func (s *Store) SameServer() (i, j int, found bool) {
	ids := ask(context.Background(), s, func(ctx context.Context, n server, _ int) (string, error) {
		return n.ServerID(ctx)
	})
	known := make(map[string]int, len(s.nodes))
	for range s.nodes {
		a := <-ids
		if a.err != nil || a.reply == "" {
			continue
		}
		if other, twice := known[a.reply]; twice {
			return min(a.node, other), max(a.node, other), true
		}
		known[a.reply] = a.node
	}
	return 0, 0, false
}
