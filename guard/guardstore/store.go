package guardstore

import (
	"context"
	"errors"
	"time"
)

// Store is what a Guard needs of the place where locks live.
//
// Every method is atomic, may be called from many goroutines, and may be executed twice
// with the same outcome as once: a Guard repeats what was not answered. Time is the
// store's own; no caller's clock reaches it. An error says that the outcome is unknown,
// unless it is (or wraps) a RefusedError.
//
// Each ctx has a deadline, and a call returns by then, whether or not there is an answer. If ctx is only
// canceled, a call may return with the reply instead. A Guard's callers run it on their own goroutines. The
// command may be executed all the same.
type Store interface {
	// Acquire takes the lock of c.Key for c.Owner when it is free and no claim waits in
	// front. Asked again by the holder, or by the owner that the lock was granted to, it
	// confirms the hold: the same fence, and at least c.TTL left. When the lock is busy and
	// c.Queue is set, the owner waits in the store's queue, at c.Ticket if it has one. For
	// an owner that was revoked or has a tombstone it answers ClaimFinished and changes nothing.
	// A Guard hands a lock over between its own callers, under one fence more per µs at most,
	// of which the store learns at the release or never. So a fence is the store's clock in
	// µs; if the clock is not above the last fence, it is the last fence plus one, and the reply says
	// FenceAhead: such a hold is not handed over. Whatever else is under the key is busy.
	Acquire(ctx context.Context, c Claim) (ClaimReply, error)

	// Renew gives each grant whose Owner and Fence match at least its TTL from now, and
	// sets its counter and its metadata. With a TTL of 0 it does so without moving the expiry:
	// that confirms a hold for a caller that waits for it. It never creates a hold and never
	// shortens one. With a Keep, the record that its owner began lives until Keep after the lease. Replies are in the order of the batch; one grant's error is not another's.
	// It works when the store is full.
	Renew(ctx context.Context, batch []Grant) []RenewReply

	// Release frees r.Key if r.Owner holds it; else r.Owner leaves the queue. A freed lock
	// is granted to the first owner in the queue that is alive: it has a short while to
	// ask (Acquire), and Listen notifies it. With r.MinHold, the key of
	// a holder stays taken, without a holder, until that long after it was granted, by the store's
	// clock. It is never taken for longer, and never without an end. The store grants it to no owner
	// before. Then it is as if the holder had crashed: the first Acquire grants it to the first in
	// the queue. In any case, with r.Tombstone, an Acquire of r.Owner that arrives within the next
	// minute takes nothing. It works when the store is full.
	Release(ctx context.Context, r Release) (ReleaseReply, error)

	// Listen notifies l, until ctx ends, which owners of an instance have to ask. It blocks.
	// Messages may be lost, late or doubled.
	Listen(ctx context.Context, instance string, l Listener)
}

// Announcer is a Store that shows the names of instances to operators. Announce notes the name of an
// instance for the duration life; the last one counts.
type Announcer interface {
	Announce(ctx context.Context, instance, name string, life time.Duration) error
}

// LimitChecker is a Store that cannot have holders beside each other, or only so many.
// CheckLimit returns nil if it can do a limit, else why not, in words that go on after
// "Limit" or "Shared": a Guard makes an OptionError of it, and sends nothing.
type LimitChecker interface {
	CheckLimit(l Limit) error
}

// ServerNamer is a Store on several servers that fail apart, such as the nodes of a cluster.
// Server names the server of a key, if known; "" is any. It answers
// at once, and sends nothing. A Guard that got no answer for a key expects none for the other
// keys of that server, see guard.FailOpen.
type ServerNamer interface {
	Server(ctx context.Context, key string) string
}

// Listener takes messages to the owners of an instance. Its methods do not block.
type Listener interface {
	// Notify says that an owner is to ask; without an Owner, that any message may have been
	// lost, or that messages flow from now on, or with an Err, that they do not.
	Notify(n Notification)
	// Waiting reports whether any owner is waiting for messages.
	Waiting() bool
}

// Notification is a message to an owner.
type Notification struct {
	Owner string // empty: for all of the instance
	First bool   // it need not ask: it is one of the first two in the queue now

	Revoked bool // Owner held its lock: it is to see whether it still does

	Err error // why no messages flow at the moment; without an Owner only
}

// Claim asks for a key in the name of an owner.
type Claim struct {
	Key        string
	Owner      string        // instance, '-', and what makes it unique; used for one grant only
	TTL        time.Duration // whole milliseconds
	Metadata   string        // shown to callers that find the key busy
	Limit      Limit         // how many holders it tolerates, itself included
	Queue      bool          // wait in the queue if the lock is busy
	Ticket     uint64        // the place in the queue that the owner was given; 0 = none yet
	FenceAbove uint64        // the fence must be above it

	// Unsubscribed says that the instance receives no messages at this moment: the owner asks
	// by itself, each second, and is alive for as long as it does.
	Unsubscribed bool

	Once *Once // of a Recorder; nil = the claim asks for no record
}

// ClaimStatus is how a claim stands.
type ClaimStatus int

// How a claim stands.
const (
	ClaimHeld     ClaimStatus = iota + 1 // the owner holds the key
	ClaimBusy                            // another owner holds it
	ClaimFinished                        // the owner has a tombstone, or was revoked: never again
	ClaimRecorded                        // the key's record says that there is nothing to run, see Once
)

// ClaimReply is what Store.Acquire answers.
type ClaimReply struct {
	Status     ClaimStatus
	Owner      string        // held: the token in the store, if it is not the claim's
	Fence      uint64        // held: above all earlier ones of the key, local hand-overs included
	FenceAhead bool          // held: Fence is ahead of the store's clock
	Remaining  time.Duration // busy: the rest of the holder's ttl; years if it has none
	Holder     string        // busy: the holder's Metadata
	Ticket     uint64        // busy and queued: the owner's place in the queue
	Ahead      int           // busy and queued: how many owners have lower tickets
	Done       bool          // busy: it has no holder, but the MinHold of the last hold has not ended; for every limit of the claim
	Limit      Limit         // busy: the strictest limit of the holders, if it is a number; else Exclusive
	Earlier    uint64        // held, with Once: the fence of the owner that began before, and never finished; 0 = none
	Record     *Record       // recorded
}

// Grant names a claim that holds its key.
type Grant struct {
	Key   string
	Owner string
	Fence uint64
	TTL   time.Duration // 0 = as it is, see Store.Renew
	Keep  time.Duration // of its Once; 0 = it has no record
	Depth int           // the hash counter: how many calls of the hold are open; 1 at least
	Limit Limit         // as in its claim

	Metadata string // Renew: of the present holder, as a grant is handed from one to the next
}

// RenewReply is the answer to one grant of a batch.
type RenewReply struct {
	Held    bool  // false: the lease has ended in the store
	Revoked bool  // not held: because the hold was revoked
	Err     error // outcome unknown
}

// Release gives a grant back, or a claim whose outcome is unknown.
type Release struct {
	Key       string
	Owner     string
	Fence     uint64        // 0 when it is not known
	TTL       time.Duration // of the claim: how long a release is worth repeating
	Tombstone bool          // an Acquire of Owner may still be on its way: it must not be heeded
	MinHold   time.Duration // since the grant, for how long the key stays taken at least; whole milliseconds
	Limit     Limit         // as in the claim
	Record    *Outcome      // of a claim with Once; nil: the record stays as it is
}

// ReleaseReply is what Store.Release answers.
type ReleaseReply struct {
	Status   ReleaseStatus
	HeldOver bool // done: the key stays taken until MinHold ends
}

// ReleaseStatus is what became of a release.
type ReleaseStatus int

// What became of a release.
const (
	ReleaseDone    ReleaseStatus = iota + 1 // the owner held the key; now it is free
	ReleaseLost                             // the owner does not hold it; it may have released it before
	ReleaseRevoked                          // as ReleaseDone, but the hold had been revoked
)

// ErrNotSent may be in the error of a call that ended without an answer: the command has not
// taken effect, and will not. A claim that is given up then needs no tombstone.
var ErrNotSent = errors.New("not sent")

// RefusedError is a Store's word that it answered, that nothing was done, and that asking again is of no
// use until the caller has changed something: a key of another type, missing rights. A Guard ends an
// acquire then. It repeats a release or a renewal all the same, until the lease ends. An error that may
// pass (memory full, a failed snapshot, a password that rotates, a proxy's error) is not one.
type RefusedError struct{ Err error }

// Error returns the text of Err.
func (e *RefusedError) Error() string {
	if e.Err == nil {
		return "refused"
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e *RefusedError) Unwrap() error { return e.Err }
