package model

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"time"

	"github.com/redlatch/redlatch/guard/internal/model/modeltest"
)

func (p *play) check(what string, model, store any) {
	if m, s := fmt.Sprint(model), fmt.Sprint(store); m != s {
		p.wrong = append(p.wrong, fmt.Sprintf("  %s: model %s\n    store %s", what, m, s))
	}
}

// differs is empty if nothing is wrong.
func (p *play) differs(more ...any) string {
	if len(p.wrong) == 0 {
		return ""
	}
	return fmt.Sprintf("%+v\n%s, found %+v\n%s%s", p.call, p.variant.name, p.before, fmt.Sprintln(more...), strings.Join(p.wrong, "\n"))
}

// compare compares what a script did with what the model says.
func (p *play) compare() {
	want := p.left()
	p.check("reply", p.says(), p.reply)
	p.check("the lock", want.Lock, p.withoutW(p.after.Lock))
	p.check("queue", want.Queue, p.after.Queue)
	p.check("ended", want.Ended, p.after.Ended)
	p.check("seen", want.Seen, p.after.Seen)
	p.check("holders", want.Holders, p.after.Holders)
	for i, is := range p.after.TTLs() {
		if should := *want.TTLs()[i]; *is > should+p.late || *is < should-p.late {
			p.check(modeltest.Keys[i]+" lives", should, *is)
		}
	}
	p.check("messages", p.messaged(), p.messages)
}

// withoutW drops the flag that tells the release of a sole holder to look at the queue. It may be there for no claim.
func (p *play) withoutW(lock map[string]string) map[string]string {
	plain := maps.Clone(lock)
	for name, value := range lock {
		words := strings.SplitN(value, " ", 5)
		if len(words) < 5 {
			continue
		}
		if words[0] != "0" && len(p.after.Holders) == 0 && len(p.after.Queue) > 0 {
			p.check("the next release looks at the queue", true, strings.Contains(words[3], "w"))
		}
		words[3] = orDash(strings.Trim(strings.ReplaceAll(words[3], "w", ""), "-"))
		plain[name] = strings.Join(words, " ")
	}
	return plain
}

// left is what the call leaves.
func (p *play) left() modeltest.Content {
	c := modeltest.Content{Lock: map[string]string{}, Holders: map[string]float64{}, Queue: p.places(), Seen: map[string]string{}, Ended: map[string]float64{}}
	p.leftLock(&c)
	p.leftEnded(&c)
	p.leftSeen(&c)
	c.QueueTTL, c.SeenTTL = p.before.QueueTTL, p.before.SeenTTL
	if p.k.joined {
		c.QueueTTL, c.SeenTTL = keeps, keeps
	}
	if len(c.Queue) == 0 {
		c.QueueTTL = 0
	}
	if len(c.Seen) == 0 {
		c.SeenTTL = 0
	}
	return c
}

func (p *play) leftLock(c *modeltest.Content) {
	holds := p.holds()
	for name, h := range holds {
		c.Lock[name] = h.text("")
	}
	taken, _ := p.k.inside()
	several := !p.k.resting && taken > 0 && p.k.claims[p.k.holder()].mode != exclusive
	c.LockTTL = p.before.LockTTL
	switch {
	case p.rests():
		h := holds[p.name(0)]
		c.LockTTL = time.Duration(h.ends-p.at+999) / 1000 * time.Millisecond
	case p.k.emptied || taken == 0 || p.resting && !p.k.resting:
		c.LockTTL = 0
	}
	for o := range owner(owners) {
		name, written := p.name(o), p.wasWritten(o)
		h, there := holds[name]
		if c.LockTTL = max(c.LockTTL, written); !several && written > 0 {
			c.LockTTL = time.Duration(h.ends-p.at+999) / 1000 * time.Millisecond
		}
		if there && several {
			c.Holders[name], c.Holders["limit "+name] = float64(h.ends), p.k.claims[o].mode.score()
		}
	}
	if several {
		c.Lock["@fence"], c.HoldersTTL = p.text(p.k.fence), c.LockTTL
	}
}

// holds are those that are left.
func (p *play) holds() map[string]hold {
	all := map[string]hold{}
	for o := range owner(owners) {
		is, written := &p.k.claims[o], p.wasWritten(o)
		if !is.holds {
			continue
		}
		h := p.held(o)
		if p.minted(o) {
			if !p.claims[o].holds || p.claims[o].lapsed {
				h.ends = 0
			}
			h.fence, h.since = p.fenceOf(is.noted), p.at
			h.ahead, h.revoked = h.fence > p.at, is.revoked
		}
		switch written {
		case ttl:
			h.meta = p.meta(o)
		case ack:
			h.meta = ""
		}
		if written > 0 {
			h.ends = max(h.ends, p.at+written.Microseconds())
		}
		all[p.name(o)] = h
	}
	switch {
	case p.rests(): // since the grant, unless the clock is before that now
		h := p.held(0)
		if h.since > p.at {
			h.since, h.ahead = p.at, true
		}
		h.depth, h.ends = 0, h.since+minHold.Microseconds()
		all[p.name(0)] = h
	case p.k.resting:
		all["r-1"] = p.last()
	}
	return all
}

func (p *play) leftEnded(c *modeltest.Content) {
	sweeps := p.what == gives && p.inDoubt
	c.EndedTTL = p.before.EndedTTL
	if ahead := p.fenceOf(p.k.ahead); p.k.ahead > 0 {
		c.Ended["@fence"] = float64(ahead)
		c.EndedTTL = max(c.EndedTTL, time.Duration(math.Ceil(float64(ahead-p.at)/1000)+1000)*time.Millisecond)
	}
	for o := range owner(owners) {
		switch had, is := &p.claims[o], &p.k.claims[o]; {
		case is.tombstone && !had.tombstone, is.tombstone && o == 0 && sweeps:
			c.Ended[p.name(o)] = float64(p.at + 60_000_000)
		case is.tombstone:
			c.Ended[p.name(o)] = float64(p.at + 30_000_000)
		}
	}
	if p.tombs {
		if c.Ended["y-1"] = float64(p.at + 50_000_000); !sweeps {
			c.Ended["z-1"] = float64(p.at - 7_000_000)
		}
	}
	if sweeps {
		c.EndedTTL = keeps
	}
}

// newHead is the claim that came to be in front, and was not there, nor asked, before.
func (p *play) newHead() string {
	is := append(modeltest.InOrder(p.places()), "")[0]
	was := append(modeltest.InOrder(p.before.Queue), "")[0]
	if is == p.name(0) || is == was && !(p.what == asks && p.queue && p.k.claims[0].holds && (!p.claims[0].holds || p.claims[0].lapsed) && p.broughtPlace() < p.before.Queue[was]) {
		return ""
	}
	return is
}

// broughtPlace is where the owner joined the queue.
func (p *play) broughtPlace() float64 {
	place := p.newPlace()
	for _, its := range []uint8{p.place, p.claims[0].place} {
		if its > 0 {
			place = min(place, p.placeOf(its))
		}
	}
	return place
}

// leftSeen is when the claims that wait asked.
func (p *play) leftSeen(c *modeltest.Content) {
	head := p.newHead()
	for o := range owner(owners) {
		name := p.name(o)
		if !p.k.claims[o].queued {
			continue
		}
		c.Seen[name] = p.before.Seen[name]
		if o == 0 && p.k.joined || name == head {
			c.Seen[name] = fmt.Sprint(p.at)
			if p.k.claims[o].marked {
				c.Seen[name] += "-"
			}
		}
	}
	if asked, seen := p.before.Seen[p.dead()]; p.ghostStays() && seen {
		c.Seen[p.dead()] = asked
	}
}

// granted are the owners that got a message of their grant.
func (p *play) granted() (names []string) {
	for _, o := range p.k.notified[:p.k.notifiedCount] {
		names = append(names, p.name(o))
	}
	return names
}

// messaged returns the owners that messages asked to send again, and the owner that a message told to be in front.
func (p *play) messaged() []string {
	all := p.granted()
	if head := p.newHead(); head != "" && !strings.HasPrefix(head, "m") {
		all = append(all, "+"+head)
	}
	return all
}
