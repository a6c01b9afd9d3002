package storetest

import "github.com/redlatch/redlatch/guard/guardstore"

// listener is a guardstore.Listener that keeps its notifications.
type listener struct {
	s     *storeTest
	wakes chan guardstore.Notification
}

func (e *listener) Notify(w guardstore.Notification) {
	select {
	case e.wakes <- w:
	default: // more than any test reads
	}
}

func (e *listener) Waiting() bool { return true }
