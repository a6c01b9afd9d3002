package testenv

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/quorum"
	"github.com/redlatch/redlatch/internal/redistest"
)

// QuorumEnv is a number of servers, and Guards on them.
type QuorumEnv struct {
	Servers []*redistest.Server
}

// NewQuorumEnv starts n servers.
func NewQuorumEnv(tb testing.TB, n int) *QuorumEnv {
	tb.Helper()
	q := &QuorumEnv{}
	for range n {
		q.Servers = append(q.Servers, redistest.Start(tb))
	}
	return q
}

// Clients are one client for each server.
func (q *QuorumEnv) Clients(tb testing.TB) []redis.UniversalClient {
	tb.Helper()
	clients := make([]redis.UniversalClient, 0, len(q.Servers))
	for _, s := range q.Servers {
		clients = append(clients, s.Client(tb))
	}
	return clients
}

// Guard makes a Guard on a Store of all servers.
func (q *QuorumEnv) Guard(tb testing.TB, opts ...guard.Option) *guard.Guard {
	tb.Helper()
	return GuardOnStore(tb, q.Store(tb), opts...)
}

// GuardOnStore makes a Guard on a Store.
func GuardOnStore(tb testing.TB, s guardstore.Store, opts ...guard.Option) *guard.Guard {
	tb.Helper()
	g, err := guard.NewWithStore(s, opts...)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = g.Close() })
	return g
}

// Store makes a Store of all servers, see QuorumStore.
func (q *QuorumEnv) Store(tb testing.TB, opts ...quorum.Option) *quorum.Store {
	tb.Helper()
	return QuorumStore(tb, q.Clients(tb), opts...)
}

// QuorumStore makes a Store of the servers of some clients. It is closed after the Guards on it.
func QuorumStore(tb testing.TB, clients []redis.UniversalClient, opts ...quorum.Option) *quorum.Store {
	tb.Helper()
	s, err := quorum.New(clients, opts...)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

// GuardOnServers makes a Guard on a Store of the servers of some clients.
func GuardOnServers(tb testing.TB, clients []redis.UniversalClient, opts ...guard.Option) *guard.Guard {
	tb.Helper()
	return GuardOnStore(tb, QuorumStore(tb, clients), opts...)
}
