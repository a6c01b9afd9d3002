package redisconn

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
)

// bounds are those of what a client does before the first command on a connection: user
// code, or go-redis's own dialers, which do not all heed their context.
type bounds struct {
	timeout time.Duration
	closed  <-chan struct{} // no connection is wanted any more
}

// begin bounds a wait: its context, and the time of the whole of it.
func (b bounds) begin(ctx context.Context) (timeout time.Duration, timer *time.Timer) {
	timeout = b.timeout
	if deadline, ends := ctx.Deadline(); ends { // it need not show in Done, see ending
		timeout = min(timeout, time.Until(deadline))
	}
	return timeout, time.NewTimer(timeout)
}

// bounded waits for a call until it is done, ctx or its deadline has passed, its time is up or
// no connection is wanted any more. Then the call goes on alone: nobody joins it, because
// nothing can end it. It ends when its own timeout does, such as the DialTimeout of the
// user's client, and what it brings then goes to late.
func bounded[T any](ctx context.Context, b bounds, what string, call func(context.Context) (T, error), late func(T)) (got T, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	timeout, timer := b.begin(ctx)
	defer timer.Stop()
	type outcome struct {
		got T
		err error
	}
	outcomes, left := make(chan outcome), make(chan struct{})
	inBackground(ctx, what, call, func(got T, err error) {
		select {
		case outcomes <- outcome{got, err}:
		case <-left:
			if err == nil {
				late(got)
			}
		}
	})
	select {
	case o := <-outcomes:
		return o.got, o.err
	case <-timer.C:
		err = lateError{what, timeout.Round(time.Millisecond)}
	case <-ctx.Done():
		err = ctx.Err()
	case <-b.closed:
		err = redis.ErrClosed
	}
	close(left)
	return got, err
}

// inBackground makes a call on a goroutine of its own, and hands on its result.
func inBackground[T any](ctx context.Context, what string, call func(context.Context) (T, error), done func(T, error)) {
	go func() {
		var got T
		err := fmt.Errorf("%s: did not return", what)
		defer func() {
			if r := recover(); r != nil { // as go-redis does with dials
				err = fmt.Errorf("%s: panic: %v", what, r)
			}
			done(got, err)
		}()
		got, err = call(ctx)
	}()
}

// lateError is a timeout. It unwraps to nothing, as go-redis drops what wraps an error.
type lateError struct {
	what    string
	timeout time.Duration
}

func (e lateError) Error() string   { return fmt.Sprintf("%s: not done after %v", e.what, e.timeout) }
func (lateError) Is(err error) bool { return err == context.DeadlineExceeded }
func (lateError) Timeout() bool     { return true }

// options bounds what go-redis calls for a new connection.
func (b bounds) options(o *redis.Options) {
	if onConnect := o.OnConnect; onConnect != nil {
		o.OnConnect = func(ctx context.Context, conn *redis.Conn) error {
			_, err := bounded(ctx, b, "OnConnect", func(ctx context.Context) (struct{}, error) {
				return struct{}{}, onConnect(ctx, conn)
			}, func(struct{}) {})
			return err
		}
	}
	if own, simple := o.CredentialsProviderContext, o.CredentialsProvider; own != nil || simple != nil {
		o.CredentialsProviderContext = func(ctx context.Context) (username, password string, err error) {
			got, err := bounded(ctx, b, "credentials", func(ctx context.Context) (c [2]string, err error) {
				if own != nil {
					c[0], c[1], err = own(ctx)
				} else {
					c[0], c[1] = simple()
				}
				return c, err
			}, func([2]string) {})
			return got[0], got[1], err
		}
	}
	if o.StreamingCredentialsProvider != nil {
		o.StreamingCredentialsProvider = boundedCredentials{o.StreamingCredentialsProvider, b}
	}
}

// boundedCredentials are a user's.
type boundedCredentials struct {
	auth.StreamingCredentialsProvider
	bounds
}

type subscription struct {
	auth.Credentials
	end auth.UnsubscribeFunc
}

// Subscribe implements auth.StreamingCredentialsProvider.
func (c boundedCredentials) Subscribe(l auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	s, err := bounded(context.Background(), c.bounds, "credentials", func(context.Context) (s subscription, err error) {
		s.Credentials, s.end, err = c.StreamingCredentialsProvider.Subscribe(l)
		return s, err
	}, func(s subscription) { _ = s.end() })
	return s.Credentials, s.end, err
}
