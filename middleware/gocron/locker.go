package guardgocron

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"sync"

	"github.com/go-co-op/gocron/v2"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/guardhook"
)

// Locker is a gocron.Locker for gocron.WithDistributedLocker and
// gocron.WithDistributedJobLocker: each run of a job holds a lock from its start to its end.
// The key is guard.JoinKey("gocron", name of the job). The lock's Name is the name of the job
// if opts set none.
//
// A run whose lock is busy is skipped: Lock tries once, whatever the Guard's own Wait is.
// With guard.Wait in opts, runs wait for each other. With guard.MinHold in opts, each tick
// runs at most once: see the package comment. The error of Lock goes to the job's
// gocron.AfterLockError: a *guard.BusyError if another instance runs the job, or ran it
// (HeldOver), a *guard.StoreError if Redis is down.
//
// Give each job a name (gocron.WithName). Otherwise gocron uses the name of the job's
// function, which many jobs may share and which the next refactoring changes, so that two
// releases of a program lock different keys. Lock refuses a job without a name, and names
// that are plainly those of functions, with a *guard.KeyError.
//
// Gocron does not hand the lock's context to the job. Use Task for a job that must stop when
// its lock is lost.
//
// Locker panics if one of opts is out of its bounds. Lock refuses guard.FailOpen. With a nil
// g, Lock returns guard.ErrNoGuard. Schedulers may share a Locker.
func Locker(g *guard.Guard, opts ...guard.LockOption) gocron.Locker {
	mustCheck(opts)
	return &locker{g: g, opts: slices.Clone(opts)}
}

type locker struct {
	g     *guard.Guard
	opts  []guard.LockOption
	named sync.Map // names of jobs that were logged as refused
}

// Lock implements gocron.Locker.
func (l *locker) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	if err := checkName(job); err != nil {
		// Gocron does not log the error, and the job would never run for no visible reason.
		if _, logged := l.named.LoadOrStore(job, true); !logged {
			slog.Error("guardgocron: a job does not run", "error", err)
		}
		return nil, err
	}
	opts := append([]guard.LockOption{guard.Name(job), guard.NoWait()}, l.opts...)
	lease, err := l.g.Acquire(ctx, guard.Key(guard.JoinKey("gocron", job)), opts...)
	if err != nil {
		return nil, err
	}
	return lock{lease}, nil
}

type lock struct{ lease *guard.Lease }

// Unlock implements gocron.Lock.
func (l lock) Unlock(ctx context.Context) error { return l.lease.Release(ctx) }

// functionName matches the runtime.Func.Name of closures, method values, functions of
// package main, and functions of a package whose path begins with a host.
var functionName = regexp.MustCompile(`\.func\d+(\.\d+)*$|-fm$|^main\.[^/]+$|^[\w-]+(\.[\w-]+)+/.*\.[^/]+$`)

// version matches the end of a name that looks like a function's but is not.
var version = regexp.MustCompile(`\.v\d+$`)

func checkName(job string) error {
	switch {
	case job == "":
		return &guard.KeyError{Reason: "the name of the job is empty: set it with gocron.WithName"}
	case functionName.MatchString(job) && !version.MatchString(job):
		return &guard.KeyError{Key: job, Reason: "the name of the job is that of its function: set one with gocron.WithName"}
	}
	return nil
}

func mustCheck(opts []guard.LockOption) {
	if err := guardhook.CheckOptions(opts); err != nil {
		panic(fmt.Sprintf("guardgocron: %v", err))
	}
}
