package modeltest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardtest"
)

// Key is that of the lock.
const Key = "k"

// Memory is a store in memory that notes its messages.
type Memory struct {
	*guardtest.Store

	mu    sync.Mutex
	heard []guardstore.Notification
}

// InMemory makes a Memory to which the instances of so many owners listen until ctx ends, and more.
func InMemory(ctx context.Context, owners int, more ...string) *Memory {
	m := &Memory{Store: guardtest.NewStore()}
	for o := range owners {
		more = append(more, fmt.Sprint("i", o))
	}
	for _, instance := range more {
		go m.Listen(ctx, instance, m)
	}
	return m
}

// Notify implements guardstore.Listener.
func (m *Memory) Notify(n guardstore.Notification) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.heard = append(m.heard, n)
}

// Waiting implements guardstore.Listener.
func (m *Memory) Waiting() bool { return true }

// Granted are the owners that were asked to ask, since it was called last.
func (m *Memory) Granted() (owners []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range m.heard {
		if n.Owner != "" && !n.First {
			owners = append(owners, n.Owner)
		}
	}
	m.heard = nil
	return owners
}

// Ask sends a claim for the lock.
func (m *Memory) Ask(t *testing.T, c guardstore.Claim) guardstore.ClaimReply {
	t.Helper()
	c.Key = Key
	reply, err := m.Acquire(t.Context(), c)
	require.NoError(t, err)
	return reply
}

// GiveBack sends a release of the lock.
func (m *Memory) GiveBack(t *testing.T, r guardstore.Release) guardstore.ReleaseReply {
	t.Helper()
	r.Key = Key
	reply, err := m.Release(t.Context(), r)
	require.NoError(t, err)
	return reply
}
