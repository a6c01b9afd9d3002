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
// gocron.WithDistributedJobLocker: a run of a job holds a lock from its start to its end. Its
// key is guard.JoinKey("gocron", name of the job), and its Name is the name of the job if
// opts set none.
//
// A run whose lock is busy is skipped: the lock is tried once, whatever the Guard's own
// Wait is. Only a guard.Wait in opts has runs wait, and then they run one after the other.
// With guard.MinHold in opts each tick runs at most once: see the package comment. What kept a job
// from running goes to its gocron.AfterLockError: a *guard.BusyError where it runs
// elsewhere, or ran (HeldOver), a *guard.StoreError where Redis is down.
//
// Give each job a name (gocron.WithName). Gocron falls back on the name of the job's
// function, which many jobs may share and which the next refactoring changes, so that two
// releases of a program lock different keys. Lock refuses a job without a name, and names
// that are plainly those of functions, with a *guard.KeyError.
//
// Gocron hands no context of the lock to the job. A job that must know of the loss of its
// lock is made by Task instead.
//
// Locker panics if one of opts is out of its bounds. guard.FailOpen does nothing good here:
// Lock refuses it. With a nil g, Lock returns guard.ErrNoGuard. Many schedulers may share
// what it returns.
func Locker(g *guard.Guard, opts ...guard.LockOption) gocron.Locker {
	mustCheck(opts)
	return &locker{g: g, opts: slices.Clone(opts)}
}

type locker struct {
	g     *guard.Guard
	opts  []guard.LockOption
	named sync.Map // of jobs whose name was refused in the log
}

// Lock implements gocron.Locker.
func (l *locker) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	if err := checkName(job); err != nil {
		// Gocron keeps it to itself, and the job would never run for no reason.
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

// functionName matches what runtime.Func.Name gives for closures, method values, the
// functions of package main, and those of a package whose path begins with a host.
var functionName = regexp.MustCompile(`\.func\d+(\.\d+)*$|-fm$|^main\.[^/]+$|^[\w-]+(\.[\w-]+)+/.*\.[^/]+$`)

// version is how a name ends that looks like a function's and is none.
var version = regexp.MustCompile(`\.v\d+$`)

func checkName(job string) error {
	switch {
	case job == "":
		return &guard.KeyError{Reason: "the name of the job is empty: set it with gocron.WithName"}
	case functionName.MatchString(job) && !version.MatchString(job):
		return &guard.KeyError{Key: job, Reason: "the job has no name but its function's: set one with gocron.WithName"}
	}
	return nil
}

func mustCheck(opts []guard.LockOption) {
	if err := guardhook.CheckOptions(opts); err != nil {
		panic(fmt.Sprintf("guardgocron: %v", err))
	}
}
