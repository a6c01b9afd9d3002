package records

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/model/modeltest"
)

// memory is the store in memory, which keeps the rules, too. It has no back door: a record goes
// by Forget, or with the whole store, and no claim is skipped.
type memory struct {
	*modeltest.Memory

	end context.CancelFunc
}

func (m *memory) begin(t *testing.T) {
	t.Helper()
	if m.end != nil {
		m.end()
	}
	ctx, end := context.WithCancel(t.Context())
	m.Memory, m.end = modeltest.InMemory(ctx, owners+1), end
	synctest.Wait()
}

// tick has each command run at a time of its own.
func (m *memory) tick() {
	time.Sleep(time.Millisecond)
	m.Forget()
}

func (c claim) once() *guardstore.Once {
	return &guardstore.Once{Keep: keep, Fingerprint: input(c.input), AtMostOnce: c.atMostOnce}
}

func (m *memory) acquire(t *testing.T, o owner, c claim) reply {
	t.Helper()
	m.tick()
	got := m.Ask(t, guardstore.Claim{Owner: name(o), TTL: ttl, Metadata: "of " + name(o), Queue: c.waits, Once: c.once()})
	r := reply{notified: m.Granted()}
	switch got.Status {
	case guardstore.ClaimHeld:
		r.kind, r.fence, r.earlier = replyHeld, got.Fence, got.Earlier
	case guardstore.ClaimBusy:
		r.kind = replyBusy
	case guardstore.ClaimFinished:
		r.kind = replyFinished
	default:
		r.kind = [...]kind{
			guardstore.RecordBegun: replyBegun, guardstore.RecordDone: replyDone,
			guardstore.RecordNotKept: replyUnkept, guardstore.RecordOtherInput: replyOther,
		}[got.Record.State]
		r.fence, r.result = got.Record.Fence, string(got.Record.Result)
	}
	return r
}

func (m *memory) release(t *testing.T, o owner, c claim, fence uint64) reply {
	t.Helper()
	m.tick()
	out := guardstore.Outcome{Once: *c.once(), Holder: "of " + name(o)}
	out.AtMostOnce = c.atMostOnce || c.outcome == never
	switch c.outcome {
	case kept:
		out.State, out.Result = guardstore.RecordDone, []byte(resultOf(o))
	case tooLong:
		out.State = guardstore.RecordNotKept
	default:
	}
	release := guardstore.Release{Owner: name(o), Fence: fence, TTL: ttl, Tombstone: c.inDoubt, Record: &out}
	if c.outcome == unsure {
		release.Record = nil
	}
	got := m.GiveBack(t, release)
	return reply{notified: m.Granted(), kind: map[guardstore.ReleaseStatus]kind{
		guardstore.ReleaseDone: replyReleased, guardstore.ReleaseLost: replyNotHeld,
	}[got.Status]}
}

func (m *memory) forget(t *testing.T, state recordState, fence uint64) reply {
	t.Helper()
	m.tick()
	got, err := m.Store.Forget(t.Context(), guardstore.Forget{Key: modeltest.MemoryKey, RecordID: guardstore.RecordID{
		State: [...]guardstore.RecordState{begun: guardstore.RecordBegun, done: guardstore.RecordDone, unkept: guardstore.RecordNotKept}[state], Fence: fence,
	}})
	require.NoError(t, err)
	return reply{kind: map[guardstore.ForgetStatus]kind{
		guardstore.ForgetNone: replyNothingThere, guardstore.ForgetDone: replyForgotten, guardstore.ForgetBusy: replyBusy,
	}[got], notified: m.Granted()}
}

func (m *memory) fault(t *testing.T, e *event) bool {
	t.Helper()
	switch e.what {
	case dropsLock:
		m.Drop(modeltest.MemoryKey)
	case dropsRecord:
		id, err := m.Recorded(t.Context(), modeltest.MemoryKey)
		require.NoError(t, err)
		got, err := m.Store.Forget(t.Context(), guardstore.Forget{Key: modeltest.MemoryKey, RecordID: id})
		require.NoError(t, err)
		return got == guardstore.ForgetDone
	case flushes:
		time.Sleep(time.Millisecond)
		m.begin(t)
	default:
		return false
	}
	return true
}

// age and look are for what only Redis shows.
func (m *memory) age(*testing.T) {}

func (m *memory) look(*testing.T, *play) {}

// TestReplayInMemory makes the calls on the store in memory.
func TestReplayInMemory(t *testing.T) {
	t.Parallel()
	all := ways()
	synctest.Test(t, func(t *testing.T) {
		m, skipped := &memory{}, 0
		for _, way := range all {
			wrong, done := goes(t, m, &rules{}, way)
			require.Empty(t, wrong, "store and model differ")
			if !done {
				skipped++
			}
		}
		m.end()
		t.Logf("%d calls, and %d that no call leads to", len(all)-skipped, skipped)
		assert.Less(t, 2*skipped, len(all))
	})
}
