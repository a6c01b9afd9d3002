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
func TestAcquire_AskErrors(t *testing.T) {
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

// Refusals of a majority are final; beside a majority that may agree yet they are not.
func TestAcquire_AskRefusals(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		s.each(func(f *fake) { f.before["acquire"] = fails(errRefused) })
		_, err := s.Acquire(t.Context(), claim("a-1"))
		var refused *guardstore.RefusedError
		require.ErrorAs(t, err, &refused)
		synctest.Wait()
		s.nodes[0].on("acquire", late(errBroken))
		s.nodes[1].on("acquire", late(errBroken))
		_, err = s.Acquire(t.Context(), claim("a-2"))
		require.Error(t, err)
		assert.NotErrorAs(t, err, &refused)
	})
}

// A name is told to each server, and whoever does not hear it is an error.
func TestAcquire_AskAnnounces(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		require.NoError(t, s.Announce(t.Context(), "a", "name", time.Minute))
		assert.Equal(t, []int{1, 1, 1}, s.counts("announce a name 1m0s"))
		s.nodes[1].on("announce", late(errBroken))
		require.ErrorContains(t, s.Announce(t.Context(), "a", "name", time.Minute), "1 of 3 servers failed")
	})
}

// Two clients lead to one server.
func TestAcquire_AskForTwins(t *testing.T) {
	for name, c := range map[string]struct {
		ids   [3]string
		down  int
		found bool
	}{
		"three":             {[3]string{"a", "b", "c"}, -1, false},
		"twins":             {[3]string{"a", "b", "a"}, -1, true},
		"one is down":       {[3]string{"a", "b", "a"}, 2, false},
		"they do not say":   {[3]string{"", "b", ""}, -1, false},
		"the first is late": {[3]string{"a", "b", "a"}, 0, true},
		"the last is late":  {[3]string{"a", "b", "a"}, 3, true},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *testing.T, s *fakeQuorum) {
				for i, f := range s.nodes {
					f.id = c.ids[i]
				}
				switch c.down {
				case 2:
					s.nodes[2].on("id", fails(errBroken))
				case 0, 3:
					s.nodes[c.down*2/3].on("id", late(nil))
				}
				i, j, found := s.sameServer()
				assert.Equal(t, c.found, found)
				if found {
					assert.Equal(t, []int{0, 2}, []int{i, j})
				}
			})
		})
	}
}

// heard is a listener that notes what it is told.
type heard struct{ told []guardstore.Notification }

func (h *heard) Notify(n guardstore.Notification) { h.told = append(h.told, n) }
func (h *heard) Waiting() bool                    { return true }

// Messages flow as long as those of one server do; those to owners always pass.
func TestAcquire_ListenerHearsOfSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeQuorum(t, 3, false)
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
		h, ended := &heard{}, make(chan struct{})
		go func() {
			defer close(ended)
			s.Listen(ctx, "a", h)
		}()
		silent, flow := guardstore.Notification{Err: errBroken}, guardstore.Notification{}
		owner := guardstore.Notification{Owner: "a-1", First: true}
		for n, step := range []struct {
			server int
			says   guardstore.Notification
			told   bool
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
			h.told = nil
			say[step.server] <- step.says
			synctest.Wait()
			if step.told {
				assert.Equal(t, []guardstore.Notification{step.says}, h.told, "step %d", n)
			} else {
				assert.Empty(t, h.told, "step %d", n)
			}
		}
		cancel()
		<-ended
		assert.Equal(t, []int{1, 1, 1}, s.counts("listen"))
	})
}

// It listens until each server does so no more.
func TestAcquire_ListenerListensToAll(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		s.nodes[0].listen = func(context.Context, guardstore.Listener) {}
		s.nodes[2].listen = func(context.Context, guardstore.Listener) {}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		assert.Equal(t, time.Minute, takes(func() { s.Listen(ctx, "a", &heard{}) }))
	})
}
