package model

import (
	"fmt"
	"maps"
	"math"
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
	p.compareEnded()
	p.compareQueue()
	p.compareSeen()
	p.compareMessages()
}

// compareLoosely is for a server whose clock runs: it ignores times, and only checks that a new fence is above the others.
func (p *play) compareLoosely() {
	p.check("reply", kind(p.says()), kind(p.reply))
	if words := strings.Fields(p.reply); p.what == asks && words[0] == "held" && p.minted(0) {
		fence, err := strconv.ParseInt(words[1], 10, 64)
		p.check("the fence is above all", true, err == nil && fence > max(p.fenceOf(p.ahead), p.fenceOf(p.floor)))
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
	for i, key := range []time.Duration{p.after.LockTTL, p.after.QueueTTL, p.after.EndedTTL, p.after.SeenTTL, p.after.HoldersTTL} {
		p.check("nothing lives for ever: "+modeltest.Keys[i], true, key <= 2*time.Hour)
	}
}

// kind is the word that a reply begins with.
func kind(reply string) string { return strings.Fields(reply)[0] }

// notified are the owners that got a message of their grant.
func (p *play) notified() (names []string) {
	for _, o := range p.k.notified[:p.k.notifiedCount] {
		names = append(names, p.name(o))
	}
	return names
}

func (p *play) compareEnded() {
	want, sweeps, lives := map[string]float64{}, p.what == gives && p.inDoubt, p.before.EndedTTL
	if ahead := p.fenceOf(p.k.ahead); p.k.ahead > 0 {
		want["@fence"] = float64(ahead)
		lives = max(lives, time.Duration(math.Ceil(float64(ahead-p.at)/1000)+1000)*time.Millisecond)
	}
	for o := range owner(owners) {
		switch had, is := &p.claims[o], &p.k.claims[o]; {
		case is.tombstone && !had.tombstone, is.tombstone && o == 0 && sweeps:
			want[p.name(o)] = float64(p.at + 60_000_000)
		case is.tombstone:
			want[p.name(o)] = float64(p.at + 30_000_000)
		}
	}
	if p.tombs {
		if want["y-1"] = float64(p.at + 50_000_000); !sweeps {
			want["z-1"] = float64(p.at - 7_000_000)
		}
	}
	if sweeps {
		lives = keeps
	}
	p.check("ended", want, p.after.Ended)
	p.check("ended lives", lives, p.after.EndedTTL)
}

func (p *play) compareLock() {
	lock, index := maps.Clone(p.after.Lock), map[string]float64{}
	taken, _ := p.k.inside()
	several := !p.k.resting && taken > 0 && p.k.claims[p.k.holder()].mode != exclusive
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
		if lives = max(lives, written); !several && written > 0 {
			lives = time.Duration(p.ends(o, written)-p.at+999) / 1000 * time.Millisecond
		}
		until := p.ends(o, written)
		since := p.at
		if !p.minted(o) {
			since = p.since(o)
		}
		h := hold{depth: 1, fence: p.text(is.noted), ends: strconv.FormatInt(since+1000*leaseOf(since, until), 10), ahead: p.minted(o) && p.fenceOf(is.noted) > p.at || !p.minted(o) && p.isAhead(o)}
		if several {
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
		h := hold{fence: words[1], ends: strconv.FormatInt(endOf(words), 10), meta: words[4], ahead: strings.Contains(words[3], "a")}
		if p.rests() { // since the grant, unless the clock is before that now
			h.ends, h.ahead = strconv.FormatInt(min(p.since(0), p.at)+minHold.Microseconds(), 10), h.ahead || p.since(0) > p.at
		}
		p.compareHold(lock[name], h, false, false)
		delete(lock, name)
	}
}

// hold is the value of a holder.
type hold struct {
	depth             int
	fence, ends, meta string
	ahead             bool
}

// compareHold compares a holder. The flags of a sole holder tell the next release where to look.
func (p *play) compareHold(value string, want hold, alone, revoked bool) {
	words := strings.SplitN(value, " ", 5)
	if len(words) != 5 {
		p.check("a holder is there", true, value)
		return
	}
	got := hold{fence: words[1], ends: strconv.FormatInt(endOf(words), 10), meta: words[4], ahead: strings.Contains(words[3], "a")}
	if words[0] != "0" {
		got.depth = 1
	}
	p.check("a holder", want, got)
	p.check("it is revoked", revoked, strings.Contains(words[3], "r"))
	if alone {
		waits := len(modeltest.InOrder(p.after.Queue)) > 0
		p.check("the next release looks at the queue", true, !waits || strings.Contains(words[3], "w"))
	}
}

func (p *play) compareQueue() {
	p.check("queue", p.places(), p.after.Queue)
	for _, of := range []struct {
		what        string
		size        int
		before, has time.Duration
	}{
		{"queue", len(p.after.Queue), p.before.QueueTTL, p.after.QueueTTL},
		{"seen", len(p.after.Seen), p.before.SeenTTL, p.after.SeenTTL},
	} {
		lives := of.before
		if p.k.joined {
			lives = keeps
		}
		if of.size == 0 {
			lives = 0
		}
		p.check(of.what+" lives", lives, of.has)
	}
}

// newHead is the claim that came to be in front, and was not there, nor asked, before.
func (p *play) newHead() string {
	is := append(modeltest.InOrder(p.after.Queue), "")[0]
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

// compareSeen looks at when the claims that wait asked.
func (p *play) compareSeen() {
	want, head := map[string]string{}, p.newHead()
	for o := range owner(owners) {
		name := p.name(o)
		if !p.k.claims[o].queued {
			continue
		}
		want[name] = p.before.Seen[name]
		if o == 0 && p.k.joined || name == head {
			want[name] = fmt.Sprint(p.at)
			if p.k.claims[o].marked {
				want[name] += "-"
			}
		}
	}
	if asked, seen := p.before.Seen[p.dead()]; p.ghostStays() && seen {
		want[p.dead()] = asked
	}
	p.check("seen", want, p.after.Seen)
}

// compareMessages looks at who was asked to ask, and who was told that it is in front.
func (p *play) compareMessages() {
	want := p.notified()
	if head := p.newHead(); head != "" && !strings.HasPrefix(head, "m") {
		want = append(want, "+"+head)
	}
	p.check("notified", want, p.messages)
}
