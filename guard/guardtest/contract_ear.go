package guardtest

import "github.com/redlatch/redlatch/guard"

// ear is a guard.Listener that keeps what it is told.
type ear struct {
	s     *storeTest
	wakes chan guard.Wake
}

func (e *ear) Ask(w guard.Wake) {
	select {
	case e.wakes <- w:
	default: // more than any test reads
	}
}

func (e *ear) Waiting() bool { return true }
