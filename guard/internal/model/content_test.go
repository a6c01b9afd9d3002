package model

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redlatch/redlatch/guard/internal/model/modeltest"
)

// How the model's words are written down in Redis. Fences, places and the clock are numbers of µs: equal ranks are equal
// numbers, and a script runs at the time that the model has after it. An owner says in its name what it tolerates: i0-1,
// i0-2.1, i0-0.1. The model has no metadata, no marks in seen and no message but "ask". What scripts do with them follows
// from what the model says, and is checked, too.

const (
	ttl     = 30 * time.Second
	ack     = 2 * time.Second
	keeps   = time.Minute // queue, seen, tombstones
	ownLeft = 20 * time.Second
	ackLeft = 1500 * time.Millisecond
	qLeft   = 40 * time.Second
	minHold = 25 * time.Second // that a release asks for
	restOne = 5 * time.Second  // of a MinHold that has not ended
	agoHeld = 3 * time.Second  // a hold under a fence that is ahead of the clock began
	spread  = 4 * gap          // µs between two ranks
)

// variant is a way to write down what the model does not tell apart.
type variant struct {
	name      string
	ghost     string // how the dead claim died, if there is one: deaf, stale, unseen, mute
	second    bool   // it is second in the queue, not first
	acked     bool   // the holder was granted the lock, and did not ask yet
	edge      bool   // the holders that have expired did so just now
	marked    bool   // fences were ahead of the clock
	longer    bool   // a hold lives longer than it has to
	farPlaces bool   // places are ahead of the clock
	tombs     bool   // there are tombstones of other owners, one of which has expired
	anywhere  bool   // PUBLISH does not count all receivers
}

var variants = []variant{
	{name: "plain"},
	{name: "a deaf one in front", ghost: "deaf"},
	{name: "a stale one in front", ghost: "stale"},
	{name: "one in front that never asked", ghost: "unseen"},
	{name: "a silent one without a subscription in front", ghost: "mute"},
	{name: "a deaf one in second place", ghost: "deaf", second: true},
	{name: "a stale one in second place", ghost: "stale", second: true},
	{name: "a grant that was not asked for yet", acked: true},
	{name: "places ahead of the clock", farPlaces: true},
	{name: "at the last moment", edge: true, longer: true},
	{name: "a fence ahead of the clock", marked: true},
	{name: "tombstones of others", tombs: true},
	{name: "on a cluster", anywhere: true},
}

// fits reports whether a variant says anything about a call, and changes nothing else: a claim that gives up
// its place after a dead one was not in front. A claim without a subscription asks by itself, and keeps others out for
// as long as it does not fit.
func (v *variant) fits(c *call) bool {
	waits, beside, unmarked := false, false, false
	for _, is := range c.claims {
		waits = waits || is.place > 0
		beside = beside || is.holds && is.mode != exclusive
		unmarked = unmarked || is.holds && is.noted > c.now && !is.outran // its fence came to be ahead after the grant
	}
	ghost := c.what == asks || c.what == gives && c.claims[0].holds
	switch {
	case v.ghost != "" && !ghost, v.ghost == "mute" && beside, v.marked && unmarked:
		return false
	}
	return !v.second && !v.farPlaces || waits
}

// play is a call of a script, and what becomes of it.
type play struct {
	call
	*variant

	at       int64 // the server's clock, in µs
	k        script
	before   modeltest.Content
	after    modeltest.Content
	reply    string
	messages []string
	late     time.Duration // since the call, if Redis's own clock runs
	wrong    []string
}

func newPlay(r *rules, c call, v *variant, at int64) *play {
	p := &play{call: c, variant: v, at: at}
	p.k = r.outcome(c, v.ghost != "", v.ghost != "" && !v.second)
	p.before = p.found()
	return p
}

// name names a claim. A claim without a subscription is of an instance without a listener.
func (p *play) name(o owner) string {
	instance := "i"
	if p.claims[o].marked || o == 0 && p.unsubscribed {
		instance = "m"
	}
	return fmt.Sprintf("%s%d-%s", instance, o, [...]string{exclusive: "1", two: "2.1", shared: "0.1"}[p.claims[o].mode])
}

func (p *play) meta(o owner) string { return fmt.Sprintf("of %d", o) }

// dead names the dead claim. The instance of a deaf claim has no listener.
func (p *play) dead() string {
	if p.ghost == "deaf" || p.ghost == "mute" {
		return "d-1"
	}
	return "g-1"
}

// fenceOf returns the value of a rank. Those that there were are up to the clock's before; the
// clock moves by half the way to the next one.
func (p *play) fenceOf(v uint8) int64 {
	switch goes := p.now + gap/2; {
	case v == 0:
		return 0
	case v >= goes && v < p.now+gap:
		return p.at + int64(v-goes)
	}
	return p.at - spread/2 + (int64(v/gap)-int64(p.now/gap))*spread + int64(v%gap)
}

func (p *play) text(v uint8) string { return strconv.FormatInt(p.fenceOf(v), 10) }

func (p *play) placeOf(place uint8) float64 {
	from := p.at - 60_000_000
	if p.farPlaces {
		from = p.at + 60_000_000
	}
	return float64(from + int64(place)*10)
}

// highest is the highest place that there is.
func (p *play) highest() (place uint8) {
	place = p.place
	for _, is := range p.claims {
		place = max(place, is.place)
	}
	return place
}

// newPlace is after all others.
func (p *play) newPlace() float64 {
	place := float64(p.at)
	for _, its := range p.before.Queue {
		place = max(place, its+1)
	}
	return place
}

// places are those of the queue, the dead claim's, too.
func (p *play) places() map[string]float64 {
	all := map[string]float64{}
	for o := range owner(owners) {
		if is := &p.k.claims[o]; is.queued && is.place > p.highest() {
			all[p.name(o)] = p.newPlace()
		} else if is.queued {
			all[p.name(o)] = p.placeOf(is.place)
		}
	}
	if p.ghostStays() {
		all[p.dead()] = p.before.Queue[p.dead()]
	}
	return all
}

func (p *play) isAhead(o owner) bool { return p.claims[o].outran || p.marked }

// since is when a holder was granted the lock.
func (p *play) since(o owner) int64 {
	if p.isAhead(o) {
		return p.at - agoHeld.Microseconds()
	}
	return p.fenceOf(p.claims[o].noted)
}

// hold is the value of a holder.
type hold struct {
	depth          int
	fence          int64
	since, ends    int64 // the lease between them is of whole milliseconds
	ahead, revoked bool
	meta           string
}

// held is how a holder is found.
func (p *play) held(o owner) hold {
	is := &p.claims[o]
	h := hold{depth: 1, fence: p.fenceOf(is.noted), since: p.since(o), ahead: p.isAhead(o), revoked: is.revoked}
	if !p.acked {
		h.meta = p.meta(o)
	}
	switch {
	case is.lapsed && p.edge:
		h.ends = p.at - (p.at-h.since)%1000
	case is.lapsed:
		h.ends = p.at - 1_000_000 - int64(o)*1000 - (p.at-h.since)%1000
	case p.acked:
		h.endsAt(p.at + ackLeft.Microseconds() + int64(o)*1000)
	case p.longer:
		h.endsAt(p.at + time.Hour.Microseconds() - int64(o)*1000)
	default:
		h.endsAt(p.at + ownLeft.Microseconds() + int64(o)*1_000_000)
	}
	return h
}

// endsAt has a hold end then, or less than a millisecond later.
func (h *hold) endsAt(at int64) { h.ends = h.since + (at-h.since+999)/1000*1000 }

// last is the hold that a MinHold left.
func (p *play) last() hold {
	h := hold{fence: p.fenceOf(p.now), since: p.fenceOf(p.now), meta: "of the last one"}
	h.endsAt(p.at + restOne.Microseconds())
	return h
}

func (h *hold) text(flags string) string {
	if h.ahead {
		flags += fmt.Sprint("a", h.since)
	}
	if h.revoked {
		flags = "r" + flags
	}
	return fmt.Sprint(h.depth, " ", h.fence, " ", max(h.ends-h.since+999, 0)/1000, " ", orDash(flags), " ", h.meta)
}

func orDash(flags string) string {
	if flags == "" {
		return "-"
	}
	return flags
}

// found is what the script finds.
func (p *play) found() modeltest.Content {
	c := modeltest.Content{
		Lock: map[string]string{}, Queue: map[string]float64{}, Ended: map[string]float64{}, Seen: map[string]string{}, Holders: map[string]float64{},
	}
	p.foundEnded(&c)
	p.foundQueue(&c)
	flags, ends := "", p.at+1_000_000
	if len(c.Queue) > 0 && !p.several() {
		flags = "w"
	}
	for i, is := range p.claims {
		if !is.holds {
			continue
		}
		h, name := p.held(owner(i)), p.name(owner(i))
		c.Lock[name], ends = h.text(flags), max(ends, h.ends)
		if is.mode != exclusive {
			c.Holders[name], c.Holders["limit "+name] = float64(h.ends), is.mode.score()
		}
	}
	if p.resting {
		h := p.last()
		c.Lock["r-1"], ends = h.text(flags), p.at+restOne.Microseconds()
	}
	if len(c.Lock) > 0 {
		c.LockTTL = time.Duration((ends-p.at+999)/1000) * time.Millisecond
	}
	if p.several() {
		c.Lock["@fence"] = p.text(p.fence)
		c.HoldersTTL = c.LockTTL
	}
	return c
}

// several reports whether those inside tolerate others.
func (p *play) several() bool {
	for _, is := range p.claims {
		if is.holds && is.mode != exclusive {
			return true
		}
	}
	return false
}

// score is the limit of a claim, as the index of holders has it.
func (m mode) score() float64 {
	if limit := m.limit(); limit < math.MaxInt {
		return float64(-limit)
	}
	return -9007199254740991
}

// foundEnded writes down the tombstones, and the fence that is ahead of the clock.
func (p *play) foundEnded(c *modeltest.Content) {
	if p.ahead > 0 {
		c.Ended["@fence"] = float64(p.fenceOf(p.ahead))
	}
	for i, is := range p.claims {
		if is.tombstone {
			c.Ended[p.name(owner(i))] = float64(p.at + 30_000_000)
		}
	}
	if p.tombs {
		c.Ended["y-1"], c.Ended["z-1"] = float64(p.at+50_000_000), float64(p.at-7_000_000)
	}
	if len(c.Ended) > 0 {
		c.EndedTTL = qLeft
	}
}

func (p *play) foundQueue(c *modeltest.Content) {
	for i, is := range p.claims {
		if is.place > 0 {
			c.Queue[p.name(owner(i))] = p.placeOf(is.place)
		}
	}
	if p.second {
		c.Queue[p.dead()] = c.Queue[modeltest.InOrder(c.Queue)[0]] + 1
	} else if p.ghost != "" {
		c.Queue[p.dead()] = p.placeOf(0)
	}
	for i, name := range modeltest.InOrder(c.Queue) {
		asked := fmt.Sprint(p.at - 14_000_000)
		switch {
		case name == p.dead() && p.ghost == "unseen":
			continue
		case name == p.dead() && p.ghost == "stale":
			asked = fmt.Sprint(p.at - 28_000_000)
		case name == p.dead() && p.ghost == "mute":
			asked = fmt.Sprint(p.at-5_000_001, "-")
		case strings.HasPrefix(name, "m"):
			asked = fmt.Sprint(p.at-300_000, "-")
		case name != p.dead() && i == 0:
			asked = fmt.Sprint(p.at - 2_000_000)
		}
		c.Seen[name] = asked
	}
	if len(c.Queue) > 0 {
		c.QueueTTL = qLeft
	}
	if len(c.Seen) > 0 {
		c.SeenTTL = qLeft
	}
}

// isPlain reports whether all that the owner wants is in one letter, or in none.
func (c *call) isPlain() bool {
	return c.claims[0].mode == exclusive && c.place == 0 && c.floor == 0 && !c.inDoubt && !c.keep && !c.careful
}

// quick reports whether a script may go the quick way: a plain claim finds nothing, or a plain release its hold alone.
func (c *call) quick() bool {
	if !c.isPlain() || c.resting || c.ahead > 0 || c.what == gives && !c.claims[0].holds {
		return false
	}
	for i, is := range c.claims {
		if is.place > 0 || is.tombstone || is.holds && (i > 0 || c.what != gives) {
			return false
		}
	}
	return c.what != renews
}

func (p *play) args() (name string, keys []string, args []any) {
	self, channels, ms := p.name(0), "1"+modeltest.Channels, ttl.Milliseconds()
	if p.anywhere {
		channels = "0" + modeltest.Channels
	}
	switch p.what {
	case asks:
		wants := "-"
		if p.queue {
			wants = "0"
		}
		if p.queue && p.place > 0 {
			wants = fmt.Sprintf("%.0f", p.placeOf(p.place))
		}
		if p.unsubscribed {
			wants += "-"
		}
		if !p.isPlain() {
			wants += " " + p.text(p.floor)
		}
		return "acquire", modeltest.Keys, []any{channels, self, ms, p.meta(0), wants}
	case gives:
		how := ""
		if !p.isPlain() {
			how = p.text(p.command.fence) + " " + strconv.FormatInt(int64(modeltest.Bit(p.keep))*minHold.Milliseconds(), 10) + [...]string{" -", " t"}[modeltest.Bit(p.inDoubt)]
		}
		return "release", modeltest.Keys, []any{channels, self, how}
	}
	keys = modeltest.Keys[:1]
	if p.claims[0].mode != exclusive {
		keys = []string{modeltest.Keys[0], modeltest.Keys[4]}
	}
	return "renew", keys, []any{self, p.text(p.command.fence), ms, 1, p.meta(0)}
}

// wasWritten says for how long a holder was written down by the call, or 0.
func (p *play) wasWritten(o owner) time.Duration {
	switch is := &p.k.claims[o]; {
	case !is.holds || p.k.ended:
		return 0
	case is.granted:
		return ack
	case o == 0 && p.what == asks, o == 0 && p.k.renewed:
		return ttl
	}
	return 0
}

// rests reports whether the call has the lock rest.
func (p *play) rests() bool { return p.k.resting && !p.resting }

// ghostStays reports whether the dead claim is still there: it goes as soon as a command looks for the front, and finds it there.
func (p *play) ghostStays() bool {
	if p.ghost == "" || !p.k.walks && !p.k.heads {
		return p.ghost != ""
	}
	first := slices.IndexFunc(p.claims[:], func(is entry) bool { return is.place > 0 && p.placeOf(is.place)+1 == p.before.Queue[p.dead()] })
	return p.second && p.k.claims[first].queued
}

// says is the reply that the model speaks of.
func (p *play) says() string {
	was, is := &p.claims[0], &p.k.claims[0]
	held := was.holds && !was.lapsed
	switch {
	case p.what == renews && p.k.renewed:
		return "held " + fmt.Sprint(p.at)
	case p.what == renews && held && was.revoked:
		return "revoked"
	case p.what == gives && held && was.revoked:
		return "revoked"
	case p.what == gives && held && p.rests():
		return "kept"
	case p.what == gives && held:
		return "released"
	case p.what != asks:
		return "lost"
	case p.k.ended:
		return "ended"
	case is.holds:
		return "held " + p.text(is.noted) + " " + fmt.Sprint(p.at)
	}
	return p.saysBusy()
}

// minted reports whether a holder has a new fence.
func (p *play) minted(o owner) bool {
	was, is := &p.claims[o], &p.k.claims[o]
	return !was.holds || was.lapsed && p.wasWritten(o) != 0 || was.noted != is.noted
}

func (p *play) saysBusy() string {
	place, front := 0.0, 0
	if p.queue {
		places := p.places()
		place, front = places[p.name(0)], slices.Index(modeltest.InOrder(places), p.name(0))
	}
	// Who can share the lock waits for the first that leaves, another one for the last.
	ends, meta := int64(-1), ""
	for _, h := range p.holds() {
		sooner := p.k.claims[0].limit() > 1
		if ends < 0 || h.ends != ends && (h.ends < ends) == sooner {
			ends, meta = h.ends, h.meta
		}
	}
	_, strictest := p.k.inside()
	if strictest == math.MaxInt {
		strictest = 0
	}
	left := (ends - p.at + 999) / 1000
	if ends < 0 {
		left = -1
	}
	return fmt.Sprintf("busy %d %.0f %d %d %d %s", left, place, front, strictest, modeltest.Bit(p.k.resting), meta)
}
