package cohort

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/retry"
)

// The latest claims that are finished are remembered, and no more.
func TestFinished_AreTheLatest(t *testing.T) {
	n := new(notifier)
	for i := range 2*mostFinished + 2 {
		n.noteFinished(retry.Label{}, guardstore.Release{Owner: strconv.Itoa(i)})
		for back, want := range map[int]bool{0: true, mostFinished - 1: i >= mostFinished-1, mostFinished: false} {
			_, known := n.finished.find(strconv.Itoa(i - back))
			require.Equal(t, want, known, "%d, %d back", i, back)
		}
	}
	assert.Len(t, n.finished.claims, mostFinished)
}

// A revocation that was faster than its grant is known once, and for a minute.
func TestRevocations_AreKnownForAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := new(revocations)
		assert.False(t, r.has("a"))
		r.note("a")
		assert.False(t, r.has("other"))
		assert.True(t, r.has("a"))
		assert.False(t, r.has("a"))
		r.note("a")
		time.Sleep(revocationLife)
		r.note("b")
		assert.Len(t, r.owners, 2)
		time.Sleep(time.Nanosecond)
		r.note("c")
		assert.Len(t, r.owners, 2)
		assert.False(t, r.has("a"))
		for i := range mostRevocations - 2 {
			r.note(strconv.Itoa(i))
		}
		assert.Len(t, r.owners, mostRevocations)
		r.note("d")
		assert.Len(t, r.owners, 1)
		assert.True(t, r.has("d"))
	})
}

// calls are those of a store that answers nothing but releases and Forget.
type calls struct {
	guardstore.Recorder
	released guardstore.Release
	record   guardstore.RecordID
	named    guardstore.RecordID // by Forget
	status   guardstore.ForgetStatus
	errs     []error // before that
}

func (c *calls) next() (err error) {
	if len(c.errs) > 0 {
		err, c.errs = c.errs[0], c.errs[1:]
	}
	return err
}

func (c *calls) Release(_ context.Context, r guardstore.Release) (guardstore.ReleaseReply, error) {
	c.released = r
	return guardstore.ReleaseReply{Status: guardstore.ReleaseLost}, c.next()
}

func (c *calls) Recorded(context.Context, string) (guardstore.RecordID, error) {
	return c.record, c.next()
}

func (c *calls) Forget(_ context.Context, f guardstore.Forget) (guardstore.ForgetStatus, error) {
	c.named = f.RecordID
	c.record.Fence++ // there is another one by the time of a second attempt
	return c.status, c.next()
}

// What Probe and Forget send, and what they make of the answer.
func TestTable_ProbeAndForget(t *testing.T) {
	refused := &guardstore.RefusedError{Err: errLate}
	synctest.Test(t, func(t *testing.T) {
		s := new(calls)
		table := &Table{Config: Config{Instance: "me", Calls: &retry.Policy{Timeout: time.Second, AttemptTimeout: time.Second}}, release: s.Release}
		probe := func(stop <-chan struct{}) error {
			return table.Probe(t.Context(), "ping", retry.Label{Key: "k"}, time.Minute, stop, time.Second)
		}
		forget := func(stop <-chan struct{}) (guardstore.ForgetStatus, error) {
			return table.Forget(t.Context(), s, retry.Label{Key: "k"}, stop)
		}
		require.NoError(t, probe(nil))
		assert.Equal(t, guardstore.Release{Key: "k", Owner: "me-1", TTL: time.Minute}, s.released)
		for _, s.status = range []guardstore.ForgetStatus{guardstore.ForgetNone, guardstore.ForgetDone, guardstore.ForgetBusy} {
			s.record = guardstore.RecordID{State: guardstore.RecordDone, Fence: 7}
			status, err := forget(nil)
			require.NoError(t, err)
			assert.Equal(t, s.status, status)
			assert.Equal(t, guardstore.RecordID{State: guardstore.RecordDone, Fence: 7}, s.named)
		}
		for first, want := range map[guardstore.ForgetStatus]guardstore.ForgetStatus{
			guardstore.ForgetNone: guardstore.ForgetDone, guardstore.ForgetBusy: guardstore.ForgetBusy,
		} {
			s.record, s.status, s.errs = guardstore.RecordID{State: guardstore.RecordBegun, Fence: 7}, first, []error{nil, errLate} // whose outcome is not known
			status, err := forget(nil)
			require.NoError(t, err)
			assert.Equal(t, want, status)
			assert.Equal(t, guardstore.RecordID{State: guardstore.RecordBegun, Fence: 7}, s.named, "the second attempt names the same record")
		}
		s.record, s.named = guardstore.RecordID{}, guardstore.RecordID{}
		status, err := forget(nil)
		require.NoError(t, err)
		assert.Equal(t, guardstore.ForgetNone, status)
		assert.Zero(t, s.named, "there is nothing to forget")
		stop := make(chan struct{})
		close(stop)
		s.record = guardstore.RecordID{State: guardstore.RecordDone, Fence: 7}
		for _, row := range []struct {
			op       string
			call     func(stop <-chan struct{}) error
			answered []error
		}{
			{"ping", probe, nil},
			{"forget", func(stop <-chan struct{}) error { _, err := forget(stop); return err }, nil},
			{"forget", func(stop <-chan struct{}) error { _, err := forget(stop); return err }, []error{nil}},
		} {
			s.errs = append(row.answered, errLate)
			require.ErrorIs(t, row.call(stop), ErrClosed)
			s.errs = append(row.answered, refused)
			var failure *retry.Error
			require.ErrorAs(t, row.call(nil), &failure)
			assert.Equal(t, retry.Error{Op: row.op, Key: "k", Err: errLate, Refused: true}, *failure)
		}
	})
}
