package quorum

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
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
		"two refuse":               {serverErrors{errRefused, errRefused}, false, false},
		"two refuse, one is down":  {serverErrors{errRefused, errBroken, errRefused}, false, false},
		"three refuse":             {serverErrors{errRefused, errRefused, errRefused}, true, false},
		"two do not listen":        {serverErrors{errDial, errDial}, false, false},
		"two and one":              {serverErrors{errDial, errDial, errBroken}, false, false},
		"three do not listen":      {serverErrors{errDial, errDial, errDial}, false, true},
		"three of them and others": {serverErrors{errDial, errBroken, errDial, errRefused, errDial}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.errs.join(s)
			var refused *guardstore.RefusedError
			assert.Equal(t, c.refused, errors.As(err, &refused))
			assert.Equal(t, c.unsent, errors.Is(err, syscall.ECONNREFUSED))
		})
	}
	assert.NoError(t, serverErrors(nil).join(s))
	err := serverErrors{errDial, errBroken, errDial}.join(s)
	assert.EqualError(t, err, `3 of 5 servers failed: ["broken" "dial: connection refused"]`)
}

// Of five servers: no caller waits for an answer that decides nothing. In a bubble, that is a deadlock.
func TestAsk_AgreeWaitsForNoMoreThanDecide(t *testing.T) {
	yes, no, down := answer[bool]{reply: true}, answer[bool]{}, answer[bool]{err: errBroken}
	for name, c := range map[string]struct {
		answers []answer[bool]
		says    string
	}{
		"enough agree":    {[]answer[bool]{yes, no, down, yes, yes}, ""},
		"three agree":     {[]answer[bool]{yes, yes, yes}, ""},
		"two are left":    {[]answer[bool]{no, no, no}, errTooFew.Error()},
		"too few answer":  {[]answer[bool]{down, yes, down, down}, "3 of 5 servers failed"},
		"one is too many": {[]answer[bool]{yes, no, no, yes, no}, errTooFew.Error()},
	} {
		run(t, name, 5, false, func(t *testing.T, s *fakeQuorum) {
			answers := make(chan answer[bool], 5)
			for _, a := range c.answers {
				answers <- a
			}
			if err := s.agree(answers); c.says != "" {
				require.ErrorContains(t, err, c.says)
			} else {
				require.NoError(t, err)
			}
			assert.Empty(t, answers)
		})
	}
}

// Refusals of a majority are final; beside a majority that may agree yet they are not.
func TestAsk_Refusals(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		s.each(does("acquire", fails(errRefused)))
		_, err := s.Acquire(t.Context(), claim("a-1"))
		var refused *guardstore.RefusedError
		require.ErrorAs(t, err, &refused)
		require.ErrorContains(t, err, "servers failed: ")
		synctest.Wait()
		s.script(does("acquire", late(errBroken)), does("acquire", late(errBroken)))
		_, err = s.Acquire(t.Context(), claim("a-2"))
		require.Error(t, err)
		assert.NotErrorAs(t, err, &refused)
	})
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
		ids      [3]string
		id0, id2 func(context.Context) error
		found    bool
	}{
		"three":             {[3]string{"a", "b", "c"}, nil, nil, false},
		"twins":             {[3]string{"a", "b", "a"}, nil, nil, true},
		"one is down":       {[3]string{"a", "b", "a"}, nil, fails(errBroken), false},
		"they do not say":   {[3]string{"", "b", ""}, nil, nil, false},
		"the first is late": {[3]string{"a", "b", "a"}, late(nil), nil, true},
		"the last is late":  {[3]string{"a", "b", "a"}, nil, late(nil), true},
	} {
		run(t, name, 3, false, func(t *testing.T, s *fakeQuorum) {
			for i, f := range s.nodes {
				f.id = c.ids[i]
			}
			s.script(does("id", c.id0), nothing, does("id", c.id2))
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
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		say := make([]chan guardstore.Notification, 3)
		for i, f := range s.nodes {
			say[i] = make(chan guardstore.Notification)
			f.listen = func(ctx context.Context, l guardstore.Listener) {
				for {
					select {
					case n := <-say[i]:
						l.Notify(n)
					case <-ctx.Done():
						return
					}
				}
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		h, ended := &recorder{}, make(chan struct{})
		go func() {
			defer close(ended)
			s.Listen(ctx, "a", h)
		}()
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
			say[step.server] <- step.says
			synctest.Wait()
			assert.Equal(t, step.received, len(h.received) == 1 && h.received[0] == step.says, "step %d: %v", n, h.received)
		}
		cancel()
		<-ended
		s.counts("listen", 1, 1, 1)
	})
}

// It ends when it listens to no server any more.
func TestListener_ListensToAll(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		s.nodes[0].listen = func(context.Context, guardstore.Listener) {}
		s.nodes[2].listen = func(context.Context, guardstore.Listener) {}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		assert.Equal(t, time.Minute, takes(func() { s.Listen(ctx, "a", &recorder{}) }))
	})
}
