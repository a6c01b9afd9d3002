package model

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/model/modeltest"
)

// What the model says of a call is replayed on the store in memory, too, in a bubble, where the clock stands still. It has no
// back door: earlier calls bring about what a call finds, and further ones show the data after it.

// isOfMemory reports whether the store in memory knows anything of a variant.
func (v *variant) isOfMemory() bool {
	is := variant{name: v.name, ghost: v.ghost, second: v.second, farPlaces: v.farPlaces}
	return *v == is && v.ghost != "unseen" && v.ghost != "mute"
}

// isReachable reports whether earlier calls lead there: no claim waits for a lock that was released
// last, as a release grants it; and no owner holds it for longer than a claim may be silent.
// storetest.TestStore has rows for MinHold and revocation. After a holder that tolerates others, this store leaves a
// dead claim where it is until it is in front.
func (p *play) isReachable() bool {
	var holds, living, revoked, beside bool
	waits, high := p.ghost != "", uint8(0)
	if p.what == gives && p.command.fence > p.now && !p.careful { // its clock is not set back
		return false
	}
	for _, is := range p.claims {
		if is.noted > p.now && !is.outran {
			return false
		}
		waits, revoked = waits || is.place > 0, revoked || is.revoked
		beside = beside || is.mode != exclusive
		holds, living, high = holds || is.holds, living || is.holds && !is.lapsed, max(high, is.noted)
	}
	switch {
	case p.resting || p.keep || revoked, p.ghost != "" && beside, p.what == gives && p.claims[0].lapsed: // there, a script finds the owner still, and notes that it left
		return false
	case holds && !living && p.what == gives && p.claims[0].mode == exclusive: // the lock is free there, and not here
		return false
	case holds:
		return high == p.fence && (p.ahead == 0 || p.ahead == p.fence) && p.ghost != "stale"
	}
	return true
}

// limitOf is a mode in the words of a store.
func limitOf(m mode) guardstore.Limit {
	return [...]guardstore.Limit{exclusive: guardstore.Exclusive, two: 2, shared: guardstore.Unlimited}[m]
}

func (p *play) fenceIn(v uint8) uint64 { return uint64(p.fenceOf(v)) }

// sleepUntil lets time pass in the bubble.
func sleepUntil(at int64) { time.Sleep(time.Until(time.UnixMicro(at))) }

// claimed are the claims of which something is so, the lowest by a value first.
func (p *play) claimed(by func(is entry) uint8) (some []owner) {
	for o := range owner(owners) {
		if by(p.claims[o]) > 0 {
			some = append(some, o)
		}
	}
	slices.SortStableFunc(some, func(a, b owner) int { return cmp.Compare(by(p.claims[a]), by(p.claims[b])) })
	return some
}

// bringAbout makes what the call finds, if it can.
func (p *play) bringAbout(t *testing.T, m *modeltest.Memory) bool {
	t.Helper()
	const before = "r-1"
	for o := range owner(owners) {
		if is := &p.claims[o]; is.tombstone {
			m.GiveBack(t, guardstore.Release{TTL: ttl, Owner: p.name(o), Tombstone: true, Limit: limitOf(is.mode)})
		}
	}
	holders, waiting := p.claimed(func(is entry) uint8 { return is.noted }), p.claimed(func(is entry) uint8 { return is.place })
	if len(holders) == 0 {
		m.Ask(t, guardstore.Claim{Owner: before, TTL: time.Hour, FenceAbove: max(p.fenceIn(p.ahead), 1) - 1})
		sleepUntil(p.at - map[bool]int64{true: 28_000_000, false: 14_000_000}[p.ghost == "stale"])
	}
	for _, o := range holders {
		if !p.takes(t, m, o) {
			return false
		}
	}
	if p.ghost != "" {
		m.Ask(t, guardstore.Claim{Owner: p.dead(), TTL: ttl, Queue: true, Ticket: uint64(p.before.Queue[p.dead()])})
	}
	sleepUntil(p.at - 1)
	for _, o := range waiting {
		is := &p.claims[o]
		c := guardstore.Claim{Owner: p.name(o), TTL: ttl, Queue: true, Limit: limitOf(is.mode), Ticket: uint64(p.placeOf(is.place)), Unsubscribed: is.marked}
		if m.Ask(t, c).Status != guardstore.ClaimBusy {
			return false
		}
	}
	switch {
	case len(holders) > 0:
	case len(waiting) > 0 || p.ghost != "":
		m.Drop(modeltest.Key)
	default:
		m.GiveBack(t, guardstore.Release{TTL: ttl, Owner: before})
	}
	sleepUntil(p.at)
	m.Granted() // of before
	return true
}

// takes has an owner hold the lock under its fence, and says whether it could.
func (p *play) takes(t *testing.T, m *modeltest.Memory, o owner) bool {
	t.Helper()
	is, when := &p.claims[o], min(p.fenceOf(p.claims[o].noted), p.at-spread/2)
	if is.outran {
		when = p.at - 1_000_000
	}
	sleepUntil(when)
	until := time.UnixMicro(p.at)
	if !is.lapsed {
		until = time.UnixMicro(p.held(o).ends)
	}
	reply := m.Ask(t, guardstore.Claim{
		Owner: p.name(o), TTL: time.Until(until), Limit: limitOf(is.mode), FenceAbove: p.fenceIn(is.noted) - 1, Metadata: p.meta(o),
	})
	return reply.Status == guardstore.ClaimHeld && reply.Fence == p.fenceIn(is.noted)
}

// inMemory makes a call on the store in memory, and returns how the answer differs from the model, or "".
func (r *rules) inMemory(t *testing.T, c one) (wrong string, done bool) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	defer synctest.Wait()
	defer end()
	p := newPlay(r, *c.call, c.variant, time.Now().Add(50*time.Second).UnixMicro())
	if !p.isReachable() {
		return "", false
	}
	m := modeltest.InMemory(ctx, owners, "g")
	synctest.Wait()
	if !p.bringAbout(t, m) {
		return "", false
	}
	self, limit := p.name(0), limitOf(p.claims[0].mode)
	switch p.what {
	case asks:
		claim := guardstore.Claim{
			Owner: self, TTL: ttl, Queue: p.queue, Limit: limit, FenceAbove: p.fenceIn(p.floor), Unsubscribed: p.unsubscribed, Metadata: p.meta(0),
		}
		if p.queue && p.place > 0 {
			claim.Ticket = uint64(p.placeOf(p.place))
		}
		p.compareAnswer(m.Ask(t, claim))
	case gives:
		got := m.GiveBack(t, guardstore.Release{TTL: ttl, Owner: self, Fence: p.fenceIn(p.command.fence), Tombstone: p.inDoubt, Limit: limit})
		p.check("status", map[string]guardstore.ReleaseStatus{
			"released": guardstore.ReleaseDone, "lost": guardstore.ReleaseLost,
		}[p.says()], got.Status)
	default:
		grant := guardstore.Grant{Key: modeltest.Key, Owner: self, Fence: p.fenceIn(p.command.fence), TTL: ttl, Depth: 1, Limit: limit, Metadata: p.meta(0)}
		p.check("renewed", p.k.renewed, m.Renew(ctx, []guardstore.Grant{grant})[0].Held)
	}
	p.compareLeft(t, m)
	return p.differs(), true
}

// sole is how long the holder that is inside alone has left, and what it shows.
func (p *play) sole() (left time.Duration, meta string, is bool) {
	if n, strictest := p.k.inside(); n != 1 || strictest != 1 || p.k.holder() == noOwner {
		return 0, "", false
	}
	h := p.holds()[p.name(p.k.holder())]
	return time.Duration(h.ends-p.at) * time.Microsecond, h.meta, true
}

func (p *play) compareAnswer(got guardstore.ClaimReply) {
	is := &p.k.claims[0]
	switch {
	case p.k.ended:
		p.check("reply", guardstore.ClaimReply{Status: guardstore.ClaimFinished}, got)
	case is.holds:
		ahead := got.FenceAhead
		if p.minted(0) || p.claims[0].outran {
			ahead = p.fenceOf(is.noted) > p.at || !p.minted(0)
		}
		p.check("reply", guardstore.ClaimReply{Status: guardstore.ClaimHeld, Fence: p.fenceIn(is.noted), FenceAhead: ahead}, got)
	default:
		want, places := guardstore.ClaimReply{Status: guardstore.ClaimBusy}, p.places()
		if p.queue {
			want.Ticket = uint64(places[p.name(0)])
			want.Ahead = slices.Index(modeltest.InOrder(places), p.name(0))
		}
		var sole bool
		if want.Remaining, want.Holder, sole = p.sole(); !sole {
			want.Remaining, want.Holder = got.Remaining, got.Holder
		}
		want.Limit = got.Limit
		p.check("reply", want, got)
	}
}

// compareLeft compares the data afterwards.
func (p *play) compareLeft(t *testing.T, m *modeltest.Memory) {
	t.Helper()
	p.check("notified", p.granted(), m.Granted())
	inside := 0
	for o := range owner(owners) {
		if is := &p.k.claims[o]; is.holds && !is.lapsed {
			inside++
			g := guardstore.Grant{Key: modeltest.Key, Owner: p.name(o), Fence: p.fenceIn(is.noted), TTL: time.Nanosecond, Depth: 1, Limit: limitOf(is.mode)}
			p.check(fmt.Sprint(o, " is inside"), true, m.Renew(t.Context(), []guardstore.Grant{g})[0].Held)
		}
	}
	p.check("inside", inside, m.Depth(modeltest.Key))
	queue := m.Queue(modeltest.Key)
	p.check("queue", modeltest.InOrder(p.places()), queue)
	left, _, sole := p.sole()
	if sole {
		p.check("for", left, m.Ask(t, guardstore.Claim{Owner: "p-1", TTL: ttl}).Remaining)
	}
	for o := range owner(owners) {
		is := &p.k.claims[o]
		if hasEnded := is.tombstone; !is.holds && (hasEnded || sole) {
			reply := m.Ask(t, guardstore.Claim{Owner: p.name(o), TTL: ttl, Limit: limitOf(is.mode)})
			p.check(fmt.Sprint(o, " has ended"), hasEnded, reply.Status == guardstore.ClaimFinished)
		}
	}
	if len(queue) == 0 {
		high := max(p.fenceOf(p.k.ahead), p.fenceOf(p.k.fence), p.fenceOf(p.fence)) // this store forgets none
		if p.what == gives {
			high = max(high, p.fenceOf(p.command.fence))
		}
		m.Drop(modeltest.Key)
		p.check("the next fence", max(p.at, high+1), m.Ask(t, guardstore.Claim{Owner: "p-2", TTL: ttl}).Fence)
	}
	if self := &p.k.claims[0]; p.what == gives && !p.claims[0].holds && !self.tombstone {
		reply := m.Ask(t, guardstore.Claim{Owner: p.name(0), TTL: ttl, Limit: limitOf(self.mode)})
		p.check("it is over", false, reply.Status == guardstore.ClaimFinished)
	}
}

// plain are the calls in the variants that the store in memory knows, and each call as it is.
func plain() (all []one) {
	seen := map[*call]bool{}
	for _, c := range small() {
		if !seen[c.call] {
			seen[c.call] = true
			all = append(all, one{c.call, &variants[0]})
		}
		if c.variant != &variants[0] && c.isOfMemory() {
			all = append(all, c)
		}
	}
	return all
}

// TestReplayInMemory replays what the model says on the store in memory.
func TestReplayInMemory(t *testing.T) {
	t.Parallel()
	modeltest.InBubble(t, plain(), (&rules{}).inMemory)
}
