package model

// reply is what a script answers, as far as the model knows it.
type answer struct {
	word  word
	fence uint8
	ahead bool
}

type word uint8

const (
	silent word = iota
	isHeld
	isBusy
	isOver
	isFreed
	isAlready
	isLost
	isResting
	isRevoked // and freed
)

// outcome is what the model says of a call: the answer, and what Redis knows then. A place
// above all that there were is a new one.
func (r *rules) outcome(c call) (answer, view) {
	s := state{now: c.now, last: c.last, fence: c.fence, ahead: c.ahead, resting: c.resting, revoked: c.revoked}
	for i := range s.claims {
		s.claims[i] = claim{
			holds: c.holder == owner(i), granted: c.holder == owner(i) && c.granted, released: c.released == owner(i),
			queued: c.places[i] > 0, place: c.places[i], mute: c.mute[i], tombstone: c.tombstone[i],
		}
	}
	asks := &s.claims[0]
	if !c.release {
		asks.phase, asks.fence, asks.known = waiting, c.floor, c.place
		s.of(0).mute = c.unsubscribed
		over := r.isOver(asks) || asks.holds && s.revoked && !r.confirmsRevoked
		r.acquire(&s, 0, c.queue, c.place)
		switch {
		case over:
			return answer{word: isOver}, s.view()
		case asks.holds:
			return answer{word: isHeld, fence: s.fence, ahead: s.ahead}, s.view()
		}
		return answer{word: isBusy}, s.view()
	}
	asks.phase, asks.fence, asks.inDoubt = releasing, c.above, c.inDoubt
	asks.keeps = c.keep
	said := answer{word: isLost}
	switch {
	case asks.holds && s.revoked:
		said.word = isRevoked
	case asks.holds && c.keep && !r.restIsIgnored:
		said.word = isResting
	case asks.holds:
		said.word = isFreed
	case asks.released:
		said.word = isAlready
	}
	r.release(&s, 0)
	return said, s.view()
}

// scriptRules breaks the rules that scripts keep, one at a time.
var scriptRules = map[string]*rules{
	"releaseFreesAnyones":   {releaseFreesAnyones: true},
	"releaseForgetsFence":   {releaseForgetsFence: true},
	"overForgetsReleased":   {overForgetsReleased: true},
	"overForgetsTombstones": {overForgetsTombstones: true},
	"takeBarges":            {takeBarges: true},
	"takeIgnoresLast":       {takeIgnoresLast: true},
	"takeIgnoresClock":      {takeIgnoresClock: true},
	"joinForgetsPlace":      {joinForgetsPlace: true},
	"joinKeepsWorsePlace":   {joinKeepsWorsePlace: true},
	"confirmsAnyFence":      {confirmsAnyFence: true},
	"restIsIgnored":         {restIsIgnored: true},
	"restGrants":            {restGrants: true},
	"lostKeeps":             {lostKeeps: true},
	"revokedRests":          {revokedRests: true},
	"confirmsRevoked":       {confirmsRevoked: true},
	"mutesAreDead":          {mutesAreDead: true},
}
