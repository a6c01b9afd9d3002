package redisconn

import "context"

// Request is a command, and what becomes of its reply.
type Request interface {
	Command
	// Done is called once, and must not block.
	Done(reply any, err error)
	// Batch is nil if the command has to go by itself.
	Batch() *Batch
}

// sender takes commands to Redis.
type sender interface {
	// do sends a command and waits, at most to the deadline of ctx; it may be executed all
	// the same.
	do(ctx context.Context, c Command) (any, error)
	// start sends a request and returns, at the latest when its caller leaves. The request
	// is done when it is answered, or failed.
	start(p pending)
}

// pending is a request on its way.
type pending struct {
	ctx        context.Context //nolint:containedctx // that of the command
	leave      context.Context //nolint:containedctx // when its caller leaves; nil = never
	request    Request
	withSource bool // Redis does not know its script by name
	alone      bool // it is not to go in a batch
}

// Asking is any other request.
type Asking struct {
	Command

	Then func(any, error)
}

// Batch implements Request: it goes by itself.
func (a Asking) Batch() *Batch { return nil }

// Done implements Request.
func (a Asking) Done(reply any, err error) { a.Then(reply, err) }
