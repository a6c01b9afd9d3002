package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// nodeAnswer is what one server of a quorum said.
type nodeAnswer[T any] struct {
	node  int
	reply T
	err   error
}

// ask calls every server at once. There is an answer from each, at the latest when its
// time is up; nobody has to wait for them all.
func ask[T any](ctx context.Context, s *quorumStore, call func(ctx context.Context, n *redisStore, i int) (T, error)) <-chan nodeAnswer[T] {
	return askAndGoOn(ctx, s, func(ctx context.Context, n *redisStore, i int, answer func(T, error)) {
		answer(call(ctx, n, i))
	})
}

// askAndGoOn is ask for calls that have something to do after their answer.
func askAndGoOn[T any](ctx context.Context, s *quorumStore, call func(ctx context.Context, n *redisStore, i int, answer func(T, error))) <-chan nodeAnswer[T] {
	timeout := s.timeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(deadline))
	}
	ctx = context.WithoutCancel(ctx)
	answers := make(chan nodeAnswer[T], len(s.nodes))
	for i, n := range s.nodes {
		run := func() {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			call(ctx, n, i, func(reply T, err error) { answers <- nodeAnswer[T]{i, reply, err} })
		}
		if !s.background.spawn(run) {
			run() // closed: nobody joins goroutines any more
		}
	}
	return answers
}

// askOne calls one server.
func askOne[T any](ctx context.Context, s *quorumStore, i int, call func(ctx context.Context, n *redisStore) (T, error)) nodeAnswer[T] {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	reply, err := call(ctx, s.nodes[i])
	return nodeAnswer[T]{i, reply, err}
}

// insist repeats, behind the caller, what one server has not answered: what it holds for
// nobody is a vote less until its ttl is over. It gives up after some seconds.
func (s *quorumStore) insist(ctx context.Context, err error, call func(ctx context.Context) error) {
	for rest := 20 * time.Millisecond; err != nil && rest < 5*time.Second; rest *= 4 {
		if refused := (*RefusedError)(nil); errors.As(err, &refused) {
			return
		}
		timer := time.NewTimer(rest)
		select {
		case <-timer.C:
		case <-s.closing:
			timer.Stop()
			return
		}
		again, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
		err = call(again)
		cancel()
	}
}

// agree waits until enough servers say yes, or too many do not. no counts those that
// answered otherwise.
func agree[T any](s *quorumStore, answers <-chan nodeAnswer[T], says func(nodeAnswer[T]) bool) (yes, no int, err error) {
	var errs nodeErrors
	for pending := len(s.nodes); yes < s.need && yes+pending >= s.need && pending > 0; pending-- {
		switch a := <-answers; {
		case a.err != nil:
			errs = append(errs, a.err)
		case says(a):
			yes++
		default:
			no++
		}
	}
	return yes, no, errs.join(s)
}

// nodeErrors are those of servers that did not answer, or refused.
type nodeErrors []error

// join makes one error of them: a refusal if the refusals alone prevent a majority, so
// that asking again is of no use.
func (e nodeErrors) join(s *quorumStore) error {
	if len(e) == 0 {
		return nil
	}
	refused := 0
	for _, err := range e {
		if r := (*RefusedError)(nil); errors.As(err, &r) {
			refused++
		}
	}
	texts := make([]string, len(e))
	for i, err := range e {
		texts[i] = err.Error()
	}
	slices.Sort(texts)
	err := fmt.Errorf("%d of %d servers failed: %w", len(e), len(s.nodes), errors.Join(e...))
	if refused > len(s.nodes)-s.need {
		return &RefusedError{err}
	}
	// As text: one server's refusal is not that of the quorum.
	return fmt.Errorf("%d of %d servers failed: %q", len(e), len(s.nodes), slices.Compact(texts))
}
