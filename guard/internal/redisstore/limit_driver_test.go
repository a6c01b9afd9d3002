package redisstore_test

import (
	"cmp"
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA1
	"encoding/hex"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// The driver plays claims of several limits on one key, against the scripts themselves, with
// a clock that is set: commands get lost, arrive late or twice, processes crash, locks lapse,
// data is lost, and some claims go by the scripts of the version before limits. After each
// step it checks what has to hold.

var (
	limitSteps = flag.Int("limit.steps", 6000, "steps of the driver for limits")
	limitSeed  = flag.Uint64("limit.seed", 0, "its seed; 0 = the usual ones")
)

// bid is a claim of the driver, with what a Guard would know of it.
type bid struct {
	owner  string
	limit  int // 0 = any
	queues bool
	ttl    time.Duration
	state  bidState

	place      string
	unanswered bool      // an acquire may still be on its way
	seen       time.Time // when Redis last heard of it
	deadline   time.Time
	fence      uint64
	doomed     bool // its hold was lost with data, and it does not know yet
	deaf       bool // its process is gone, and its subscription with it
}

type bidState int

const (
	bidding bidState = iota
	believing
	leaving
	finished
	crashed
)

func (b *bid) alive() bool { return b.state < finished }

// late is a command on its way.
type late struct {
	of     *bid
	script string
	args   []any
	born   time.Time
}

type violation string

// play is one run of the driver.
type play struct {
	rnd     *rand.Rand
	redis   *miniredis.Miniredis
	client  *redis.Client
	scripts map[string]string // name to sha
	now     time.Time
	key     string
	counts  string // as the scripts take it: 1 if PUBLISH counts every receiver
	ears    *miniredis.Subscriber

	bids    []*bid
	made    int
	wire    []late
	writers uint64 // the highest fence of an exclusive hold
	highest uint64 // of any hold
	fences  map[uint64]string
	log     []string
	held    int // holds so far
}

func newPlay(t *testing.T, seed uint64) *play {
	t.Helper()
	m := miniredis.RunT(t)
	p := &play{
		rnd: rand.New(rand.NewPCG(seed, 17)), redis: m, scripts: map[string]string{}, //nolint:gosec // to be repeated
		client: redis.NewClient(&redis.Options{Addr: m.Addr(), MaxRetries: -1}),
		now:    time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), ears: m.NewSubscriber(),
	}
	t.Cleanup(func() { _ = p.client.Close() })
	go func() {
		for range p.ears.Messages() { // a message says nothing but: ask
		}
	}()
	t.Cleanup(p.ears.Close)
	for _, name := range []string{"acquire", "release", "renew"} {
		p.load(t, name, testenv.ScriptSource(t, name))
	}
	return p
}

func (p *play) load(t *testing.T, name, source string) {
	t.Helper()
	require.NoError(t, p.client.ScriptLoad(t.Context(), source).Err())
	sum := sha1.Sum([]byte(source)) //nolint:gosec // see the import
	p.scripts[name] = hex.EncodeToString(sum[:])
}

// run plays until a number of steps is over, or something does not hold.
func (p *play) run(steps int) (err error) {
	defer func() {
		if v := recover(); v != nil {
			wrong, ok := v.(violation)
			if !ok {
				panic(v)
			}
			err = fmt.Errorf("%s\n%s", wrong, strings.Join(p.log, "\n"))
		}
	}()
	for steps > 0 {
		n := 100 + p.rnd.IntN(300)
		p.episode(n)
		steps -= n
	}
	return nil
}

func (p *play) note(format string, args ...any) {
	p.log = append(p.log, p.now.Format("04:05.000 ")+fmt.Sprintf(format, args...))
	p.log = p.log[max(0, len(p.log)-40):]
}

func (p *play) wrong(format string, args ...any) { panic(violation(fmt.Sprintf(format, args...))) }

func (p *play) advance(d time.Duration) {
	p.now = p.now.Add(d.Truncate(time.Millisecond))
	p.redis.SetTime(p.now)
	p.redis.FastForward(d.Truncate(time.Millisecond))
}

func (p *play) episode(steps int) {
	p.redis.FlushAll()
	for _, channel := range p.ears.Channels() {
		p.ears.Unsubscribe(channel)
	}
	p.bids, p.wire, p.log = nil, nil, nil
	p.writers, p.highest, p.key, p.fences = 0, 0, "guard:{k}", map[uint64]string{}
	p.counts = strconv.Itoa(p.rnd.IntN(2))
	p.advance(time.Minute)
	if p.chance(4) { // a fence that is ahead of the clock
		p.highest = uint64(p.now.Add(time.Duration(p.rnd.IntN(20)) * time.Second).UnixMicro()) //nolint:gosec // after 1970
		p.writers = p.highest
		_ = p.redis.Set(p.key+":last", fmt.Sprint(p.highest, " "))
		p.redis.SetTTL(p.key+":last", 2*time.Minute)
	}
	crashes := p.chance(2)
	for range steps {
		p.step(crashes)
		p.check()
	}
	p.settle()
}

func (p *play) chance(in int) bool { return p.rnd.IntN(in) == 0 }

// pick gives one of the bids that fit, or nil.
func (p *play) pick(fits func(*bid) bool) *bid {
	var some []*bid
	for _, b := range p.bids {
		if fits(b) {
			some = append(some, b)
		}
	}
	if len(some) == 0 {
		return nil
	}
	return some[p.rnd.IntN(len(some))]
}

func (p *play) step(crashes bool) {
	at := func(s bidState) *bid { return p.pick(func(b *bid) bool { return b.state == s }) }
	switch n := p.rnd.IntN(100); {
	case n < 13:
		p.newBid()
	case n < 36:
		if b := at(bidding); b != nil {
			p.ask(b, false)
		}
	case n < 44:
		if b := at(believing); b != nil {
			p.renew(b)
		}
	case n < 54:
		if b := at(believing); b != nil {
			b.state = leaving
			p.leave(b, false)
		}
	case n < 60:
		if b := at(leaving); b != nil {
			p.leave(b, false)
		}
	case n < 63:
		if b := at(bidding); b != nil { // it gives up
			b.state = leaving
			p.leave(b, false)
		}
	case n < 69:
		p.land()
	case n < 71 && crashes:
		if b := p.pick((*bid).alive); b != nil {
			p.crash(b)
		}
	case n == 71 && p.chance(4):
		p.lose()
	default:
		d := time.Duration(p.rnd.IntN(200_000)) * time.Microsecond
		if p.chance(15) {
			d = time.Duration(p.rnd.IntN(9000)) * time.Millisecond
		}
		p.note("%v pass", d)
		p.advance(d)
	}
	// A Guard asks by itself, those in front each second.
	for _, b := range p.bids {
		if b.state == bidding && p.now.Sub(b.seen) > time.Second && !p.chance(8) {
			p.ask(b, false)
		}
		if b.state == believing && !p.now.Before(b.deadline) {
			p.note("%s believes no more", b.owner)
			b.state = leaving
		}
	}
}

func (p *play) newBid() {
	if alive := slices.DeleteFunc(slices.Clone(p.bids), func(b *bid) bool { return !b.alive() }); len(alive) >= 7 {
		return
	}
	limit := []int{1, 1, 2, 2, 3, 0, 0, 0}[p.rnd.IntN(8)]
	p.made++
	b := &bid{
		owner: fmt.Sprintf("i%d-%d.1", p.made, limit), limit: limit, queues: !p.chance(5), place: "0",
		ttl: time.Duration(2000+p.rnd.IntN(6000)) * time.Millisecond, seen: p.now,
	}
	if limit == 1 {
		b.owner = fmt.Sprintf("i%d-1", p.made)
	}
	p.bids = append(p.bids, b)
	p.ears.Subscribe("guard:grant:" + bidder(b.owner))
	p.ask(b, false)
}

func bidder(owner string) string {
	instance, _, _ := strings.Cut(owner, "-")
	return instance
}

func (p *play) channels() string { return p.counts + "guard:grant:" }

// fate is what becomes of a command.
type fate int

const (
	arrives fate = iota
	arrivesSlowly
	replyLost
	lost
	held
)

func (p *play) fate(sure bool) fate {
	switch n := p.rnd.IntN(100); {
	case sure || n < 78:
		return arrives
	case n < 69:
		return arrivesSlowly
	case n < 88:
		return replyLost
	case n < 92:
		return lost
	}
	return held
}

// send sends a command, and says whether it was answered.
func (p *play) send(b *bid, sure bool, script string, args ...any) (reply any, answered bool) {
	switch p.fate(sure) {
	case arrivesSlowly:
		p.advance(time.Duration(p.rnd.IntN(1500)) * time.Millisecond)
		return p.exec(b, script, args, ""), true
	case replyLost:
		p.exec(b, script, args, ", reply lost")
	case lost:
		p.note("%s %s is lost", b.owner, script)
	case held:
		for range 1 + p.rnd.IntN(2) {
			p.wire = append(p.wire, late{b, script, args, p.now})
		}
		p.note("%s %s is on its way", b.owner, script)
	default:
		return p.exec(b, script, args, ""), true
	}
	return nil, false
}

func (p *play) ask(b *bid, sure bool) {
	place, sent := b.place, p.now
	if !b.queues {
		place = ""
	}
	reply, answered := p.send(b, sure, "acquire", acquireArgs(b.owner, p.channels(), b.ttl.Milliseconds(), place, "of "+b.owner, "0")...)
	if !answered {
		b.unanswered = true
		if !b.queues {
			b.state = leaving
		}
		return
	}
	list := said(reply)
	switch list[0] {
	case int64(1):
		p.got(b, list[1].(string), sent)
	case int64(0):
		b.place = list[3].(string)
		p.checkInVain(b)
		if !b.queues {
			b.state = finished // nothing of it is anywhere, unless something is on its way
			if b.unanswered {
				b.state = leaving
			}
		}
	default:
		p.wrong("%s is told that it is over, and it is not", b.owner)
	}
}

// got takes in that a bid holds the lock.
func (p *play) got(b *bid, text string, sent time.Time) {
	fence, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		p.wrong("fence %q", text)
	}
	if b.deadline = sent.Add(b.ttl - b.ttl/100 - 2*time.Millisecond); !p.now.Before(b.deadline) {
		b.state = leaving // too late to be of use
		return
	}
	b.state, b.fence = believing, fence
	p.held++
	if b.limit == 1 && fence <= p.highest || fence <= p.writers {
		p.wrong("%s has fence %d, after %d of a writer and %d of anybody", b.owner, fence, p.writers, p.highest)
	}
	if other := p.fences[fence]; other != "" && other != b.owner {
		p.wrong("%s has the fence of %s", b.owner, other)
	}
	p.fences[fence], p.highest = b.owner, max(p.highest, fence)
	if b.limit == 1 {
		p.writers = fence
	}
}

func (p *play) renew(b *bid) {
	sent := p.now
	reply, answered := p.send(b, false, "renew", b.owner, b.fence, b.ttl.Milliseconds(), 1, "of "+b.owner)
	switch until := sent.Add(b.ttl - b.ttl/100 - 2*time.Millisecond); {
	case !answered:
	case !p.now.Before(b.deadline):
		b.state = leaving
	case reply == int64(1):
		b.deadline = until
		if b.doomed {
			p.wrong("%s renewed a hold that was lost", b.owner)
		}
	case !b.doomed:
		p.wrong("%s is told that it lost its hold, and nothing was lost", b.owner)
	default:
		b.state = leaving
	}
}

// leave gives back a hold, or whatever a bid may have.
func (p *play) leave(b *bid, sure bool) {
	tombstone := 0
	if b.unanswered {
		tombstone = 1
	}
	args := releaseArgs(b.owner, p.channels(), b.ttl.Milliseconds(), b.fence, tombstone, 0)
	if _, answered := p.send(b, sure, "release", args...); answered {
		b.state = finished
	}
}

func (p *play) crash(b *bid) {
	b.state = crashed
	if b.deaf = !p.chance(3); b.deaf {
		p.ears.Unsubscribe("guard:grant:" + bidder(b.owner))
	}
	p.note("%s crashes, deaf: %v", b.owner, b.deaf)
}

// land has a command arrive that was on its way.
func (p *play) land() {
	p.wire = slices.DeleteFunc(p.wire, func(l late) bool { return p.now.Sub(l.born) > 40*time.Second })
	if len(p.wire) == 0 {
		return
	}
	i := p.rnd.IntN(len(p.wire))
	l := p.wire[i]
	p.wire = slices.Delete(p.wire, i, i+1)
	p.exec(l.of, l.script, l.args, ", late")
}

// lose loses data, and what was on its way with it.
func (p *play) lose() {
	what := []string{p.key, p.key + ":queue", p.key + ":seen", "all"}[p.rnd.IntN(4)]
	p.note("%s is lost", what)
	p.wire = nil
	p.advance(time.Millisecond) // the next fence is not of the same µs
	if what != "all" {
		p.redis.Del(what)
	} else {
		p.redis.FlushAll()
	}
	if what == "all" && p.highest >= uint64(p.now.UnixMicro()) { //nolint:gosec // after 1970
		p.highest, p.writers, p.fences = 0, 0, map[uint64]string{} // what was ahead of the clock is not known any more
	}
	if what == "all" || what == p.key+":seen" {
		for _, b := range p.bids {
			b.seen = time.Time{}
		}
	}
	if what == "all" || what == p.key {
		for _, b := range p.bids {
			b.doomed = b.doomed || b.state == believing
		}
	}
}

// exec runs a script, and looks at who got in by it.
func (p *play) exec(b *bid, script string, args []any, how string) any {
	before, queue := p.inside(), p.queue()
	keys := []string{p.key, p.key + ":queue", p.key + ":last", p.key + ":seen", p.key + ":holders"}
	if script == "renew" {
		keys = []string{keys[0], keys[4]}
	}
	reply, err := p.client.EvalSha(context.Background(), p.scripts[script], keys, args...).Result()
	p.note("%s %s %v%s: %v, %v; inside %v, queue %v", b.owner, script, args[2:], how, reply, err, p.inside(), p.waiting())
	if err != nil {
		p.wrong("%s %s: %v", b.owner, script, err)
	}
	if script == "acquire" {
		b.seen = p.now
	}
	after, others := p.inside(), p.queue()
	maps.Copy(others, queue) // also who was put out of it
	for owner := range after {
		if _, was := before[owner]; was {
			continue
		}
		if script == "renew" {
			p.wrong("%s comes back by a renewal", owner)
		}
		place, queued := queue[owner]
		if !queued && owner == b.owner && b.place != "0" && b.queues {
			place, _ = strconv.ParseFloat(b.place, 64)
			queued = true
		}
		for other, its := range others {
			if _, in := after[other]; in {
				continue
			}
			if x := p.find(other); x != nil && x.state == bidding && p.now.Sub(x.seen) < 2*time.Second && (!queued || its < place) {
				p.wrong("%s passes %s", owner, other)
			}
		}
	}
	return reply
}

func (p *play) find(owner string) *bid {
	for _, b := range p.bids {
		if b.owner == owner {
			return b
		}
	}
	return nil
}

// hold is an owner in the hash.
type heldBy struct {
	fence  string
	expiry int64 // µs; 0 = that of the hash
}

func (p *play) inside() map[string]heldBy {
	in := map[string]heldBy{}
	if !p.redis.Exists(p.key) {
		return in
	}
	fields, _ := p.redis.HKeys(p.key)
	for _, field := range fields {
		if strings.HasPrefix(field, "@") {
			continue
		}
		value := p.redis.HGet(p.key, field)
		if words := strings.SplitN(value, " ", 5); len(words) == 5 {
			expiry, _ := strconv.ParseInt(words[2], 10, 64)
			if expiry == 0 || expiry > p.now.UnixMicro() {
				in[field] = heldBy{words[1], expiry}
			}
		}
	}
	return in
}

func (p *play) queue() map[string]float64 {
	all, _ := p.redis.SortedSet(p.key + ":queue")
	queue := map[string]float64{}
	for owner, place := range all {
		if place > 0 {
			queue[owner] = place
		}
	}
	return queue
}

// waiting is who is in the queue, in order.
func (p *play) waiting() []string {
	queue := p.queue()
	return slices.SortedFunc(maps.Keys(queue), func(a, b string) int { return cmp.Compare(queue[a], queue[b]) })
}

// check is what holds at any time.
func (p *play) check() {
	inside, queue := p.inside(), p.queue()
	believers, least := 0, 1<<30
	for _, b := range p.bids {
		hold, in := inside[b.owner]
		if _, queued := queue[b.owner]; b.state == finished && (in || queued) {
			p.wrong("%s is over, and something of it is there", b.owner)
		}
		if b.state != believing || b.doomed || !p.now.Before(b.deadline) {
			continue
		}
		believers++
		if b.limit > 0 {
			least = min(least, b.limit)
		}
		if !in || hold.fence != strconv.FormatUint(b.fence, 10) {
			p.wrong("%s believes that it holds the lock with fence %d, and Redis has %v", b.owner, b.fence, inside)
		}
	}
	if believers > least {
		p.wrong("%d hold the lock, and the strictest limit is %d", believers, least)
	}
	if len(inside) > 0 {
		ends := p.now.Add(p.redis.TTL(p.key) + time.Millisecond).UnixMicro()
		for owner, hold := range inside {
			if hold.expiry > ends {
				p.wrong("%s is to hold the lock for longer than that lives", owner)
			}
		}
		if p.redis.TTL(p.key) == 0 {
			p.wrong("the lock has no ttl")
		}
	}
}

// checkInVain is for a bid that was told that the lock is busy: it is, for this one.
func (p *play) checkInVain(b *bid) {
	inside, queue := p.inside(), p.queue()
	if !p.redis.Exists(p.key) {
		return
	}
	for owner, place := range queue {
		if own, queued := queue[b.owner]; owner != b.owner && (!queued || place < own || place == own && owner < b.owner) {
			return
		}
	}
	least, exclusive := 1<<30, false
	if b.limit > 0 {
		least = b.limit
	}
	for owner, hold := range inside {
		exclusive = exclusive || hold.expiry == 0
		if _, text, ok := strings.Cut(owner, "-"); ok && strings.Contains(text, ".") {
			text, _, _ = strings.Cut(text, ".")
			if limit, _ := strconv.Atoi(text); limit > 0 {
				least = min(least, limit)
			}
		}
	}
	if !exclusive && len(inside) < least {
		p.wrong("%s is kept waiting, and only %v are inside", b.owner, inside)
	}
}

// settle lets everything come to its end, with nothing in its way: whoever waits gets in.
func (p *play) settle() {
	p.note("from now on nothing fails")
	p.wire = nil
	for range 160 {
		done := true
		for _, b := range slices.Clone(p.bids) {
			switch b.state {
			case bidding:
				p.ask(b, true)
			case believing:
				b.state = leaving
				p.leave(b, true)
			case leaving:
				p.leave(b, true)
			}
			done = done && !b.alive()
			p.check()
		}
		if done {
			return
		}
		p.advance(500 * time.Millisecond)
	}
	p.wrong("some wait in vain")
}

func limitSeeds() []uint64 {
	if *limitSeed != 0 {
		return []uint64{*limitSeed}
	}
	return []uint64{1, 2}
}

func TestLimitDriver_HoldersThatTolerateEachOther(t *testing.T) {
	for _, seed := range limitSeeds() {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			p := newPlay(t, seed)
			if err := p.run(*limitSteps / len(limitSeeds())); err != nil {
				require.Fail(t, "the driver found something", "%v", err)
			}
			assert.Positive(t, p.held)
			t.Logf("%d holds of %d claims", p.held, p.made)
		})
	}
}
