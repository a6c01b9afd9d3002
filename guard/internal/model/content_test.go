package model

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"time"

	"github.com/redlatch/redlatch/guard/internal/model/replay"
)

// How the model's words are written down in Redis.
//
//   - A fence, and the clock, is a number of µs: equal ranks are equal numbers, a rank above
//     another is a higher number, and the fence after another is one more. A script runs at
//     one time, that which the model has after it.
//   - A place is a number of µs, too, below the clock. A new one is the clock, or one more
//     than the highest in the queue: the model knows it by being above all others.
//   - A hold lives for a ttl, a grant for an ack window. Whoever waits asked a moment ago,
//     and its instance listens: what the model says of those it passes over before, ghosts
//     show, who are dead in one way or another and make no difference.
//   - The model has no metadata, no marks in seen and no message but "ask". What scripts do
//     with them follows from what the model says, and is checked along.

const (
	ttl     = 30 * time.Second
	ack     = 2 * time.Second
	keeps   = time.Minute // queue, seen, tombstones; last at least
	ownLeft = 20 * time.Second
	ackLeft = 1500 * time.Millisecond
	qLeft   = 40 * time.Second
	minHold = 25 * time.Second // that a release asks for
	restOne = 5 * time.Second  // of one that is not over
	agoHeld = 3 * time.Second  // a hold under a fence that is ahead of the clock began
)

// content is what is in Redis under one key.
type content struct{ replay.Content }

func (c content) clone() content { return content{c.Clone()} }

// variant is a way to write down what the model does not tell apart.
type variant struct {
	name      string
	ghost     string // how the dead claim died, if there is one: deaf, stale, unseen, mute
	second    bool   // it stands behind the first, not in front
	unaware   bool   // those in front do not know that they are
	farPlaces bool   // places are ahead of the clock
	longLast  bool   // last lives for longer than it has to
	longHold  bool   // so does the hold, which shows other metadata
	tombs     bool   // there are tombstones of others, one of which is over
	rounds    bool   // owners are rounds of claims on a quorum
	anywhere  bool   // PUBLISH does not count all receivers
}

var variants = []variant{
	{name: "plain"},
	{name: "a deaf one in front", ghost: "deaf"},
	{name: "a stale one in front", ghost: "stale"},
	{name: "one in front that never asked", ghost: "unseen"},
	{name: "a silent one without a subscription in front", ghost: "mute"},
	{name: "a deaf one in second place", ghost: "deaf", second: true, unaware: true},
	{name: "a stale one in second place", ghost: "stale", second: true, unaware: true},
	{name: "those in front do not know", unaware: true},
	{name: "places ahead of the clock", farPlaces: true},
	{name: "a last that lives longer", longLast: true},
	{name: "a hold that lives longer", longHold: true},
	{name: "tombstones of others", tombs: true},
	{name: "rounds of a quorum", rounds: true},
	{name: "on a cluster", anywhere: true, unaware: true},
}

// fits says whether a variant says anything about a call.
func (v *variant) fits(c call) bool {
	waits := c.places != [owners]uint8{}
	// Who gives up its place after a dead one was not in front.
	leaves := v.ghost != "" && c.release && c.holder != 0
	return (!v.second && !v.farPlaces || waits) && (!v.rounds || !waits && !c.queue) && !leaves
}

// hold is what the hash of the lock has: one owner.
type hold struct{ who, depth, fence, ends, flags, meta string }

// flag notes something of a hold.
func (h *hold) flag(mark string) {
	if h != nil && !strings.Contains(h.flags, mark) {
		h.flags = mark + strings.TrimPrefix(h.flags, "-")
	}
}

func (h *hold) fields() map[string]string {
	if h == nil {
		return map[string]string{}
	}
	return map[string]string{h.who: strings.Join([]string{h.depth, h.fence, h.ends, h.flags, h.meta}, " ")}
}

// script is a call of a script, and what becomes of it.
type script struct {
	call
	*variant

	said answer

	at      int64 // the server's clock, in µs
	spread  int64 // µs between two ranks
	before  content
	after   content
	hold    *hold
	reply   []any
	heard   []string // in order
	highest uint8    // place
	over    view
}

// write writes a call down. at is the clock when the script runs, spread how far ranks are
// apart: on a server whose clock goes on, by more than it may go on meanwhile.
func write(r *rules, c call, v *variant, at, spread int64) *script {
	s := &script{call: c, variant: v, at: at, spread: spread}
	s.said, s.over = r.outcome(c)
	for _, place := range append(c.places[:], c.place) {
		s.highest = max(s.highest, place)
	}
	s.before = s.found()
	s.left()
	return s
}

func (s *script) name(o owner) string {
	if s.rounds {
		return s.claimOf(o) + "~7"
	}
	return s.claimOf(o)
}

// claimOf names a claim. One that has no subscription is of an instance that nobody listens for.
func (s *script) claimOf(o owner) string {
	if s.mute[o] || o == 0 && s.unsubscribed {
		return fmt.Sprintf("m%d-1", o)
	}
	return fmt.Sprintf("i%d-1", o)
}

// shown is what the hold shows.
func (s *script) shown() string {
	if s.longHold {
		return "of somebody before"
	}
	return s.meta(s.holder)
}

// dead is the claim that is. One that is deaf has an instance that nobody listens for.
func (s *script) dead() string {
	if s.ghost == "deaf" || s.ghost == "mute" {
		return "d-1"
	}
	return "g-1"
}

func (s *script) meta(o owner) string { return fmt.Sprintf("of %d", o) }

// fenceOf gives the value of a rank. Those that there were are up to the clock's before;
// the clock goes on by half the way to the next one.
func (s *script) fenceOf(v uint8) int64 {
	switch v {
	case 0:
		return 0
	case s.over.now:
		return s.at
	}
	return s.at - s.spread/2 + (int64(v/gap)-int64(s.now/gap))*s.spread + int64(v%gap)
}

func (s *script) text(v uint8) string { return fmt.Sprint(s.fenceOf(v)) }

func (s *script) placeOf(p uint8) int64 {
	at := s.at - 60_000_000
	if s.farPlaces {
		at = s.at + 60_000_000
	}
	return at + int64(p)*10
}

// newPlace is behind all others.
func (s *script) newPlace(queue map[string]float64) float64 {
	highest := float64(s.at - 1)
	for _, place := range queue {
		highest = max(highest, place)
	}
	return highest + 1
}

// lasting is for how long last is to live.
func (s *script) lasting(fence int64, had time.Duration) time.Duration {
	return max(had, keeps+time.Duration(math.Ceil(float64(max(0, fence-s.at))/1000))*time.Millisecond)
}

// found is what the script finds.
func (s *script) found() content {
	c := content{replay.Content{Lock: map[string]string{}, Queue: map[string]float64{}, Seen: map[string]string{}}}
	if s.last > 0 || s.released != nobody {
		c.Last = s.text(s.last) + " "
		if s.released != nobody {
			c.Last += s.claimOf(s.released)
			if s.rounds {
				c.Last += "~3"
			}
		}
		if c.LastTTL = s.lasting(s.fenceOf(s.last), 0); s.longLast {
			c.LastTTL = time.Hour
		}
		c.Last += s.until(c.LastTTL)
	}
	s.found1(&c)
	for o := range owner(owners) {
		if s.places[o] > 0 {
			c.Queue[s.name(o)] = float64(s.placeOf(s.places[o]))
		}
		if s.tombstone[o] {
			c.Queue[s.claimOf(o)] = float64(-s.at - 30_000_000)
		}
	}
	if s.tombs {
		c.Queue["y-1"], c.Queue["z-1"] = float64(-s.at-50_000_000), float64(-s.at+7_000_000)
	}
	first := replay.InOrder(c.Queue)
	if s.ghost != "" {
		c.Queue[s.dead()] = float64(s.placeOf(0))
		if s.second {
			c.Queue[s.dead()] = c.Queue[first[0]] + 1
		}
	}
	for i, who := range replay.InOrder(c.Queue) {
		asked := fmt.Sprint(s.at - 14_000_000)
		switch {
		case who == s.dead() && s.ghost == "unseen":
			continue
		case who == s.dead() && s.ghost == "stale":
			asked = fmt.Sprint(s.at - 28_000_000)
		case who == s.dead() && s.ghost == "mute":
			asked = fmt.Sprint(s.at-1_500_001, "-")
		case strings.HasPrefix(who, "m"):
			asked = fmt.Sprint(s.at-300_000, "-")
		case who != s.dead() && i < 2 && !s.unaware:
			asked += "+"
		}
		c.Seen[who] = asked
	}
	c.ttls(qLeft, qLeft)
	if len(c.Seen) > 0 || s.ghost != "" {
		s.hold.flag("w")
	}
	c.Lock = s.hold.fields()
	return c
}

// until is what last says of its end.
func (s *script) until(lives time.Duration) string {
	if lives <= keeps {
		return ""
	}
	return fmt.Sprint(" ", s.at+lives.Microseconds())
}

// found1 is who the script finds inside.
func (s *script) found1(c *content) {
	switch {
	case s.holder != nobody:
		h := &hold{who: s.name(s.holder), depth: "1", fence: s.text(s.fence), ends: "0", flags: "-"}
		if c.LockTTL = ackLeft; !s.granted {
			h.meta, c.LockTTL = s.shown(), ownLeft
		}
		if s.longHold {
			c.LockTTL = time.Hour
		}
		if s.ahead {
			h.flag(fmt.Sprint("a", s.at-agoHeld.Microseconds()))
		}
		if c.LastTTL > keeps {
			h.flag("l")
		}
		if s.revoked {
			h.flag("r")
		}
		s.hold = h
	case s.resting:
		c.LockTTL = restOne
		s.hold = &hold{"r-1", "0", s.text(s.last), fmt.Sprint(s.at + restOne.Microseconds()), "-", "of the last one"}
		if s.released != nobody {
			s.hold.who = s.name(s.released)
		}
	}
}

// ttls sets those of the queue and of seen, where there are any.
func (c *content) ttls(queue, seen time.Duration) {
	if c.QueueTTL = queue; len(c.Queue) == 0 {
		c.QueueTTL = 0
	}
	if c.SeenTTL = seen; len(c.Seen) == 0 {
		c.SeenTTL = 0
	}
}

// behind is how many in a queue a place is behind.
func behind(queue map[string]float64, place float64) (n int64) {
	for _, its := range queue {
		if its > 0 && its < place {
			n++
		}
	}
	return n
}

// left works out what the script leaves: who holds the lock, under which fence, who waits,
// in which order, and who is over, is what the model says.
func (s *script) left() {
	s.after = s.before.clone()
	if s.release {
		s.leftByRelease()
	} else {
		s.leftByAcquire()
	}
	// What the model says goes before what follows from it.
	for o := range owner(owners) {
		if s.over.holder == o {
			if s.hold == nil {
				s.hold = &hold{} // a model that breaks a rule
			}
			s.hold.who, s.hold.depth, s.hold.fence = s.name(o), "1", s.text(s.over.fence)
		}
		switch place := s.over.places[o]; {
		case s.over.tombstone[o] && !s.tombstone[o]:
			s.after.Queue[s.claimOf(o)] = float64(-s.at - 60_000_000)
		case s.over.tombstone[o]: // as before, or again
		case place == 0:
			delete(s.after.Queue, s.name(o))
		case place <= s.highest:
			s.after.Queue[s.name(o)] = float64(s.placeOf(place))
		}
	}
	if s.over.holder == nobody && !s.over.resting {
		s.hold, s.after.LockTTL = nil, 0
	}
	if s.over.resting && s.hold == nil {
		s.hold = &hold{who: s.name(0), depth: "0"} // a model that breaks a rule
	}
	s.after.Lock = s.hold.fields()
	if s.over.last > 0 || s.over.released != nobody {
		_, released, _ := strings.Cut(s.after.Last, " ")
		released, _, _ = strings.Cut(released, " ")
		if s.over.released != s.released {
			if released = ""; s.over.released != nobody {
				released = s.name(s.over.released)
			}
		}
		s.after.Last = s.text(s.over.last) + " " + released + s.until(s.after.LastTTL)
	}
	s.after.ttls(s.after.QueueTTL, s.after.SeenTTL)
}

func (s *script) leftByAcquire() {
	c, self := &s.after, s.name(0)
	switch {
	case s.said.word == isOver:
		s.reply = []any{int64(0)}
		return
	case s.holder == 0:
		s.hold.meta = s.meta(0)
		if c.LockTTL = max(c.LockTTL, ttl); s.over.fence != s.fence {
			s.take(0, ttl)
		}
		s.reply = s.says(0)
		return
	}
	place, front := float64(0), int64(0)
	if s.queue && (s.holder != nobody || s.resting || len(c.Queue) > 0) {
		place = s.join(0)
		front = behind(c.Queue, place)
	}
	if s.holder == nobody && !s.resting {
		who := s.grant(self)
		if who == "" && s.said.word == isHeld {
			s.take(0, ttl)
			who = self
		}
		if who == self {
			s.reply = s.says(0)
			return
		}
		if s.queue {
			front = behind(c.Queue, place)
		}
	}
	if s.said.word == isHeld { // a model that breaks a rule
		s.reply = s.says(0)
		return
	}
	meta, done := "", int64(0)
	if s.hold != nil {
		meta = s.hold.meta
	}
	if s.resting {
		done = 1
	}
	s.reply = []any{c.LockTTL.Milliseconds(), meta, fmt.Sprintf("%.0f", place), front, int64(1), done}
}

func (s *script) leftByRelease() {
	c, self := &s.after, s.name(0)
	led := false
	if order := replay.InOrder(c.Queue); len(order) > 0 {
		led = order[0] == self
	}
	rests, rest := s.said.word == isResting, time.Duration(0)
	frees := s.said.word == isFreed || s.said.word == isRevoked || rests
	switch {
	case rests:
		rest = s.rest()
		s.hold.depth, s.hold.ends, c.LockTTL = "0", fmt.Sprint(s.at+rest.Microseconds()), rest
	case frees:
		s.hold, c.LockTTL = nil, 0
	}
	s.reply = []any{map[word]int64{isLost: 0, isFreed: 1, isAlready: 2, isRevoked: 3, isResting: 4}[s.said.word]}
	quiet := frees && !s.inDoubt && len(replay.InOrder(c.Queue)) == 0
	switch {
	case quiet:
	case s.inDoubt:
		maps.DeleteFunc(c.Queue, func(_ string, score float64) bool { return score < 0 && score > float64(-s.at) })
		delete(c.Seen, self)
		delete(c.Queue, self)
		c.Queue[s.claimOf(0)] = float64(-s.at - 60_000_000)
		c.QueueTTL, c.SeenTTL = keeps, keeps
	case !frees:
		delete(c.Queue, self)
		delete(c.Seen, self)
	}
	free := s.holder == nobody && !s.resting
	switch {
	case frees:
		high := max(s.fenceOf(s.above), s.fenceOf(s.fence))
		if c.LastTTL = max(c.LastTTL, s.lasting(high, 0)+rest); !rests {
			s.grant("")
		}
	case led && free:
		s.grant("")
	case led:
		s.lead(self)
	}
}

// rest is for how long a lock stays taken whose MinHold a release asks for. It was granted just
// now, or a while ago.
func (s *script) rest() time.Duration {
	if s.ahead {
		return minHold - agoHeld
	}
	return minHold
}

// says is the word to one who holds the lock.
func (s *script) says(owner) []any {
	if s.over.ahead {
		return []any{"-" + s.text(s.over.fence)}
	}
	return []any{s.text(s.over.fence)}
}

func (s *script) take(o owner, lives time.Duration) {
	c := &s.after
	fence, had := s.fenceOf(s.over.fence), c.LastTTL
	waits := s.hold != nil && strings.Contains(s.hold.flags, "w")
	s.hold = &hold{ends: "0", flags: "-"}
	if s.holder != o {
		c.LockTTL = lives
	}
	if lives == ttl {
		s.hold.meta = s.meta(o)
	}
	if s.over.ahead {
		s.hold.flag(fmt.Sprint("a", s.at))
	}
	if c.LastTTL = s.lasting(fence, had); c.LastTTL > keeps {
		s.hold.flag("l")
	}
	if waits {
		s.hold.flag("w")
	}
}

func (s *script) join(o owner) (place float64) {
	c, who := &s.after, s.name(o)
	switch model := s.over.places[o]; {
	case model == 0: // it is granted the lock in the same step: as the model said before that
		had, queued := c.Queue[who]
		brings := float64(s.placeOf(s.place))
		if s.release || s.place == 0 {
			brings = 0
		}
		switch {
		case queued && (brings == 0 || had <= brings):
			place = had
		case brings > 0:
			place = brings
		default:
			place = s.newPlace(c.Queue)
		}
	case model > s.highest:
		place = s.newPlace(c.Queue)
	default:
		place = float64(s.placeOf(model))
	}
	asked := fmt.Sprint(s.at)
	switch {
	case s.unsubscribed:
		asked += "-"
	case behind(c.Queue, place) < 2:
		asked += "+"
	}
	s.hold.flag("w")
	c.Queue[who], c.Seen[who] = place, asked
	c.QueueTTL, c.SeenTTL = keeps, keeps
	return place
}

// alive says whether a waiting claim may be granted the lock.
func (s *script) alive(who string) bool { return who != s.dead() }

func (s *script) told(who, mark string) { s.heard = append(s.heard, mark+who) }

// grant follows what the model says: who holds the lock then was the first that lives.
func (s *script) grant(self string) string {
	c := &s.after
	for {
		order := replay.InOrder(c.Queue)
		if len(order) == 0 {
			return ""
		}
		who := order[0]
		delete(c.Queue, who)
		delete(c.Seen, who)
		if !s.alive(who) {
			continue
		}
		if s.over.holder == nobody || who != s.name(s.over.holder) {
			return "?" // the model is another one
		}
		if who == self {
			s.take(s.over.holder, ttl)
		} else {
			if !strings.HasPrefix(who, "m") {
				s.told(who, "")
			}
			s.take(s.over.holder, ack)
		}
		if len(order) > 1 {
			s.lead(self)
		}
		return who
	}
}

// lead tells the two in front that they are.
func (s *script) lead(self string) {
	c := &s.after
	n := 0
	for _, who := range replay.InOrder(c.Queue) {
		if n == 2 {
			break
		}
		asked := c.Seen[who]
		switch {
		case who == self || strings.HasSuffix(asked, "+") || strings.HasSuffix(asked, "-"):
		case !s.alive(who):
			delete(c.Queue, who)
			delete(c.Seen, who)
			continue
		default:
			s.told(who, "+")
			c.Seen[who] = asked + "+"
		}
		n++
	}
	if n > 0 {
		s.hold.flag("w")
	}
}
