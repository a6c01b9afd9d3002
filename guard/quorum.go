package guard

import (
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard/internal/quorum"
	"github.com/redlatch/redlatch/guard/internal/watchdog"
)

// NewQuorum makes a Guard on several independent Redis servers, each of them standalone
// or behind Sentinel (Redlock: https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/).
// A lock is held while a majority of them says so, or all of them with QuorumAll: a
// minority may be down, slow, full, read-only or wiped. That a server lost its data shows
// at a lock's next renewal, after a third of its ttl at most. Then the server takes the lock
// again, together with all others that it lost, 64 at a time: 300 of them are back after
// some five round trips. What a majority forgets before that is lost, as on one Redis.
//
// It takes an odd number of servers, 3 at least, and asks each who it is, for at most
// half a StoreTimeout: to find out that two clients lead to the same one. Errors are
// OptionErrors. If a server does not answer then, a second client of it cannot be detected.
func NewQuorum(clients []redis.UniversalClient, opts ...Option) (*Guard, error) {
	c, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	if c.replicas.n > 0 {
		return nil, &OptionError{"Replicas", "does not go with a quorum"}
	}
	switch n := len(clients); {
	case n < 3:
		return nil, &OptionError{"clients", fmt.Sprintf("has %d servers, a quorum needs 3 at least", n)}
	case n%2 == 0:
		return nil, &OptionError{"clients", fmt.Sprintf("has %d servers: an even number survives no more failures than %d do", n, n-1)}
	}
	for i, client := range clients {
		if err := checkMember(client, i); err != nil {
			return nil, err
		}
	}
	if err := checkOutside(); err != nil {
		return nil, err
	}
	c.quorum = true
	store := quorum.New(clients, quorum.Config{Prefix: c.prefix, AttemptTimeout: c.patience(), Renewals: watchdog.Senders, All: c.quorumAll})
	if i, j, found := store.SameServer(); found {
		_ = store.Close()
		return nil, &OptionError{"clients", fmt.Sprintf("leads to the same server at index %d and %d", i, j)}
	}
	return newGuard(store, store.Close, c), nil
}

// QuorumAll makes NewQuorum ask for every server instead of a majority: two holders
// need all servers to forget, but one that is down keeps everybody out.
func QuorumAll() Option {
	return guardOption(func(c *config) error { c.quorumAll = true; return nil })
}
