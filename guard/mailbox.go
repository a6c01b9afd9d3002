package guard

import "sync/atomic"

// message is what a claim that waits may be told. Several make one.
type message uint32

const (
	askMessage   message = 1 << iota // ask now
	frontMessage                     // first in the queue
	lossMessage                      // messages may have been lost
)

// mailbox holds the messages that were not read yet: whoever writes never waits, and
// nothing is lost.
type mailbox struct {
	ready  chan struct{} // one slot
	unread atomic.Uint32
}

func (b *mailbox) put(m message) {
	b.unread.Or(uint32(m))
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

func (b *mailbox) take() message { return message(b.unread.Swap(0)) }
