package chaos_test

import (
	"math/rand/v2"
	"time"

	"github.com/redlatch/redlatch/guard"
)

// lockKeys are what is locked. Two of them are traps for a hash tag.
var lockKeys = []string{"order:1", "order:2", "order:3", "order:4", "{a}b", "}c"}

const plainKeys = 4 // are spelled in Redis as they are here

// ttls are those of most calls for each key, as only calls with one ttl hand a lock
// over to each other.
var ttls = []time.Duration{
	200 * time.Millisecond, 300 * time.Millisecond, 400 * time.Millisecond,
	600 * time.Millisecond, 800 * time.Millisecond, longestTTL,
}

const longestTTL = time.Second

// Keys that are locked in other manners than those of lockKeys.
const (
	tickKey   = "tick"   // with a MinHold
	exportKey = "export" // at most so many at once
	bookKey   = "book"   // readers beside readers, and now and then a writer
	leadKey   = "leader" // by Lead

	tickTTL = 400 * time.Millisecond
	manyTTL = 500 * time.Millisecond
	leadTTL = 600 * time.Millisecond
)

var otherKeys = []string{tickKey, exportKey, bookKey, leadKey}

// shared is the limit of a hold beside which there may be any number.
const shared = -1

// manner is how work minds its lease.
type manner int

const (
	trusting manner = iota // waits for its context to end
	careful                // asks the lease itself, again and again
	stubborn               // goes on whatever happened
)

// ending is how work ends.
type ending int

const (
	returns ending = iota
	panics
	exits
)

// plan is what one call is going to do.
type plan struct {
	key      string
	ttl      time.Duration
	opts     []guard.LockOption
	manual   bool          // Acquire and Release instead of WithLock
	forget   bool          // Release with a context that is over
	timeout  time.Duration // of the context; 0 = none
	cancel   time.Duration // cancel it after that; 0 = never
	duration time.Duration // of the work
	manner   manner
	ending   ending
	again    bool  // enter the lock a second time
	inner    *plan // a lock to take under this one, or nil
	limit    int   // how many may hold it at once; 0 = one, shared = any number
	minHold  time.Duration
}

// draw makes a plan for a key that is not below the first.
func draw(rng *rand.Rand, first int) plan {
	i := first + rng.IntN(len(lockKeys)-first)
	p := plan{key: lockKeys[i], ttl: ttls[i], manner: pick(rng, trusting, trusting, careful)}
	if chance(rng, 10) {
		p.ttl = pick(rng, ttls...)
	}
	p.drawWait(rng)
	p.drawWork(rng)
	p.opts = append(p.opts, guard.TTL(p.ttl))
	switch {
	case chance(rng, 3):
		p.opts = append(p.opts, guard.FixedLease())
	case chance(rng, 3):
		p.opts = append(p.opts, guard.MaxHold(p.ttl/4))
	}
	if i+1 < len(lockKeys) && chance(rng, 5) {
		inner := draw(rng, i+1)
		p.inner = &inner
	}
	return p
}

// drawTick makes a plan for work that keeps its lock for a time. It is no longer than the ttl:
// so the lock is kept even if its holder dies or cannot give it back.
func drawTick(rng *rand.Rand) plan {
	p := plan{key: tickKey, ttl: tickTTL, manner: pick(rng, trusting, trusting, careful), minHold: upTo(rng, tickTTL/2)}
	p.drawWait(rng)
	p.drawWork(rng)
	p.opts = append(p.opts, guard.TTL(p.ttl), guard.MinHold(p.minHold))
	return p
}

// drawMany makes a plan for a key that several may hold.
func drawMany(rng *rand.Rand) plan {
	p := plan{key: exportKey, ttl: manyTTL, manner: pick(rng, trusting, careful), limit: pick(rng, 2, 3, 3)}
	if chance(rng, 50) {
		p.key, p.limit = bookKey, pick(rng, 0, 3, shared, shared, shared, shared)
	}
	p.drawWait(rng)
	p.drawWork(rng)
	p.again = p.again && p.limit == 0 // an inner call says it, too
	p.duration += upTo(rng, 20*time.Millisecond)
	p.opts = append(p.opts, guard.TTL(p.ttl))
	switch p.limit {
	case 0:
	case shared:
		p.opts = append(p.opts, guard.Shared())
	default:
		p.opts = append(p.opts, guard.Limit(p.limit))
	}
	return p
}

func (p *plan) drawWait(rng *rand.Rand) {
	switch n := rng.IntN(100); {
	case n < 10:
		p.opts = append(p.opts, guard.NoWait())
	case n < 30:
		p.opts = append(p.opts, guard.Wait(upTo(rng, 300*time.Millisecond)))
	case n < 50:
		p.timeout = upTo(rng, time.Second)
	case n < 60:
		p.cancel = upTo(rng, 50*time.Millisecond)
	case n < 62:
		p.timeout = time.Nanosecond
	}
}

func (p *plan) drawWork(rng *rand.Rand) {
	switch n := rng.IntN(1000); {
	case n < 600: // none: what is measured is the lock
	case n < 900:
		p.duration = upTo(rng, 5*time.Millisecond)
	case n < 980:
		p.duration = upTo(rng, 50*time.Millisecond)
	case n < 985:
		p.duration = upTo(rng, p.ttl)
	case n < 993:
		p.duration = p.ttl + upTo(rng, p.ttl)
	default:
		p.duration, p.manner = p.ttl+upTo(rng, p.ttl), stubborn
	}
	p.again = chance(rng, 10)
	p.manual = chance(rng, 20)
	p.forget = chance(rng, 20)
	if !p.manual && chance(rng, 3) {
		p.ending = pick(rng, panics, exits)
	}
	if chance(rng, 25) {
		p.opts = append(p.opts, guard.AsyncRelease())
	}
}

func chance(rng *rand.Rand, percent int) bool { return rng.IntN(100) < percent }

func upTo(rng *rand.Rand, d time.Duration) time.Duration {
	return 1 + time.Duration(rng.Int64N(int64(d)))
}
