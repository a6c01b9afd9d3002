package quorum

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardstore"
)

// What the errors of some of five servers come to.
func TestAsk_Errors(t *testing.T) {
	s := &Store{nodes: make([]server, 5), need: 3}
	for name, c := range map[string]struct {
		errs            serverErrors
		refused, unsent bool
	}{
		"two refuse, one is down":  {serverErrors{errRefused, errBroken, errRefused}, false, false},
		"three refuse":             {serverErrors{errRefused, errRefused, errRefused}, true, false},
		"two and one":              {serverErrors{errDial, errDial, errBroken}, false, false},
		"three do not listen":      {serverErrors{errDial, errDial, errDial}, false, true},
		"three of them and others": {serverErrors{errDial, errBroken, errDial, errRefused, errDial}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.errs.join(s)
			var refused *guardstore.RefusedError
			assert.Equal(t, c.refused, errors.As(err, &refused))
			assert.ErrorContains(t, err, "servers failed: ")
			assert.Equal(t, c.unsent, errors.Is(err, syscall.ECONNREFUSED))
		})
	}
	assert.NoError(t, serverErrors(nil).join(s))
	err := serverErrors{errDial, errBroken, errDial}.join(s)
	assert.EqualError(t, err, `3 of 5 servers failed: ["broken" "dial: connection refused"]`)
}

func TestAsk_AnnounceNeedsEachServer(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		require.NoError(t, s.Announce(t.Context(), "a", "name", time.Minute))
		s.counts("announce a name 1m0s", 1, 1, 1)
		s.nodes[1].set(does("announce", late(errBroken)))
		require.ErrorContains(t, s.Announce(t.Context(), "a", "name", time.Minute), "1 of 3 servers failed")
	})
}

func TestAsk_FindsTwoClientsOfOneServer(t *testing.T) {
	for name, c := range map[string]struct {
		ids   [3]string
		id2   func(context.Context) error
		found bool
	}{
		"one is down":      {[3]string{"a", "b", "a"}, fails(errBroken), false},
		"they do not say":  {[3]string{"", "b", ""}, nil, false},
		"the last is late": {[3]string{"a", "b", "a"}, late(nil), true},
	} {
		run(t, name, 3, false, func(t *testing.T, s *fakeQuorum) {
			for i, f := range s.nodes {
				f.id = c.ids[i]
			}
			s.nodes[2].set(does("id", c.id2))
			i, j, found := s.sameServer()
			assert.Equal(t, c.found, found)
			if found {
				assert.Equal(t, []int{0, 2}, []int{i, j})
			}
		})
	}
}

// recorder is a listener that notes its notifications.
type recorder struct{ received []guardstore.Notification }

func (h *recorder) Notify(n guardstore.Notification) { h.received = append(h.received, n) }
func (h *recorder) Waiting() bool                    { return true }

// Messages flow as long as those of one server do; those to owners always pass.
func TestListener_HearsOfSilence(t *testing.T) {
	h := &recorder{}
	all := &listener{Listener: h, silent: make([]bool, 3)}
	silent, flow := guardstore.Notification{Err: errBroken}, guardstore.Notification{}
	owner := guardstore.Notification{Owner: "a-1", First: true}
	for n, step := range []struct {
		server   int
		says     guardstore.Notification
		received bool
	}{
		{0, flow, true},
		{1, flow, true},
		{0, silent, false},
		{0, owner, true},
		{1, silent, false},
		{0, silent, false},
		{2, silent, true}, // the last one
		{0, owner, true},
		{1, guardstore.Notification{Owner: "a-1", Err: errBroken}, true},
		{1, flow, true}, // one flows again
		{2, silent, false},
		{1, silent, true}, // and is silent again
	} {
		h.received = nil
		serverListener{all, step.server}.Notify(step.says)
		assert.Equal(t, step.received, len(h.received) == 1 && h.received[0] == step.says, "step %d: %v", n, h.received)
	}
}
