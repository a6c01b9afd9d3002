package guardtest

import "github.com/redlatch/redlatch/guard/guardstore"

// ear is a guardstore.Listener that keeps its notifications.
type ear struct {
	s     *storeTest
	wakes chan guardstore.Notification
}

func (e *ear) Notify(w guardstore.Notification) {
	select {
	case e.wakes <- w:
	default: // more than any test reads
	}
}

func (e *ear) Waiting() bool { return true }
