package limits

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/model/replay"
)

// The store in memory is the third that keeps the rules. It has no back door: what a call finds
// is brought about by earlier calls, and what is there after it shows in further ones.

// limitOf is a mode as a store is told.
func limitOf(m mode) guardstore.Limit {
	return [...]guardstore.Limit{exclusive: guardstore.Exclusive, two: 2, shared: guardstore.Unlimited}[m]
}

func (p *play) fenceIn(v uint8) uint64 { return uint64(p.fenceOf(v)) } //nolint:gosec // not negative

// ofMemory says whether a call may be brought about in memory.
func (p *play) ofMemory() bool {
	if p.what == gives && p.claims[0].lapsed {
		return false // the script still finds it there, and notes that it left
	}
	waits, released, living, high := false, false, p.fence == 0, uint8(0)
	for _, is := range p.claims {
		living = living || is.holds && !is.lapsed
		waits, released, high = waits || is.place > 0, released || is.released, max(high, is.noted)
	}
	if !living && p.what == gives && p.claims[0].mode == exclusive {
		return false // the lock is free there, and not here
	}
	return high == p.fence && (!released || !waits && p.fence == 0)
}

// takes has an owner hold the lock under a fence, until it is at. It says whether it could.
func (p *play) takes(t *testing.T, m *replay.Memory, owner string, limit guardstore.Limit, fence uint8, until time.Time) bool {
	t.Helper()
	time.Sleep(time.Until(time.UnixMicro(min(p.fenceOf(fence), p.at-spread/2))))
	reply := m.Ask(t, guardstore.Claim{Owner: owner, TTL: time.Until(until), Limit: limit, FenceAbove: p.fenceIn(fence) - 1})
	return reply.Status == guardstore.ClaimHeld && reply.Fence == p.fenceIn(fence)
}

// bringAbout makes what the call finds, if it can.
func (p *play) bringAbout(t *testing.T, m *replay.Memory) bool {
	t.Helper()
	var holders []owner
	before := "r-1"
	var tombstone bool
	for o := range owner(owners) {
		is := &p.claims[o]
		if is.holds {
			holders = append(holders, o)
		}
		if is.released {
			before, tombstone = p.name(o), is.tombstone
		} else if is.tombstone {
			m.GiveBack(t, guardstore.Release{TTL: ttl, Owner: p.name(o), Tombstone: true, Limit: limitOf(is.mode)})
		}
	}
	slices.SortFunc(holders, func(a, b owner) int { return cmp.Compare(p.claims[a].noted, p.claims[b].noted) })
	if len(holders) == 0 && (p.last > 0 || before != "r-1") {
		if !p.takes(t, m, before, 1, max(p.last, 1), time.UnixMicro(p.at).Add(time.Hour)) {
			return false
		}
	} else if len(holders) == 0 {
		m.Ask(t, guardstore.Claim{Owner: before, TTL: time.Hour})
	}
	for _, o := range holders {
		until := time.UnixMicro(p.at).Add(ownLeft)
		if p.claims[o].lapsed {
			until = time.UnixMicro(p.at)
		}
		if !p.takes(t, m, p.name(o), limitOf(p.claims[o].mode), p.claims[o].noted, until) {
			return false
		}
	}
	var waiting []owner
	for o := range owner(owners) {
		if p.claims[o].place > 0 {
			waiting = append(waiting, o)
		}
	}
	slices.SortFunc(waiting, func(a, b owner) int { return cmp.Compare(p.claims[a].place, p.claims[b].place) })
	time.Sleep(time.Until(time.UnixMicro(p.at - 1)))
	for _, o := range waiting {
		c := guardstore.Claim{Owner: p.name(o), TTL: ttl, Queue: true, Limit: limitOf(p.claims[o].mode), Ticket: uint64(p.placeOf(p.claims[o].place)), Unsubscribed: p.claims[o].marked}
		if m.Ask(t, c).Status != guardstore.ClaimBusy {
			return false
		}
	}
	switch {
	case len(holders) > 0:
	case len(waiting) > 0:
		m.Drop(replay.MemoryKey)
	default:
		m.GiveBack(t, guardstore.Release{TTL: ttl, Owner: before, Tombstone: tombstone})
	}
	time.Sleep(time.Until(time.UnixMicro(p.at)))
	m.Forget()
	return true
}

// inMemory makes a call on the store in memory, and says what is not as it should be.
func inMemory(t *testing.T, r *rules, c call) (wrong string, done bool) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	defer synctest.Wait()
	defer end()
	p := newPlay(r, c, &variants[0], time.Now().Add(10*time.Second).UnixMicro())
	if !p.ofMemory() {
		return "", false
	}
	m := replay.InMemory(ctx, replay.Instances(owners)...)
	synctest.Wait()
	if !p.bringAbout(t, m) {
		return "", false
	}
	self, limit := p.name(0), limitOf(p.claims[0].mode)
	switch p.what {
	case asks:
		claim := guardstore.Claim{Owner: self, TTL: ttl, Queue: p.queue, Limit: limit, FenceAbove: p.fenceIn(p.floor), Unsubscribed: p.unsubscribed}
		if p.queue && p.place > 0 {
			claim.Ticket = uint64(p.placeOf(p.place))
		}
		p.compareAnswer(m.Ask(t, claim))
	case gives:
		got := m.GiveBack(t, guardstore.Release{TTL: ttl, Owner: self, Fence: p.fenceIn(p.command.fence), Tombstone: p.inDoubt, Limit: limit})
		p.check("status", map[string]guardstore.ReleaseStatus{
			"1": guardstore.ReleaseDone, "2": guardstore.ReleaseAlready, "0": guardstore.ReleaseLost,
		}[fmt.Sprint(p.says())], got.Status)
	default:
		grant := guardstore.Grant{Key: replay.MemoryKey, Owner: self, Fence: p.fenceIn(p.command.fence), TTL: ttl, Depth: 1, Limit: limit}
		p.check("renewed", p.renewed, m.Renew(ctx, []guardstore.Grant{grant})[0].Held)
	}
	p.leftIn(t, m)
	if len(p.wrong) == 0 {
		return "", true
	}
	return fmt.Sprintf("%+v\n%s", c, strings.Join(p.wrong, "\n")), true
}

func (p *play) compareAnswer(got guardstore.ClaimReply) {
	is := &p.k.claims[0]
	switch {
	case is.holds:
		p.check("status", guardstore.ClaimHeld, got.Status)
		p.check("fence", p.text(is.noted), got.Fence)
	case (&script{rules: &rules{}, state: p.k.state}).isOver(is):
		p.check("status", guardstore.ClaimFinished, got.Status)
	default:
		p.check("status", guardstore.ClaimBusy, got.Status)
		if p.queue && is.place <= p.highest() {
			p.check("place", uint64(p.placeOf(is.place)), got.Ticket)
		}
		front := 0
		for o := range p.k.claims {
			if other := &p.k.claims[o]; p.queue && other.queued && other.place < is.place {
				front++
			}
		}
		p.check("in front", front, got.Ahead)
	}
}

// leftIn looks at what is left.
func (p *play) leftIn(t *testing.T, m *replay.Memory) {
	t.Helper()
	var told []string
	for _, o := range p.k.told[:p.k.tells] {
		told = append(told, p.name(o))
	}
	p.check("told", told, m.Granted())
	inside, waiting := 0, map[string]float64{}
	for o := range owner(owners) {
		is := &p.k.claims[o]
		if is.holds && !is.lapsed {
			inside++
			g := guardstore.Grant{Key: replay.MemoryKey, Owner: p.name(o), Fence: p.fenceIn(is.noted), TTL: time.Nanosecond, Depth: 1, Limit: limitOf(is.mode)}
			p.check(fmt.Sprint(o, " is inside"), true, m.Renew(t.Context(), []guardstore.Grant{g})[0].Held)
		}
		if is.queued {
			waiting[p.name(o)] = float64(is.place)
		}
	}
	p.check("inside", inside, m.Depth(replay.MemoryKey))
	queue := m.Queue(replay.MemoryKey)
	p.check("queue", replay.InOrder(waiting), queue)
	for o := range owner(owners) {
		if is := &p.k.claims[o]; !is.holds && (is.tombstone || is.released) {
			reply := m.Ask(t, guardstore.Claim{Owner: p.name(o), TTL: ttl, Limit: limitOf(is.mode)})
			p.check(fmt.Sprint(o, " is over"), guardstore.ClaimFinished, reply.Status)
		}
	}
	if len(queue) == 0 {
		high := p.fenceOf(p.k.last)
		for o := range p.k.claims {
			if p.k.claims[o].holds {
				high = max(high, p.fenceOf(p.k.fence))
			}
		}
		m.Drop(replay.MemoryKey)
		p.check("the next fence", max(p.at, high+1), m.Ask(t, guardstore.Claim{Owner: "p-2", TTL: ttl}).Fence)
	}
	if self := &p.k.claims[0]; p.what == gives && !p.claims[0].holds && !self.tombstone && !self.released {
		reply := m.Ask(t, guardstore.Claim{Owner: p.name(0), TTL: ttl, Limit: limitOf(self.mode)})
		p.check("it is over", false, reply.Status == guardstore.ClaimFinished)
	}
}

// TestReplayInMemory replays what the model says on the store in memory.
func TestReplayInMemory(t *testing.T) {
	t.Parallel()
	all := plain()
	synctest.Test(t, func(t *testing.T) {
		n, skipped := 0, 0
		for _, c := range all {
			wrong, done := inMemory(t, &rules{}, c)
			require.Empty(t, wrong, "store and model differ")
			if n++; !done {
				skipped++
			}
		}
		t.Logf("%d calls, and %d that no call leads to", n-skipped, skipped)
		assert.Less(t, 2*skipped, n)
	})
}

// plain are the calls, each once.
func plain() (all []call) {
	seen := map[*call]bool{}
	for _, c := range small() {
		if !seen[c.call] {
			seen[c.call] = true
			all = append(all, *c.call)
		}
	}
	return all
}

// notOfMemory are rules that a store cannot break which has one place for the highest fence.
var notOfMemory = []string{"lastMissesFences"}

// TestRulesOfTheStoreInMemory takes rules out of the model: each time, the store does
// something else.
func TestRulesOfTheStoreInMemory(t *testing.T) {
	t.Parallel()
	if sparing {
		t.Skip("the race detector leaves time for too few calls")
	}
	all := plain()
	synctest.Test(t, func(t *testing.T) {
		for i, row := range broken {
			name := reflect.TypeFor[rules]().Field(i).Name
			if slices.Contains(notOfOneCall, name) || slices.Contains(notOfMemory, name) {
				continue
			}
			found := ""
			for _, c := range all {
				if found, _ = inMemory(t, &row.broken, c); found != "" {
					break
				}
			}
			assert.NotEmpty(t, found, name)
		}
	})
}
