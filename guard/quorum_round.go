package guard

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"

	"github.com/redlatch/redlatch/guard/guardstore"
)

// round is one try to get a lock from a majority, under an owner of its own: what is
// left of a round that failed cannot be taken for part of the next one.
type round struct {
	claim guardstore.Claim // with the round's owner

	mu    sync.Mutex
	votes []vote
	fence uint64
	ahead bool // of the clock of a server that the fence counts on
}

var (
	errNobody = errors.New("no server answered")
	errTooFew = errors.New("no longer held on enough servers")
)

// vote is what one server said.
type vote struct {
	fence     uint64 // 0: not for us
	unsettled bool   // an acquire may be on its way
	answered  bool
	heard     chan struct{} // closed when it is, if anybody waits for that
	reply     guardstore.ClaimReply
	err       error
}

// tally is how a round stands.
type tally struct {
	held, answered, pending int
	withdrawn               bool
	errs                    nodeErrors
}

// split says that nobody may have got a majority: some servers were to be had.
func (t *tally) split(s *quorumStore) bool { return t.held > 0 && t.held < s.need }

func (s *quorumStore) newRound(c guardstore.Claim) *round {
	c.Owner = s.newRoundOwner(c.Owner)
	c.Queue, c.Ticket = false, 0
	return &round{claim: c, votes: make([]vote, len(s.nodes))}
}

// hold runs a round. It returns when it is decided; later answers are taken in behind.
// All servers are asked at once, or only those that the first one left.
func (s *quorumStore) hold(ctx context.Context, r *round, first *nodeAnswer[guardstore.ClaimReply]) tally {
	for i := range r.votes {
		r.votes[i].unsettled = true
	}
	answers := ask(ctx, s, func(ctx context.Context, n *redisStore, i int) (guardstore.ClaimReply, error) {
		if first != nil && first.node == i {
			return first.reply, first.err
		}
		return reach(s, i, func() (guardstore.ClaimReply, error) { return n.Acquire(ctx, r.claim) })
	})
	t := tally{pending: len(s.nodes)}
	for t.pending > 0 && t.held < s.need && t.held+t.pending >= s.need && !t.withdrawn {
		a := <-answers
		r.count(a)
		t.add(a)
	}
	if pending := t.pending; pending > 0 {
		s.tasks.Go(func() {
			for range pending {
				r.count(<-answers)
			}
		})
	}
	return t
}

// holdInOrder runs a round that asks one server before the others, the first that seems
// free: those who split the servers among themselves before do not do so again.
func (s *quorumStore) holdInOrder(ctx context.Context, r *round, first int) tally {
	for n := range s.nodes {
		i := (first + n) % len(s.nodes)
		one := askOne(ctx, s, i, func(ctx context.Context, n *redisStore) (guardstore.ClaimReply, error) {
			return n.Acquire(ctx, r.claim)
		})
		if one.err != nil {
			r.votes[i].unsettled = true
			continue
		}
		if one.reply.Status == guardstore.ClaimHeld {
			return s.hold(ctx, r, &one)
		}
		r.count(one)
		return tally{answered: s.need, withdrawn: one.reply.Status == guardstore.ClaimFinished}
	}
	return tally{errs: nodeErrors{errNobody}}
}

func (t *tally) add(a nodeAnswer[guardstore.ClaimReply]) {
	t.pending--
	switch {
	case a.err != nil:
		t.errs = append(t.errs, a.err)
		return
	case a.reply.Status == guardstore.ClaimHeld:
		t.held++
	case a.reply.Status == guardstore.ClaimFinished:
		t.withdrawn = true
	}
	t.answered++
}

// count takes in what a server said, whenever it does.
func (r *round) count(a nodeAnswer[guardstore.ClaimReply]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := &r.votes[a.node]
	v.reply, v.err, v.answered = a.reply, a.err, true
	if v.heard != nil {
		close(v.heard)
		v.heard = nil
	}
	switch {
	case a.err == nil:
		v.unsettled = false
		v.fence = a.reply.Fence
	case neverSent(a.err):
		v.unsettled = false
	}
}

// first is the first server that voted for the round.
func (r *round) first() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(slices.IndexFunc(r.votes, func(v vote) bool { return v.fence > 0 }), 0)
}

func (r *round) vote(i int) vote {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.votes[i]
}

// concerns says that a server holds the lock for the round, or may yet.
func (r *round) concerns(i int) bool {
	v := r.vote(i)
	return v.fence > 0 || v.unsettled
}

// lost notes that a server does not hold the lock for the round any more.
func (r *round) lost(i int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.votes[i].fence = 0
}

// agreeOnFence makes the highest fence of a majority that of the round. Where a server's
// clock is so far behind the others' that after a crash it could hand out a lower one
// before the ttl and the hand-overs of a tenure have made up for it, a majority is told.
func (s *quorumStore) agreeOnFence(ctx context.Context, r *round) error {
	r.mu.Lock()
	fences, apart := make([]uint64, 0, len(r.votes)), uint64(r.claim.TTL.Microseconds())/2 //nolint:gosec // not negative
	for _, v := range r.votes {
		if v.fence > 0 {
			fences = append(fences, v.fence)
			r.ahead = r.ahead || v.reply.FenceAhead
		}
	}
	low, high := slices.Min(fences), slices.Max(fences)
	r.fence = high
	r.ahead = r.ahead || high-low > apart
	r.mu.Unlock()
	if high-low <= apart {
		return nil
	}
	told := ask(ctx, s, func(ctx context.Context, n *redisStore, i int) (bool, error) {
		if r.vote(i).fence == 0 {
			return false, nil
		}
		return n.raise(ctx, r.claim, high)
	})
	yes, no, err := agree(s, told, func(a nodeAnswer[bool]) bool { return a.reply })
	if yes >= s.need || err == nil && no == 0 {
		return nil
	}
	if err == nil {
		err = errTooFew
	}
	return err
}

// giveUp takes back what a round that failed got, or may yet get.
func (r *round) giveUp(ctx context.Context, n *redisStore, i int) error {
	if !r.concerns(i) {
		return nil
	}
	return n.revoke(ctx, r.claim, r.vote(i).unsettled)
}

// insistOn is for a server that did not answer giveUp. When it does, those who found the
// lock taken there are told: they know of no end of a tenure that they could wait for.
func (s *quorumStore) insistOn(ctx context.Context, r *round, n *redisStore, i int, err error) {
	s.insist(ctx, i, err, r.claim.TTL, func(ctx context.Context) error {
		err := r.giveUp(ctx, n, i)
		if err == nil {
			_, err = n.wake(ctx, r.claim.Key, "", "")
		}
		return err
	})
}

// giveUpBehind is giveUp on all servers; nobody waits for it.
func (s *quorumStore) giveUpBehind(ctx context.Context, r *round) <-chan nodeAnswer[struct{}] {
	return askAndGoOn(ctx, s, func(ctx context.Context, n *redisStore, i int, answer func(struct{}, error)) {
		err := r.giveUp(ctx, n, i)
		answer(struct{}{}, err)
		s.insistOn(ctx, r, n, i, err)
	})
}

// giveUp waits until a majority took it back.
func (s *quorumStore) giveUp(ctx context.Context, r *round) {
	answers := s.giveUpBehind(ctx, r)
	for range s.need {
		<-answers
	}
}

// busy sums up a round that failed: how long until a majority may be free, and what the
// holder says of itself.
func (r *round) busy(s *quorumStore) guardstore.ClaimReply {
	r.mu.Lock()
	defer r.mu.Unlock()
	var looks []look
	for _, v := range r.votes {
		if v.answered && v.err == nil {
			looks = append(looks, look{remaining: v.reply.Remaining, holder: v.reply.Holder})
		}
	}
	return sum(s, looks)
}

// sum makes one answer of several. A majority is free when that many are.
func sum(s *quorumStore, looks []look) guardstore.ClaimReply {
	r := guardstore.ClaimReply{Status: guardstore.ClaimBusy}
	if len(looks) == 0 {
		return r
	}
	slices.SortFunc(looks, func(a, b look) int { return cmp.Compare(a.remaining, b.remaining) })
	r.Remaining = looks[min(s.need, len(looks))-1].remaining
	r.Holder = looks[len(looks)-1].holder
	r.Ahead = looks[0].inFront
	for _, l := range looks {
		r.Ticket = max(r.Ticket, l.place)
		r.Ahead = min(r.Ahead, l.inFront)
	}
	return r
}

// newRoundOwner makes the owner of a round from that of its claim, whose instance it
// keeps in front.
func (s *quorumStore) newRoundOwner(owner string) string {
	return owner + roundMark + strconv.FormatUint(s.rounds.Add(1), 36)
}
