package limits

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/internal/model/replay"
)

// The replay has the scripts themselves do what the model says that they do, see the one of
// package model. The mapping is the same, with these additions.
//
//   - An owner says in its name what it tolerates: i0-1, i0-2.1, i0-0.1.
//   - From the second holder on, each has an expiry of its own, at the server's clock: it is over
//     when the model says so. Who is left of several keeps it.
//   - The model has no messages. Whoever it grants the lock to is told, in order, and so are
//     those who come to be in front.

const (
	ttl     = 30 * time.Second
	ack     = 2 * time.Second
	keeps   = time.Minute // queue, seen, tombstones; last at least
	ownLeft = 20 * time.Second
	ackLeft = 1500 * time.Millisecond
	qLeft   = 40 * time.Second
	spread  = 4 * gap // µs between two ranks
)

// variant is a way to write down what the model does not tell apart.
type variant struct {
	name     string
	ghost    string // how the dead claim in front died, if there is one: deaf, stale, unseen
	unaware  bool   // those in front do not know that they are
	acked    bool   // whoever is inside was granted the lock, and did not ask yet
	left     bool   // whoever is inside is left of several
	edge     bool   // the time of those who are over is over just now
	marked   bool   // fences were ahead of the clock
	longer   bool   // it lives longer than it has to
	tombs    bool   // there are tombstones of others, one of which is over
	anywhere bool   // PUBLISH does not count all receivers
}

var variants = []variant{
	{name: "plain"},
	{name: "a deaf one in front", ghost: "deaf"},
	{name: "a stale one in front", ghost: "stale", unaware: true},
	{name: "one in front that never asked", ghost: "unseen"},
	{name: "those in front do not know", unaware: true, acked: true},
	{name: "left of several", left: true},
	{name: "at the last moment", edge: true, longer: true},
	{name: "a fence ahead of the clock", marked: true},
	{name: "tombstones of others", tombs: true},
	{name: "on a cluster", anywhere: true, unaware: true},
}

// fits says whether a variant says anything about a call, and changes nothing else: who gives up
// its place behind a dead one was not in front.
func (v *variant) fits(c *call) bool {
	return v.ghost == "" || c.what == asks || c.what == gives && c.claims[0].holds
}

// play is a call of a script, and what becomes of it.
type play struct {
	call
	*variant

	at      int64 // the server's clock, in µs
	k       script
	renewed bool
	before  replay.Content
	after   replay.Content
	reply   any
	heard   []string
	wrong   []string
}

func newPlay(r *rules, c call, v *variant, at int64) *play {
	p := &play{call: c, variant: v, at: at}
	p.k, p.renewed = r.outcome(c, v.ghost != "" || v.tombs, v.ghost != "")
	p.before = p.found()
	return p
}

func (m mode) String() string { return [...]string{"exclusive", "two", "shared"}[m] }

func (p *play) name(o owner) string {
	instance := "i"
	if p.claims[o].marked || o == 0 && p.unsubscribed {
		instance = "m" // nobody listens for it
	}
	return fmt.Sprintf("%s%d-%s", instance, o, [...]string{exclusive: "1", two: "2.1", shared: "0.1"}[p.claims[o].mode])
}

func (p *play) meta(o owner) string { return fmt.Sprintf("of %d", o) }

func (p *play) dead() string {
	if p.ghost == "deaf" {
		return "d-1"
	}
	return "g-1"
}

// fenceOf gives the value of a rank. Those that there were are up to the clock's before; the
// clock goes on by half the way to the next one.
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

func (p *play) placeOf(place uint8) float64 { return float64(p.at - 60_000_000 + int64(place)*10) }

func (p *play) lasting(fence int64) time.Duration {
	return keeps + time.Duration(math.Ceil(float64(max(0, fence-p.at))/1000))*time.Millisecond
}

// expiry is when the time of a holder beside others is over.
func (p *play) expiry(o owner) int64 {
	switch {
	case p.claims[o].lapsed && p.edge:
		return p.at
	case p.claims[o].lapsed:
		return p.at - 1_000_000 - int64(o)
	case p.acked:
		return p.at + ackLeft.Microseconds() + int64(o)
	case p.longer:
		return p.at + time.Hour.Microseconds() - int64(o)
	}
	return p.at + ownLeft.Microseconds() + int64(o)*1_000_000
}

// several says whether those inside have times of their own.
func (p *play) several() bool {
	n, own := 0, p.left
	for _, is := range p.claims {
		if is.holds {
			n++
			own = own && is.mode != exclusive || is.lapsed || is.noted != p.fence
		}
	}
	return n > 1 || n == 1 && own
}

// score is the limit of a claim, as the index of holders has it.
func (m mode) score() float64 {
	if limit := m.limit(); limit < math.MaxInt {
		return float64(-limit)
	}
	return -9007199254740991
}

// found is what the script finds.
func (p *play) found() replay.Content {
	c := replay.Content{Lock: map[string]string{}, Queue: map[string]float64{}, Seen: map[string]string{}, Holders: map[string]float64{}}
	ends, several := p.at+1_000_000, p.several()
	flags := ""
	if p.marked {
		flags = "a1"
	}
	if p.lasting(p.fenceOf(p.last)) > keeps {
		flags = "l" + flags
	}
	for _, is := range p.claims {
		if is.place > 0 && !several || p.ghost != "" && !several {
			flags = "w" + strings.TrimPrefix(flags, "w")
		}
	}
	if flags == "" {
		flags = "-"
	}
	for i, is := range p.claims {
		o, meta := owner(i), ""
		if !p.acked {
			meta = p.meta(o)
		}
		switch {
		case !is.holds:
		case !several:
			c.Lock[p.name(o)] = fmt.Sprint("1 ", p.text(is.noted), " 0 ", flags, " ", meta)
			if c.LockTTL = ackLeft; !p.acked {
				c.LockTTL = ownLeft
			}
		default:
			expiry := p.expiry(o)
			c.Lock[p.name(o)] = fmt.Sprint("1 ", p.text(is.noted), " ", expiry, " ", flags, " ", meta)
			c.Holders[p.name(o)], c.Holders["limit "+p.name(o)] = float64(expiry), is.mode.score()
			ends = max(ends, expiry)
		}
		if is.place > 0 {
			c.Queue[p.name(o)] = p.placeOf(is.place)
		}
		if is.tombstone {
			c.Queue[p.name(o)] = float64(-p.at - 30_000_000)
		}
		if is.released {
			c.Last = p.name(o)
		}
	}
	if several {
		c.Lock["@fence"] = p.text(p.fence)
		c.LockTTL = time.Duration((ends-p.at+999)/1000) * time.Millisecond
	}
	if p.longer && len(c.Lock) > 0 {
		c.LockTTL = time.Hour
	}
	if several {
		c.HoldersTTL = c.LockTTL
	}
	if p.last > 0 || c.Last != "" {
		c.Last = p.text(p.last) + " " + c.Last
		c.LastTTL = p.lasting(p.fenceOf(p.last))
		c.Last += p.until(c.LastTTL)
	}
	if p.tombs {
		c.Queue["y-1"], c.Queue["z-1"] = float64(-p.at-50_000_000), float64(-p.at+7_000_000)
	}
	if p.ghost != "" {
		c.Queue[p.dead()] = p.placeOf(0)
	}
	for i, who := range replay.InOrder(c.Queue) {
		asked := fmt.Sprint(p.at - 14_000_000)
		switch {
		case who == p.dead() && p.ghost == "unseen":
			continue
		case who == p.dead() && p.ghost == "stale":
			asked = fmt.Sprint(p.at - 28_000_000)
		case strings.HasPrefix(who, "m"):
			asked = fmt.Sprint(p.at-300_000, "-")
		case who != p.dead() && i < 2 && !p.unaware:
			asked = fmt.Sprint(p.at-2_000_000, "+")
		}
		c.Seen[who] = asked
	}
	if len(c.Queue) > 0 {
		c.QueueTTL = qLeft
	}
	if len(c.Seen) > 0 {
		c.SeenTTL = qLeft
	}
	return c
}

// until is what last says of its end.
func (p *play) until(lives time.Duration) string {
	if lives <= keeps {
		return ""
	}
	return fmt.Sprint(" ", p.at+lives.Microseconds())
}

func (p *play) args() (name string, keys []string, args []any) {
	self, prefix, ms := p.name(0), "1c:", ttl.Milliseconds()
	if p.anywhere {
		prefix = "0c:"
	}
	inDoubt := 0
	if p.inDoubt {
		inDoubt = 1
	}
	keys = replay.Keys
	switch p.what {
	case asks:
		place := ""
		switch {
		case p.queue && p.place > 0:
			place = fmt.Sprintf("%.0f", p.placeOf(p.place))
		case p.queue:
			place = "0"
		}
		flags := ""
		if p.unsubscribed {
			flags = "u"
		}
		name, args = "acquire", []any{self, ms, p.meta(0), p.text(p.floor), place, prefix, flags}
	case gives:
		name, args = "release", []any{self, ms, p.text(p.command.fence), inDoubt, 0, prefix}
	default:
		name, args = "renew", []any{self, p.text(p.command.fence), ms, 1, p.meta(0)}
		keys = []string{replay.Keys[0], replay.Keys[4]}
	}
	return name, keys, args
}

// replayed makes a call on a server, and says what is not as it should be.
func replayed(t *testing.T, s *replay.Server, r *rules, c one) string {
	t.Helper()
	ctx, at := t.Context(), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	if s.Embed == nil {
		now, err := s.Client.Time(ctx).Result()
		require.NoError(t, err)
		at = now
	} else {
		s.Embed.SetTime(at)
	}
	p := newPlay(r, *c.call, c.variant, at.UnixMicro())
	require.NoError(t, s.Put(ctx, p.before))
	name, keys, args := p.args()
	reply, err := s.Client.EvalSha(ctx, s.Scripts[name], keys, args...).Result()
	if err != nil {
		return fmt.Sprintf("%s %v: %v", name, args, err)
	}
	p.after, err = s.Look(ctx)
	require.NoError(t, err)
	p.reply, p.heard = reply, s.Messages(t)
	if s.Embed == nil {
		p.compareLoosely()
	} else {
		p.compare()
	}
	if len(p.wrong) == 0 {
		return ""
	}
	return fmt.Sprintf("%+v\n%s, found %+v\n%s %v: %v\nleft %+v\n%s", *c.call, c.name, p.before, name, args, reply, p.after, strings.Join(p.wrong, "\n"))
}

func (p *play) check(what string, model, script any) {
	if m, s := fmt.Sprint(model), fmt.Sprint(script); m != s {
		p.wrong = append(p.wrong, fmt.Sprintf("  %s: model %s\n    script %s", what, m, s))
	}
}

// compare compares what a script did with what the model says.
func (p *play) compare() {
	p.compareLock()
	p.compareQueue()
	p.check("reply", p.says(), p.reply)
	last, released := "", ""
	for o := range owner(owners) {
		if p.k.claims[o].released {
			released = p.name(o)
		}
	}
	if p.k.last > 0 || released != "" {
		last = p.text(p.k.last) + " " + released
	}
	last += p.until(p.after.LastTTL)
	p.check("last", last, p.after.Last)
	if last != "" {
		p.check("last lives", max(p.before.LastTTL, p.lasting(p.fenceOf(p.k.last))), p.after.LastTTL)
	}
}

// compareLoosely is for a server whose clock goes on: it does not look at times, nor at fences,
// which are of the clock.
func (p *play) compareLoosely() {
	p.check("reply", kind(p.says()), kind(p.reply))
	waits := map[string]float64{}
	for o := range owner(owners) {
		is := &p.k.claims[o]
		if _, there := p.after.Lock[p.name(o)]; is.holds != there {
			p.check(fmt.Sprint(o, " is inside"), is.holds, there)
		}
		if is.queued {
			waits[p.name(o)] = float64(is.place)
		}
	}
	p.check("queue", replay.InOrder(waits), replay.InOrder(p.after.Queue))
	p.check("the lock lives", p.k.taken(), p.after.LockTTL > 0 && p.after.LockTTL <= time.Hour)
	for i, key := range []time.Duration{p.after.LockTTL, p.after.LastTTL, p.after.QueueTTL, p.after.SeenTTL} {
		p.check("nothing lives for ever: "+replay.Keys[i], true, key <= 2*time.Hour)
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

// wasWritten says for how long a holder was written down by the call, or 0.
func (p *play) wasWritten(o owner) time.Duration {
	was, is := &p.claims[o], &p.k.claims[o]
	switch {
	case !is.holds:
		return 0
	case is.granted:
		return ack
	case o == 0 && p.what == asks, o == 0 && p.what == renews && p.renewed:
		return ttl
	case !was.holds:
		return -1 // nobody else gets in in another way
	}
	return 0
}

// ends is when the time of a holder is over that has one.
func (p *play) ends(o owner, written time.Duration) int64 {
	was := &p.claims[o]
	stays := was.holds && !was.lapsed
	switch {
	case written == 0 && p.several():
		return p.expiry(o)
	case stays && p.several():
		return max(p.expiry(o), p.at+written.Microseconds())
	case stays:
		return p.at + max(p.before.LockTTL, written).Microseconds()
	}
	return p.at + written.Microseconds()
}

func (p *play) compareLock() {
	lock, index := maps.Clone(p.after.Lock), map[string]float64{}
	taken, _ := p.k.inside()
	several := taken > 1 || taken > 0 && p.several() && !p.k.emptied
	if several {
		p.check("@fence", p.text(p.k.fence), lock["@fence"])
		delete(lock, "@fence")
	}
	lives := p.before.LockTTL
	if p.k.emptied || taken == 0 {
		lives = 0
	}
	waits := len(replay.InOrder(p.after.Queue)) > 0
	for o := range owner(owners) {
		is, was := &p.k.claims[o], &p.claims[o]
		value, there := lock[p.name(o)]
		delete(lock, p.name(o))
		if p.check(fmt.Sprint(o, " is inside"), is.holds, there); !is.holds || !there {
			continue
		}
		written := p.wasWritten(o)
		lives = max(lives, written)
		words := strings.SplitN(value, " ", 5)
		if len(words) != 5 {
			p.check(fmt.Sprint(o, " is there"), true, value)
			continue
		}
		p.check(fmt.Sprint(o, "'s depth and fence"), "1 "+p.text(is.noted), words[0]+" "+words[1])
		ends := "0"
		if several {
			until := p.ends(o, written)
			ends = strconv.FormatInt(until, 10)
			index[p.name(o)], index["limit "+p.name(o)] = float64(until), is.mode.score()
		}
		p.check(fmt.Sprint(o, "'s time"), ends, words[2])
		minted := !was.holds || was.lapsed && written != 0 || was.noted != is.noted
		ahead := minted && p.fenceOf(is.noted) > p.at || !minted && p.marked
		p.check(fmt.Sprint(o, "'s fence is ahead"), ahead, strings.Contains(words[3], "a"))
		if !several {
			p.check(fmt.Sprint(o, " has the next release look at the queue"), true, !waits || strings.Contains(words[3], "w"))
			p.check(fmt.Sprint(o, " has the next release look at last"), true, p.after.LastTTL <= keeps || strings.Contains(words[3], "l"))
		}
		meta := ""
		if written == ttl || written <= 0 && !p.acked {
			meta = p.meta(o)
		}
		p.check(fmt.Sprint(o, "'s metadata"), meta, words[4])
	}
	p.check("the lock lives", lives, p.after.LockTTL)
	p.check("nothing else is in the lock", map[string]string{}, lock)
	p.check("index", index, p.after.Holders)
	if several {
		p.check("the index lives", lives, p.after.HoldersTTL)
	}
}

func (p *play) compareQueue() {
	queue, seen := maps.Clone(p.after.Queue), maps.Clone(p.after.Seen)
	for o := range owner(owners) {
		had, is, who := &p.claims[o], &p.k.claims[o], p.name(o)
		want := map[bool]float64{true: p.placeOf(is.place)}[is.queued]
		switch {
		case is.tombstone && !had.tombstone, is.tombstone && o == 0 && p.what == gives && p.inDoubt:
			want = float64(-p.at - 60_000_000)
		case is.tombstone:
			want = float64(-p.at - 30_000_000)
		case is.queued && is.place > p.highest():
			want = p.newPlace()
		}
		p.check(fmt.Sprint(o, "'s place"), want, queue[who])
		delete(queue, who)
		asked, there := seen[who]
		if p.check(fmt.Sprint(o, " is seen"), is.queued, there); there {
			before := p.before.Seen[who]
			if o == 0 && p.what == asks {
				if before = fmt.Sprint(p.at); p.unsubscribed {
					before += "-"
				}
				asked = strings.TrimSuffix(asked, "+")
			} else if asked != before && !strings.HasSuffix(before, "+") {
				p.check(fmt.Sprint(o, " was told that it is in front"), true, slices.Contains(p.heard, "+"+who))
				asked = strings.TrimSuffix(strings.TrimSuffix(asked, "+"), fmt.Sprint(".", p.at))
			}
			p.check(fmt.Sprint(o, " asked"), before, asked)
		}
		delete(seen, who)
	}
	var told []string
	for _, o := range p.k.told[:p.k.tells] {
		told = append(told, p.name(o))
	}
	var heard []string
	for _, who := range p.heard {
		if first, is := strings.CutPrefix(who, "+"); !is {
			heard = append(heard, who)
		} else {
			p.check(first+" knows that it is in front", true, strings.HasSuffix(p.after.Seen[first], "+"))
			p.check(first+" did not know before", false, strings.HasSuffix(p.before.Seen[first], "+"))
		}
	}
	p.check("told", told, heard)
	p.compareRest(queue, seen)
	if p.k.heads {
		for i, who := range replay.InOrder(p.after.Queue) {
			if i < 2 && who != p.name(0) {
				p.check(who+" was told that it is in front", true, strings.ContainsAny(p.after.Seen[who], "+-"))
			}
		}
	}
}

// compareRest looks at what the model does not know.
func (p *play) compareRest(queue map[string]float64, seen map[string]string) {
	if p.ghost != "" {
		// It is out as soon as somebody looks who is in front.
		_, there := queue[p.dead()]
		p.check("the dead one is there", !p.k.walks && !p.k.heads, there)
		delete(queue, p.dead())
		delete(seen, p.dead())
	}
	rest := map[string]float64{}
	if p.tombs {
		if rest["y-1"] = float64(-p.at - 50_000_000); p.what != gives || !p.inDoubt {
			rest["z-1"] = float64(-p.at + 7_000_000)
		}
	}
	p.check("nothing else is in the queue", rest, queue)
	p.check("nobody else is seen", map[string]string{}, seen)
	lives := p.before.QueueTTL
	if p.k.joined || p.what == gives && p.inDoubt {
		lives = keeps
	}
	if len(p.after.Queue) == 0 {
		lives = 0
	}
	p.check("the queue lives", lives, p.after.QueueTTL)
}

func (p *play) highest() (place uint8) {
	place = p.place
	for _, is := range p.claims {
		place = max(place, is.place)
	}
	return place
}

// newPlace is behind all others.
func (p *play) newPlace() float64 {
	place := float64(p.at)
	for _, its := range p.before.Queue {
		place = max(place, its+1)
	}
	return place
}

// says is the reply that the model speaks of.
func (p *play) says() any {
	was, is := &p.claims[0], &p.k.claims[0]
	switch {
	case p.what == renews && p.renewed:
		return int64(1)
	case p.what == renews:
		return int64(0)
	case p.what == gives && was.holds && !was.lapsed:
		return int64(1)
	case p.what == gives && !was.holds && was.released:
		return int64(2)
	case p.what == gives:
		return int64(0)
	case is.holds:
		minted := is.noted != was.noted || !was.holds
		if minted && p.fenceOf(is.noted) > p.at || !minted && p.marked {
			return "-" + p.text(is.noted)
		}
		return p.text(is.noted)
	}
	if (&script{rules: &rules{}, state: p.k.state}).isOver(is) {
		return int64(0)
	}
	place, front := "0", int64(0)
	if p.queue {
		place = fmt.Sprintf("%.0f", p.after.Queue[p.name(0)])
		front = int64(slices.Index(replay.InOrder(p.after.Queue), p.name(0)))
	}
	left, next, latest := p.after.LockTTL.Milliseconds(), math.Inf(1), ""
	for who := range p.after.Lock {
		if ends := p.after.Holders[who]; who != "@fence" {
			next = min(next, cmp.Or(ends, math.Inf(1)))
			if before := p.after.Holders[latest]; latest == "" || ends > before || ends == before && who > latest {
				latest = who
			}
		}
	}
	if is.mode.limit() > 1 && len(p.after.Holders) > 0 {
		left = min(left, int64(math.Ceil((next-float64(p.at))/1000)))
	}
	meta := strings.SplitN(p.after.Lock[latest]+"     ", " ", 5)[4]
	_, strictest := p.k.inside()
	if strictest == math.MaxInt {
		strictest = 0
	}
	return []any{left, strings.TrimSuffix(meta, "     "), place, front, int64(strictest), int64(0)}
}

// embedded starts a Redis with a clock that is set.
func embedded(t *testing.T, alter func(name, source string) string) *replay.Server {
	t.Helper()
	return replay.Embedded(t, owners, alter)
}

// one is a call in a variant.
type one struct {
	*call
	*variant
}

// small are the calls within smaller bounds, each once: those of few claims in all variants,
// the others in one.
var small = sync.OnceValue(func() (all []one) {
	seen := map[call]bool{}
	for i, b := range smaller {
		w := newWatch()
		run(&rules{watch: w}, b)
		for _, c := range slices.Collect(maps.Keys(w.calls)) {
			w.calls[c.near()] = struct{}{}
		}
		for n, c := range slices.SortedFunc(maps.Keys(w.calls), call.compare) {
			for j := range variants {
				v := &variants[j]
				if most := i > 0 || sparing; !seen[c] && v.fits(&c) && (!most || n%len(variants) == j) {
					all = append(all, one{&c, v})
				}
			}
			seen[c] = true
		}
	}
	rnd := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // each time the same
	rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
})

// near is a call beside one that was found, for rules that are a second line of defence, or matter
// within larger bounds only. Who is over asks; who waits brings a worse place than it has; who
// renews holds under another fence; who releases had done so;
// who asks, or holds, wants a fence above that of all.
func (c call) near() call {
	self := &c.claims[0]
	switch {
	case c.what == renews && self.holds:
		c.command.fence = self.noted + 1
	case c.what == gives && !self.holds && c.fence == 0 && c.last > 0:
		self.released = true
	case c.what != asks:
	case self.holds:
		c.floor = self.noted
	case self.place > 0:
		c.place, c.floor = self.place+2, max(c.now, c.last, c.fence)+gap
	case c.fence == 0 && c.last > 0 && c.place == 0:
		self.released = true
	default:
		self.tombstone = true
	}
	return c
}

func (c call) compare(other call) int { return cmp.Compare(fmt.Sprint(c), fmt.Sprint(other)) }

// TestReplay makes all calls, on several servers at once.
func TestReplay(t *testing.T) {
	t.Parallel()
	const servers = 4
	for i := range servers {
		t.Run(fmt.Sprint("share ", i), func(t *testing.T) {
			t.Parallel()
			s := embedded(t, nil)
			for j, c := range small() {
				if j%servers == i {
					require.Empty(t, replayed(t, s, &rules{}, c), "script and model differ")
				}
			}
			t.Logf("a share of %d calls of scripts", len(small()))
		})
	}
}

// TestReplayOnRedis is a sample of the replay on a redis-server.
func TestReplayOnRedis(t *testing.T) {
	t.Parallel()
	s, n := replay.Real(t, owners), 0
	for _, c := range small()[:min(3000, len(small()))] {
		if c.ghost == "" && !c.edge {
			n++
			require.Empty(t, replayed(t, s, &rules{}, c), "script and model differ")
		}
	}
	t.Logf("%d calls", n)
}

// TestRulesOfScripts takes the rules that scripts keep out of the model, one by one: each
// time, the scripts do something else.
func TestRulesOfScripts(t *testing.T) {
	t.Parallel()
	if sparing {
		t.Skip("the race detector leaves time for too few calls")
	}
	s := embedded(t, nil)
	for i, row := range broken {
		name := reflect.TypeFor[rules]().Field(i).Name
		if slices.Contains(notOfOneCall, name) {
			continue
		}
		found := ""
		for _, c := range small() {
			if found = replayed(t, s, &row.broken, c); found != "" {
				break
			}
		}
		assert.NotEmpty(t, found, name)
	}
}

// notOfOneCall are rules that no single call of a script shows: the instance's, and those of
// what happens after a time.
var notOfOneCall = []string{"trustsLateAnswers", "hashLivesAsTheLatest", "grantHasNoEnd"}

// TestBrokenScripts breaks the scripts, one rule at a time: the replay notices each time. The
// rules are those of the table of make mutants that name this test.
func TestBrokenScripts(t *testing.T) {
	t.Parallel()
	if sparing {
		t.Skip("the race detector leaves time for too few calls")
	}
	replay.BrokenScripts(t, "./guard/internal/model/limits", func(t *testing.T, alter func(name, source string) string) bool {
		t.Helper()
		s := embedded(t, alter)
		return slices.ContainsFunc(small(), func(c one) bool { return replayed(t, s, &rules{}, c) != "" })
	})
}
