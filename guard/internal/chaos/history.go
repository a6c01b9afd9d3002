package chaos

import (
	"bytes"
	"io"
	"os/exec"
	"time"
)

// lease is one hold, as far as its worker knows it. Instants are nanoseconds of the wall
// clock, which all processes of the machine share, and by which Redis lets keys expire.
type lease struct {
	ID       int64 // unique in its process
	Owner    string
	Key      string
	Fence    uint64
	TTL      time.Duration
	Called   int64 // just before the lock was asked for
	Entered  int64 // the work began
	Believed int64 // the latest instant for which the lease said later that it was held
	Left     int64 // the work ended, with its context at the latest if it is Trusting
	Deadline int64 // of the lease, when the work ended
	Local    bool  // handed over within the process
	Trusting bool  // the work looked at its context only
	Limit    int   // how many may hold it at once
	MinHold  time.Duration
	Outcome  outcome // WithLock's word, or what became of the process
}

const (
	exclusive = 1       // the limit of a mutex, or a writer
	shared    = 1 << 30 // of a reader
)

type outcome string

const (
	kept   outcome = "kept"   // WithLock found nothing wrong
	lost   outcome = "lost"   // a LostError
	killed outcome = "killed" // with its process
)

// until is the latest instant at which the holder was entitled to believe that it held.
func (l *lease) until() int64 {
	if l.Outcome == kept {
		return l.Left
	}
	return max(l.Believed, l.Called)
}

func stamp() int64 { return time.Now().UnixNano() }

// process is one worker process.
type process struct {
	number   int
	cmd      *exec.Cmd
	in       io.Closer     // its standard input
	stderr   bytes.Buffer  // read after gone
	gone     chan struct{} // closed when it has ended and all its reports are known
	err      error         // how it ended
	stops    []span        // when it was stopped
	doomed   bool          // it is meant to be killed
	instance string        // what all owners of its Guard begin with; read after gone
}

// span is a time between two instants.
type span struct{ from, to int64 }

func (s span) meets(from, to int64) bool { return s.from <= to && from <= s.to }

// record is a lease in the history.
type record struct {
	lease
	name    string // unique among those of all processes
	process *process

	// What the judge found out.
	asked int64 // the instant before which Redis cannot have granted it
	stray bool  // granted beside the order of the others: see grantedTwice and setBack
}
