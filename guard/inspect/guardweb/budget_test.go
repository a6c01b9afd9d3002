package guardweb

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/guard/inspect/internal/meter"
)

// When a list is made, and what pages show meanwhile, in virtual time.

// scripted is a source that answers after a time, and counts.
type scripted struct {
	took    []time.Duration // each answer of a list
	err     error           // after the answers
	locks   int             // of each answer
	broken  int             // so many before them
	getTook time.Duration
	getErr  error

	lists, asked int // how often it was asked, for one lock
}

// answer waits for took, unless ctx ends.
func answer(ctx context.Context, took time.Duration, err error) error {
	begun := time.Now()
	select {
	case <-time.After(took):
	case <-ctx.Done():
		return ctx.Err()
	}
	meter.Note(ctx, begun, err)
	return err
}

func (s *scripted) All(ctx context.Context, _ string) iter.Seq2[inspect.Info, error] {
	s.lists++
	return func(yield func(inspect.Info, error) bool) {
		for slice, took := range s.took {
			if err := answer(ctx, took, nil); err != nil {
				yield(inspect.Info{}, err)
				return
			}
			for range s.broken {
				if !yield(inspect.Info{}, &inspect.FormatError{}) {
					return
				}
			}
			for n := range s.locks {
				info := inspect.Info{Key: strconv.Itoa(slice*s.locks + n), Waiting: make([]inspect.Waiter, 2)}
				if !yield(info, nil) {
					return
				}
			}
		}
		if s.err != nil {
			yield(inspect.Info{}, s.err)
		}
	}
}

func (s *scripted) Get(ctx context.Context, _ string) (inspect.Info, error) {
	s.asked++
	return inspect.Info{}, answer(ctx, s.getTook, s.getErr)
}

func seconds(all ...float64) (d []time.Duration) {
	for _, s := range all {
		d = append(d, time.Duration(s*float64(time.Second)))
	}
	return d
}

// listed runs a test on a list in virtual time.
func listed(t *testing.T, s *scripted, test func(t *testing.T, l *list)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newList(s, 10*time.Second)) })
}

var errCut = errors.New("the connection is cut")

// However a list ends, Redis works for it a twentieth of the time until the next.
func TestList_RedisWorksATwentiethOfTheTime(t *testing.T) {
	for name, c := range map[string]struct {
		scripted
		pause time.Duration
	}{
		"a fast Redis":           {scripted{took: seconds(0.001, 0.001)}, time.Second},
		"a slow one":             {scripted{took: seconds(0.2, 0.4)}, 12 * time.Second},
		"a Redis that fails":     {scripted{took: seconds(0.2), err: errCut}, 4 * time.Second},
		"a Redis that is silent": {scripted{took: seconds(60)}, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			s := &c.scripted
			listed(t, s, func(t *testing.T, l *list) {
				for range 3 {
					f := l.get(t.Context())
					assert.Equal(t, c.pause, f.pause)
					time.Sleep(f.pause - 1)
					_, due := l.current()
					assert.False(t, due)
					time.Sleep(time.Nanosecond)
					_, due = l.current()
					assert.True(t, due)
				}
			})
		})
	}
}

// All viewers share one list. If a viewer leaves, the others need no other list.
func TestList_IsMadeOnceForAllThatWait(t *testing.T) {
	s := &scripted{took: seconds(1, 1, 1), locks: 2}
	listed(t, s, func(t *testing.T, l *list) {
		var all sync.WaitGroup
		ctx, leave := context.WithCancel(t.Context())
		all.Go(func() { assert.Len(t, l.get(ctx).locks, 6) })
		synctest.Wait()
		leave()
		for range 5 {
			all.Go(func() {
				f := l.get(t.Context())
				assert.Len(t, f.locks, 6)
				assert.Len(t, f.locks[0].Waiting, 1, "the page shows no more")
			})
		}
		left, leave := context.WithTimeout(t.Context(), 2*time.Second)
		defer leave()
		begun := time.Now()
		require.ErrorIs(t, l.get(left).err, context.DeadlineExceeded)
		assert.Equal(t, 2*time.Second, time.Since(begun), "there is no other list to show")
		all.Wait()
		assert.Equal(t, 1, s.lists)
	})
}

func TestList_SlowListIsCut(t *testing.T) {
	for name, c := range map[string]struct {
		took []time.Duration
		err  error
		cut  bool
	}{
		"it answers":                 {took: seconds(3, 3, 3, 3), cut: true},
		"it answers for half of it":  {took: seconds(5, 60)},
		"it hangs":                   {took: seconds(1, 60)},
		"it answers, and then fails": {took: seconds(3, 3), err: errCut},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scripted{took: c.took, err: c.err, locks: 2}
			listed(t, s, func(t *testing.T, l *list) {
				f := l.get(t.Context())
				assert.Equal(t, c.cut, f.cut)
				if c.cut {
					require.NoError(t, f.err)
					assert.Len(t, f.locks, 6)
					return
				}
				require.ErrorIs(t, f.err, map[bool]error{true: errCut, false: context.DeadlineExceeded}[c.err != nil])
				assert.Empty(t, f.locks)
			})
		})
	}
}

// If there is an older list, a viewer does not wait for long.
func TestList_OutageIsSeenWhileAListIsMade(t *testing.T) {
	for name, c := range map[string]struct {
		took   []time.Duration
		quiet  time.Duration // since the second list began
		outage bool          // after that
	}{
		"it hangs":          {seconds(60), 3 * time.Second, true},
		"it answers slowly": {seconds(2.9, 2.9, 2.9), 8 * time.Second, false},
		"it hangs later":    {seconds(2, 60), 5 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scripted{took: seconds(0.001), locks: 2}
			listed(t, s, func(t *testing.T, l *list) {
				require.NoError(t, l.get(t.Context()).err)
				time.Sleep(time.Minute)
				s.took = c.took
				var made sync.WaitGroup
				begun := time.Now()
				made.Go(func() { l.get(t.Context()) })
				synctest.Wait()
				f := l.get(t.Context())
				assert.Equal(t, listWait, time.Since(begun))
				require.NoError(t, f.err)
				assert.Len(t, f.locks, 2)
				after := func(d time.Duration) error {
					time.Sleep(time.Until(begun.Add(d)))
					f, _ := l.current()
					assert.Len(t, f.locks, 2)
					return f.err
				}
				require.NoError(t, after(c.quiet))
				if c.outage {
					require.ErrorIs(t, after(c.quiet+1), context.DeadlineExceeded)
				}
				made.Wait()
			})
		})
	}
}

// While the next list is far off, the page reads one lock now and then.
func TestList_OutageIsSeenBetweenTwoLists(t *testing.T) {
	s := &scripted{took: seconds(2), locks: 2, getTook: time.Millisecond, getErr: errCut}
	listed(t, s, func(t *testing.T, l *list) {
		l.get(t.Context())
		ended := time.Now() // the next one is due in 40 s
		after := func(d time.Duration) found {
			time.Sleep(time.Until(ended.Add(d)))
			f := l.get(t.Context())
			assert.Len(t, f.locks, 2)
			return f
		}
		require.NoError(t, after(probeTime-time.Millisecond).err)
		assert.Zero(t, s.asked)
		require.ErrorIs(t, after(probeTime).err, errCut)
		assert.Equal(t, 1, s.asked)
		s.getErr = nil
		require.NoError(t, after(probeTime+time.Second).err, "that was no answer")
		assert.Equal(t, 2, s.asked)
		after(2 * probeTime)
		assert.Equal(t, 2, s.asked, "it answered 4 s before")

		left, leave := context.WithCancel(t.Context())
		leave()
		time.Sleep(2 * probeTime)
		s.getTook = time.Hour
		f := l.get(left)
		require.NoError(t, f.err, "that a viewer leaves is no outage")
		assert.Len(t, f.locks, 2)
		begun := time.Now()
		var all sync.WaitGroup
		all.Go(func() { assert.ErrorIs(t, l.get(t.Context()).err, context.DeadlineExceeded) })
		synctest.Wait()
		assert.Len(t, l.get(t.Context()).locks, 2)
		assert.Equal(t, begun, time.Now(), "one asks, and the others do not wait")
		all.Wait()
		assert.Equal(t, 5*time.Second, time.Since(begun))
	})
}

func TestList_HasTenThousandLocks(t *testing.T) {
	for _, c := range []struct {
		locks, broken int
		more          bool
	}{
		{maxKept, 0, false},
		{maxKept + 1, 0, true},
		{maxKept - 1, 1, false},
		{maxKept - 1, 2, true},
	} {
		s := &scripted{took: seconds(1), locks: c.locks, broken: c.broken}
		listed(t, s, func(t *testing.T, l *list) {
			f := l.get(t.Context())
			assert.Len(t, f.locks, maxKept-c.broken)
			assert.Len(t, f.broken, c.broken)
			assert.Equal(t, c.more, f.more)
		})
	}
}
