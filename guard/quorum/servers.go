package quorum

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/internal/redisconn"
)

// checkClients says what keeps clients from being a quorum.
func checkClients(clients []redis.UniversalClient) error {
	switch n := len(clients); {
	case n < 3:
		return &guard.OptionError{Option: "clients", Reason: fmt.Sprintf("has %d servers, a quorum needs 3 at least", n)}
	case n%2 == 0:
		return &guard.OptionError{Option: "clients", Reason: fmt.Sprintf(
			"has %d servers: an even number survives no more failures than %d do", n, n-1)}
	}
	for i, client := range clients {
		if fault := clientFault(client, i); fault != "" {
			return &guard.OptionError{Option: "clients", Reason: fault}
		}
	}
	return nil
}

// clientFault returns the fault of a client of a server, which must not depend on others.
func clientFault(client redis.UniversalClient, index int) string {
	single, isSingle := client.(*redis.Client)
	if client == nil || isSingle && single == nil {
		return fmt.Sprintf("has no client at index %d", index)
	}
	why := ": a server of a quorum is standalone or behind Sentinel, and made by NewClient or NewFailoverClient"
	if _, isCluster := client.(*redis.ClusterClient); !isCluster {
		why = redisconn.Unfit(client, "quorum.New", "*redis.Client")
	}
	if why == "" {
		return ""
	}
	return fmt.Sprintf("has a %T at index %d%s", client, index, why)
}

// sameServer finds two clients that lead to one server. A server that does not answer is
// not found out.
func (s *Store) sameServer() (i, j int, found bool) {
	ids := ask(context.Background(), s, func(ctx context.Context, n server, _ int) (string, error) {
		return n.ID(ctx)
	})
	known := make(map[string]int, len(s.nodes))
	for range s.nodes {
		a := <-ids
		if a.reply == "" {
			continue
		}
		if other, twice := known[a.reply]; twice {
			return min(a.node, other), max(a.node, other), true
		}
		known[a.reply] = a.node
	}
	return 0, 0, false
}
