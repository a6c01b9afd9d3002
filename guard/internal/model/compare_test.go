package model

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
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
	p.check("reply", p.says(), p.reply)
	p.compareLock()
	p.compareLast()
	p.compareQueue()
	p.compareSeen()
	p.compareMessages()
}

// compareLoosely is for a server whose clock goes on: it does not look at times, and of a new fence only at
// whether it is above the others.
func (p *play) compareLoosely() {
	p.check("reply", kind(p.says()), kind(p.reply))
	if text, is := p.reply.(string); is && p.minted(0) {
		fence, err := strconv.ParseInt(strings.TrimPrefix(text, "-"), 10, 64)
		p.check("the fence is above all", true, err == nil && fence > max(p.fenceOf(p.last), p.fenceOf(p.floor)))
	}
	for o := range owner(owners) {
		is := &p.k.claims[o]
		if value, there := p.after.Lock[p.name(o)]; is.holds != (there && !strings.HasPrefix(value, "0 ")) {
			p.check(fmt.Sprint(o, " is inside"), is.holds, there)
		}
	}
	p.check("queue", modeltest.InOrder(p.places()), modeltest.InOrder(p.after.Queue))
	p.check("notified", p.notified(), slices.DeleteFunc(p.messages, func(m string) bool { return strings.HasPrefix(m, "+") }))
	p.check("the lock lives", p.k.taken(), p.after.LockTTL > 0 && p.after.LockTTL <= time.Hour)
	for i, key := range []time.Duration{p.after.LockTTL, p.after.LastTTL, p.after.QueueTTL, p.after.SeenTTL, p.after.HoldersTTL} {
		p.check("nothing lives for ever: "+modeltest.Keys[i], true, key <= 2*time.Hour)
	}
}

// kind is what a reply says, apart from times.
func kind(reply any) string {
	switch r := reply.(type) {
	case []any:
		return "busy"
	case string:
		return "held"
	default:
		return fmt.Sprint(r)
	}
}

// notified are the owners that got a message of their grant.
func (p *play) notified() (names []string) {
	for _, o := range p.k.notified[:p.k.notifiedCount] {
		names = append(names, p.name(o))
	}
	return names
}

func (p *play) compareLast() {
	lives := max(p.before.LastTTL, p.lasting(p.fenceOf(p.k.last)))
	released := ""
	for i, was := range p.claims {
		if p.k.claims[i].released {
			if released = p.name(owner(i)); p.rounds && was.released {
				released = p.claimOf(owner(i)) + "~3"
			}
		}
	}
	if p.rests() {
		lives = max(p.before.LastTTL, p.lasting(p.fenceOf(p.k.last))+p.rest())
	}
	last := ""
	if p.k.last > 0 || released != "" {
		last = p.text(p.k.last) + " " + released + p.until(lives)
		p.check("last lives", lives, p.after.LastTTL)
	}
	p.check("last", last, p.after.Last)
}

func (p *play) compareLock() {
	lock, index := maps.Clone(p.after.Lock), map[string]float64{}
	taken, _ := p.k.inside()
	several := !p.k.resting && (taken > 1 || taken > 0 && p.several() && !p.k.emptied)
	if several {
		p.check("@fence", p.text(p.k.fence), lock["@fence"])
		delete(lock, "@fence")
	}
	lives := p.before.LockTTL
	switch {
	case p.rests():
		lives = p.rest()
	case p.k.emptied || taken == 0 || p.resting && !p.k.resting:
		lives = 0
	}
	for o := range owner(owners) {
		is, name := &p.k.claims[o], p.name(o)
		value, there := lock[name]
		if resting := p.k.resting && strings.HasPrefix(value, "0 "); resting {
			continue
		}
		delete(lock, name)
		if p.check(fmt.Sprint(o, " is inside"), is.holds, there); !is.holds || !there {
			continue
		}
		written := p.wasWritten(o)
		lives = max(lives, written)
		h := hold{depth: 1, fence: p.text(is.noted), ends: "0", ahead: p.minted(o) && p.fenceOf(is.noted) > p.at || !p.minted(o) && p.isAhead(o)}
		if several {
			until := p.ends(o, written)
			h.ends = strconv.FormatInt(until, 10)
			index[name], index["limit "+name] = float64(until), is.mode.score()
		}
		if written == ttl || written <= 0 && !p.acked {
			h.meta = p.meta(o)
		}
		p.compareHold(value, h, !several, is.revoked)
	}
	p.compareRest(lock)
	p.check("the lock lives", lives, p.after.LockTTL)
	p.check("nothing else is in the lock", map[string]string{}, lock)
	p.check("index", index, p.after.Holders)
	if several {
		p.check("the index lives", lives, p.after.HoldersTTL)
	}
}

// compareRest looks at a lock that only a MinHold keeps.
func (p *play) compareRest(lock map[string]string) {
	for name, value := range p.before.Lock {
		if !p.k.resting || p.rests() && name != p.name(0) {
			continue
		}
		words := strings.SplitN(value, " ", 5)
		h := hold{fence: words[1], ends: words[2], meta: words[4], ahead: strings.Contains(words[3], "a")}
		if p.rests() {
			h.ends = strconv.FormatInt(p.at+p.rest().Microseconds(), 10)
		}
		p.compareHold(lock[name], h, false, false)
		delete(lock, name)
	}
}

// hold is what is there of a holder.
type hold struct {
	depth             int
	fence, ends, meta string
	ahead             bool
}

// compareHold compares a holder. One that is there alone says what the next release has to look at.
func (p *play) compareHold(value string, want hold, alone, revoked bool) {
	words := strings.SplitN(value, " ", 5)
	if len(words) != 5 {
		p.check("a holder is there", true, value)
		return
	}
	got := hold{fence: words[1], ends: words[2], meta: words[4], ahead: strings.Contains(words[3], "a")}
	if words[0] != "0" {
		got.depth = 1
	}
	p.check("a holder", want, got)
	p.check("it is revoked", revoked, strings.Contains(words[3], "r"))
	if alone {
		waits := len(modeltest.InOrder(p.after.Queue)) > 0
		p.check("the next release looks at the queue", true, !waits || strings.Contains(words[3], "w"))
		p.check("the next release looks at last", true, p.after.LastTTL <= keeps || strings.Contains(words[3], "l"))
	}
}

func (p *play) compareQueue() {
	want, sweeps := p.places(), p.what == gives && p.inDoubt
	for o := range owner(owners) {
		had, is := &p.claims[o], &p.k.claims[o]
		switch {
		case is.tombstone && !had.tombstone, is.tombstone && o == 0 && sweeps:
			want[p.claimOf(o)] = float64(-p.at - 60_000_000)
		case is.tombstone:
			want[p.claimOf(o)] = float64(-p.at - 30_000_000)
		}
	}
	if p.tombs {
		if want["y-1"] = float64(-p.at - 50_000_000); !sweeps {
			want["z-1"] = float64(-p.at + 7_000_000)
		}
	}
	p.check("queue", want, p.after.Queue)
	for _, of := range []struct {
		what        string
		size        int
		before, has time.Duration
	}{
		{"queue", len(p.after.Queue), p.before.QueueTTL, p.after.QueueTTL},
		{"seen", len(p.after.Seen), p.before.SeenTTL, p.after.SeenTTL},
	} {
		lives := of.before
		if p.k.joined || sweeps {
			lives = keeps
		}
		if of.size == 0 {
			lives = 0
		}
		p.check(of.what+" lives", lives, of.has)
	}
}

// compareSeen looks at when the claims that wait asked, and whether they know that they are in front.
func (p *play) compareSeen() {
	seen := maps.Clone(p.after.Seen)
	for o := range owner(owners) {
		name := p.name(o)
		asked, there := seen[name]
		delete(seen, name)
		if p.check(fmt.Sprint(o, " is seen"), p.k.claims[o].queued, there); !there {
			continue
		}
		before := p.before.Seen[name]
		switch {
		case o == 0 && p.k.joined && p.unsubscribed:
			before = fmt.Sprint(p.at, "-")
		case o == 0 && p.k.joined:
			if before = fmt.Sprint(p.at); p.frontAtFirst() < 2 {
				before += "+"
			}
		case asked != before && !strings.HasSuffix(before, "+"):
			p.check(name+" was notified that it is in front", true, slices.Contains(p.messages, "+"+name))
			asked = strings.TrimSuffix(strings.TrimSuffix(asked, "+"), fmt.Sprint(".", p.at))
		}
		p.check(name+" asked", before, asked)
	}
	if p.ghostStays() {
		p.check("the dead one asked", p.before.Seen[p.dead()], seen[p.dead()])
		delete(seen, p.dead())
	}
	p.check("nobody else is seen", map[string]string{}, seen)
	for i, name := range modeltest.InOrder(p.after.Queue) {
		if p.k.heads && i < 2 && name != p.name(0) {
			p.check(name+" was notified that it is in front", true, strings.ContainsAny(p.after.Seen[name], "+-"))
		}
	}
}

// frontAtFirst is how many were in front of the owner when it joined the queue.
func (p *play) frontAtFirst() (n int) {
	for name, place := range p.before.Queue {
		if name != p.name(0) && place > 0 && place < p.after.Queue[p.name(0)] {
			n++
		}
	}
	return n
}

func (p *play) compareMessages() {
	var messages []string
	for _, name := range p.messages {
		first, is := strings.CutPrefix(name, "+")
		if !is {
			messages = append(messages, name)
			continue
		}
		p.check(first+" knows that it is in front", true, strings.HasSuffix(p.after.Seen[first], "+"))
		p.check(first+" did not know before", false, strings.HasSuffix(p.before.Seen[first], "+"))
	}
	p.check("notified", p.notified(), messages)
}
