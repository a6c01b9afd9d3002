package guard

import "context"

// sameServer finds two clients that lead to one server. A server that does not answer is
// not found out.
func (s *quorumStore) sameServer() (i, j int, found bool) {
	ids := ask(context.Background(), s, func(ctx context.Context, n *redisStore, _ int) (string, error) {
		return n.serverID(ctx)
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
