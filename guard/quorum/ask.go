package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
)

// answer is what one server of a quorum said.
type answer[T any] struct {
	node  int
	reply T
	err   error
}

// ask calls every server at once. There is an answer from each, at the latest when its
// time is up; a caller does not wait for them all.
func ask[T any](ctx context.Context, s *Store, call func(ctx context.Context, n server, i int) (T, error)) <-chan answer[T] {
	answers := make(chan answer[T], len(s.nodes))
	for i := range s.nodes {
		run := func() { answers <- askOne(ctx, s, i, call) }
		if !s.tasks.Go(run) {
			run() // closed: no goroutine is joined any more
		}
	}
	return answers
}

// askOne calls one server. The call continues if its caller leaves.
func askOne[T any](ctx context.Context, s *Store, i int, call func(ctx context.Context, n server, i int) (T, error)) answer[T] {
	one, cancel := context.WithDeadline(context.WithoutCancel(ctx), s.until(ctx))
	defer cancel()
	reply, err := call(one, s.nodes[i], i)
	return answer[T]{i, reply, err}
}

// until is when one server's time to answer is up: while there is time left to make one answer
// of those of the others.
func (s *Store) until(ctx context.Context) time.Time {
	now := time.Now()
	deadline, ends := ctx.Deadline()
	if !ends {
		return now.Add(s.timeout)
	}
	return now.Add(min(s.timeout, deadline.Sub(now)*3/4))
}

// agree waits until enough servers say yes, or too few are left that may.
func (s *Store) agree(answers <-chan answer[bool]) error {
	var errs serverErrors
	yes := 0
	for pending := len(s.nodes); yes < s.need && yes+pending >= s.need; pending-- {
		if a := <-answers; a.err != nil {
			errs = append(errs, a.err)
		} else if a.reply {
			yes++
		}
	}
	if yes >= s.need {
		return nil
	}
	if len(errs) == 0 {
		return errTooFew
	}
	return errs.join(s)
}

// serverErrors are those of servers that did not answer, or refused.
type serverErrors []error

// join makes one error of them: a refusal if the refusals alone prevent a majority, so
// that asking again is of no use.
func (e serverErrors) join(s *Store) error {
	if len(e) == 0 {
		return nil
	}
	refused, unanswered := 0, 0
	for _, err := range e {
		if r := (*guardstore.RefusedError)(nil); errors.As(err, &r) {
			refused++
		}
		if neverSent(err) {
			unanswered++
		}
	}
	texts := make([]string, len(e))
	for i, err := range e {
		texts[i] = err.Error()
	}
	slices.Sort(texts)
	err := fmt.Errorf("%d of %d servers failed: %w", len(e), len(s.nodes), errors.Join(e...))
	if refused > len(s.nodes)-s.need {
		return &guardstore.RefusedError{Err: err}
	}
	// As text: one server's refusal is not that of the quorum.
	failure := &minorityError{text: fmt.Sprintf("%d of %d servers failed: %q", len(e), len(s.nodes), slices.Compact(texts))}
	if unanswered > len(s.nodes)-s.need {
		failure.cause = syscall.ECONNREFUSED
	}
	return failure
}

// minorityError says why there was no majority.
type minorityError struct {
	text  string
	cause error // of a majority's failure, if that is the same
}

func (e *minorityError) Error() string { return e.text }
func (e *minorityError) Unwrap() error { return e.cause }
