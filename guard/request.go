package guard

import "context"

// request is a command, and what becomes of its reply.
type request interface {
	command
	// done is called once, and must not block.
	done(reply any, err error)
	// many is nil if the command has to go by itself.
	many() *many
}

// courier takes commands to Redis.
type courier interface {
	// do sends a command and waits, at most to the deadline of ctx; it may be executed all
	// the same.
	do(ctx context.Context, c command) (any, error)
	// start sends a request and returns, at the latest when its caller leaves. The request
	// is done when it is answered, or failed.
	start(p parcel)
}

// parcel is a request on its way.
type parcel struct {
	ctx     context.Context //nolint:containedctx // that of the command
	leave   context.Context //nolint:containedctx // when its caller leaves; nil = never
	request request
	inFull  bool // Redis does not know its script by name
	single  bool // it is not one of many
}

// asking is any other request.
type asking struct {
	command

	then func(any, error)
}

func (a asking) many() *many               { return nil }
func (a asking) done(reply any, err error) { a.then(reply, err) }
