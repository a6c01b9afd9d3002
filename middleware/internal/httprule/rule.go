package httprule

import (
	"context"
	"errors"
	"time"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/locking"
	"github.com/redlatch/redlatch/middleware/internal/outcome"
)

// defaultWait is short: net/http does not notice a client that left before its body was
// read, and the wait counts against Server.WriteTimeout.
const defaultWait = 2 * time.Second

// Rule is how requests are locked. It does not change once it is in use, and may be used
// concurrently then.
type Rule[S, H any] struct {
	Policy     locking.Policy
	Key        func(S) (string, error)
	And        []func(S) (string, error) // further keys
	Skip       []func(S) bool
	OnError    H
	OwnOnError bool // OnError is the program's, which may log what it likes
	BusyStatus int  // 0 is the default

	faults Faults
}

// New gives the Rule that options are then applied to.
func New[S, H any](g *guard.Guard, key func(S) (string, error), onError H) *Rule[S, H] {
	return &Rule[S, H]{
		Policy:  locking.Policy{Guard: g, DefaultWait: defaultWait},
		Key:     key,
		OnError: onError,
	}
}

// Check says what is wrong with the Rule.
func (r *Rule[S, H]) Check() error {
	if r.Key == nil {
		return errors.New("no KeyFunc")
	}
	if err := locking.CheckFurther(len(r.And), func(i int) bool { return r.And[i] == nil }); err != nil {
		return err
	}
	if err := r.Policy.Check(); err != nil {
		return err
	}
	if r.BusyStatus == 0 {
		return nil
	}
	return outcome.CheckBusyStatus(r.BusyStatus)
}

// Context gives ctx with what locks taken in code need: the Guard, and the status of a
// busy lock.
func (r *Rule[S, H]) Context(ctx context.Context) context.Context {
	return outcome.WithBusyStatus(r.Policy.Context(ctx), r.BusyStatus)
}

// Log logs an error that the program is to blame for, unless it has an OnError.
func (r *Rule[S, H]) Log(ctx context.Context, adapter, route string, err error, known outcome.HTTPError) {
	if !r.OwnOnError {
		r.faults.Log(ctx, adapter, route, outcome.Of(ctx, err, known), err)
	}
}

// Skips says whether src passes without a lock.
func (r *Rule[S, H]) Skips(src S) bool {
	for _, skip := range r.Skip {
		if skip(src) {
			return true
		}
	}
	return false
}

// Run calls work under the locks of src, as locking.Policy.RunAll does. ctx comes from
// Context.
func (r *Rule[S, H]) Run(ctx context.Context, name string, src S, work func(context.Context) error) (own, err error) {
	bind := func(key func(S) (string, error)) guard.KeyFunc {
		return func(context.Context) (string, error) { return key(src) }
	}
	if len(r.And) == 0 {
		return r.Policy.Run(ctx, name, bind(r.Key), work)
	}
	keys := []guard.KeyFunc{bind(r.Key)}
	for _, key := range r.And {
		keys = append(keys, bind(key))
	}
	return r.Policy.RunAll(ctx, name, keys, work)
}
