package chaos_test

import (
	"time"
)

// orderEnv holds the order of a worker process; without it, the test binary tests.
const orderEnv = "REDLATCH_CHAOS_WORKER"

// order is what a worker is told when it starts.
type order struct {
	Topology string
	Addrs    []string          // of its own proxies, or where a client of a group begins
	Detours  map[string]string // from what a group tells to its own proxies
	Callers  int
	Seed     uint64
	Speech   speech
}

// event is what a worker tells the driver: a line of JSON on its standard output. A
// worker that waits for an answer numbers its event.
type event struct {
	Kind     eventKind
	Number   int64         `json:",omitempty"`
	Lease    *lease        `json:",omitempty"`
	Miss     string        `json:",omitempty"` // why a call got no lock
	Waited   time.Duration `json:",omitempty"`
	Instance string        `json:",omitempty"` // of the worker's Guard
	Wrong    string        `json:",omitempty"` // what must not be
}

type eventKind string

const (
	entered  eventKind = "entered"  // the first write under a lease; answered
	wrote    eventKind = "wrote"    // another one; answered
	left     eventKind = "left"     // the lease is over, and its end is known
	missed   eventKind = "missed"   // a call got no lock
	ended    eventKind = "ended"    // only observers learned that a lease was lost: see AsyncRelease
	finished eventKind = "finished" // the worker is about to end
)

// command is what the driver tells a worker, on its standard input: a verdict on the
// write with a number, or what to do.
type command struct {
	Number   int64 `json:",omitempty"`
	Accepted bool  `json:",omitempty"`
	Do       deed  `json:",omitempty"`
}

type deed string

const (
	finish deed = "finish" // take every lock once more, then end in good order
	retire deed = "retire" // close the Guard at once, and end
)

// lease is one hold, as far as its worker knows it. Instants are nanoseconds of the wall
// clock, which all processes of the machine share, and by which Redis lets keys expire.
type lease struct {
	ID       int64 // unique in its process
	Key      string
	Fence    uint64
	TTL      time.Duration
	Called   int64 // just before the lock was asked for
	Entered  int64 // the work began
	Believed int64 // the latest instant for which the lease said later that it was held
	Left     int64 // the work ended
	Ended    int64 // the context ended, for whatever reason
	Returned int64 // the lock was given back, or the library gave up
	Deadline int64 // of the lease, when the work ended
	Local    bool  // handed over within the process
	Nested   bool  // entered again by its holder
	Trusting bool  // the work looked at its context only
	Limit    int   // see plan
	MinHold  time.Duration
	Outcome  outcome // the library's word, or what became of the process
}

type outcome string

const (
	kept    outcome = "kept"    // WithLock or Release found nothing wrong
	lost    outcome = "lost"    // a LostError
	expired outcome = "expired" // a LostError: MaxHold or the ttl of a FixedLease
	closed  outcome = "closed"  // a LostError: the Guard was closed
	revoked outcome = "revoked" // a LostError: somebody stepped in
	unwound outcome = "unwound" // by a panic or Goexit, which WithLock does not return from
	killed  outcome = "killed"  // with its process
)

// until is the latest instant at which the holder was entitled to believe that it held.
func (l *lease) until() int64 {
	if l.Outcome == kept {
		return l.Left
	}
	return max(l.Believed, l.Called)
}

func stamp() int64 { return time.Now().UnixNano() }
