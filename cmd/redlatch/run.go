//go:build unix

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/child"
	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect"
)

const runAbout = `Run a command while holding the lock of KEY. Commands with the same KEY exclude each other, on all hosts.

Flags after COMMAND belong to the command. It runs without a shell, in a process group of its own. Its
environment has REDLATCH_KEY and REDLATCH_FENCE, and not REDIS_URL. redlatch passes signals to it. If the
lock is about to be lost, the process group gets TERM, and KILL before another caller can have the lock.
Without --no-wait and --wait, redlatch waits for a busy lock without limit.`

const runExamples = `  redlatch run nightly-report ./report.sh --all
  redlatch run --no-wait --ok-if-busy --min-hold 10m report ./report.sh   # cron: one host does it
  redlatch run --wait 30s --max-hold 10m import ./import
  redlatch run --limit 3 exports ./export.sh                              # three at a time, on all hosts
  redlatch run --once 20h nightly ./report.sh                             # once, on whichever host comes first`

func (p *program) runCommand() *cobra.Command {
	r := &run{program: p}
	cmd := &cobra.Command{
		Use: "run [flags] KEY [--] COMMAND [ARGUMENT]...", Short: "Run a command under a lock",
		Long: runAbout, Example: runExamples, SuggestFor: []string{"lock", "exec", "with", "acquire"},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveDefault // the command, and its files
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			key, argv, err := split(cmd.Flags(), args)
			if help, _ := cmd.Flags().GetBool("help"); help {
				return cmd.Help()
			}
			if err != nil {
				return err
			}
			r.key, r.argv = key, argv
			return r.do(cmd.Context(), cmd.Flags())
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.SetInterspersed(false) // see split
	fs.BoolVarP(&r.noWait, "no-wait", "n", false, "do not wait for a busy lock")
	fs.VarP(&r.wait, "wait", "w", "longest wait for a busy lock (default: no limit)")
	fs.BoolVarP(&r.shared, "shared", "s", false, "share the lock with others that are shared: readers and a writer")
	fs.IntVar(&r.limit, "limit", 0, "let at most `n` commands run at the same time")
	fs.Var(&r.keep, "once", "run the command at most once per duration on all hosts; a failed run does not count")
	fs.Var(&r.ttl, "ttl", "how long the key stays locked after this machine died (default 30s)")
	fs.Var(&r.maxHold, "max-hold", "end the command after that long")
	fs.Var(&r.minHold, "min-hold", "keep the key for that long after the start, even if the command ends sooner")
	fs.VarP(&r.killAfter, "kill-after", "k", "time from TERM to KILL, a third of the ttl at most (default 5s or a sixth of the ttl, the shorter)")
	fs.StringVar(&r.name, "name", "", "name of the holder for others (default: the command's; with --once, the host's)")
	fs.IntVarP(&r.busyCode, "busy-code", "E", exitBusy, "exit with this `code` if the lock is busy")
	fs.BoolVar(&r.okIfBusy, "ok-if-busy", false, "exit with 0 if the lock is busy")
	fs.BoolVar(&r.keepURL, "keep-redis-url", false, "leave REDIS_URL and REDIS_PASSWORD_FILE in the command's environment")
	return cmd
}

// split parses the arguments after the first flags: KEY, more flags, and the command, which begins with the first word
// that is not a flag, or after "--".
func split(fs *pflag.FlagSet, args []string) (key string, argv []string, err error) {
	if len(args) == 0 {
		return "", nil, usagef("KEY is missing")
	}
	if err := fs.Parse(args[1:]); err != nil {
		return "", nil, usagef("%w", err)
	}
	if len(fs.Args()) == 0 {
		return "", nil, usagef("COMMAND is missing after KEY")
	}
	return args[0], fs.Args(), nil
}

// run is a call of redlatch run.
type run struct {
	*program

	noWait, okIfBusy bool
	keepURL          bool
	shared           bool
	limit            int
	wait, ttl        duration
	maxHold, minHold duration
	killAfter        duration
	keep             duration // of --once; 0 without it
	name             string
	busyCode         int

	mode    []guard.LockOption // Limit or Shared; none = exclusive
	key     string
	argv    []string
	grace   time.Duration // from TERM to KILL
	reserve time.Duration // from KILL to the deadline of the lease
	signals <-chan os.Signal

	inspector *inspect.Inspector
	lease     *guard.Lease
	work      *recorded // of --once
	child     *child.Child
	lostText  string // why the command was ended; "" if it was not

	unconfirmed error // of the release; see Event
	guard.NopObserver
}

// Event implements guard.Observer.
func (r *run) Event(_ context.Context, _ guard.Lock, e guard.Event) {
	if e.Kind == guard.EventReleaseFailure {
		r.unconfirmed = e.Err
	}
}

func (r *run) do(ctx context.Context, fs *pflag.FlagSet) error {
	opts, err := r.check(fs)
	if err != nil {
		return err
	}
	path, err := child.Look(r.argv[0])
	if err != nil {
		return notRun(r.argv[0], err)
	}
	client, err := r.open(fs)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	g, err := guard.New(client, opts...)
	if err != nil {
		return err
	}
	defer func() { _ = g.Close() }()

	r.inspector = inspect.New(client, inspect.Prefix(r.prefix))
	r.signals = child.Signals()
	ctx, cancel := context.WithCancel(ctx) // the lease's context descends from it
	defer cancel()
	if err := r.take(ctx, cancel, g); err != nil {
		return err
	}
	env := append(r.environment(), "REDLATCH_KEY="+r.key, "REDLATCH_FENCE="+strconv.FormatUint(r.lease.Fence(), 10))
	r.child, err = child.Start(path, r.argv, env, func(message string) { r.say(message, 0) })
	if err != nil {
		_ = r.giveBack(ctx) // the command did not run
		return notRun(r.argv[0], err)
	}
	r.supervise(ctx)
	return r.outcome(ctx)
}

// environment returns the environment of the command. Without REDIS_URL and the password, a command that runs other
// people's code cannot end locks.
func (r *run) environment() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return !r.keepURL && (name == "REDIS_URL" || name == "REDIS_PASSWORD_FILE")
	})
}

// check checks the flags, and returns the options of the Guard.
func (r *run) check(fs *pflag.FlagSet) ([]guard.Option, error) {
	switch {
	case r.noWait && fs.Changed("wait"):
		return nil, usagef("-n and -w exclude each other")
	case r.okIfBusy && fs.Changed("busy-code"):
		return nil, usagef("--ok-if-busy and -E exclude each other")
	case r.shared && fs.Changed("limit"):
		return nil, usagef("-s and --limit exclude each other")
	case (r.shared || fs.Changed("limit")) && fs.Changed("once"):
		return nil, usagef("--once runs one command: it does not go with -s or --limit")
	case (r.shared || fs.Changed("limit")) && r.minHold != 0:
		return nil, usagef("--min-hold keeps the whole key: it does not go with -s or --limit")
	}
	if r.shared {
		r.mode = append(r.mode, guard.Shared())
	}
	if fs.Changed("limit") {
		r.mode = append(r.mode, guard.Limit(r.limit))
	}
	if fs.Changed("once") {
		r.work = newRecorded(time.Duration(r.keep))
	}
	if r.busyCode < 0 || r.busyCode > 255 {
		return nil, usagef("-E %d is outside 0 to 255", r.busyCode)
	}
	ttl := guard.DefaultTTL
	if fs.Changed("ttl") {
		ttl = time.Duration(r.ttl)
	}
	if err := r.times(ttl, fs.Changed("kill-after")); err != nil {
		return nil, err
	}
	name := r.name
	switch {
	case fs.Changed("name"):
	case r.work != nil: // users read it when the command has long ended
		name = thisHost()
	default:
		name = short(filepath.Base(r.argv[0]))
	}
	opts := []guard.Option{
		guard.Observe(r), guard.Prefix(r.prefix), guard.TTL(ttl), guard.Name(name), guard.Metadata(name),
		guard.MinHold(time.Duration(r.minHold)), guard.MaxHold(time.Duration(r.maxHold)),
	}
	if fs.Changed("wait") {
		opts = append(opts, guard.Wait(time.Duration(r.wait)))
	}
	if r.noWait {
		opts = append(opts, guard.NoWait())
	}
	return opts, nil
}

// times sets how long before the end of the lease the signals are sent. A renewal is due every
// third of the ttl, so it can fail for a while before the command is ended.
func (r *run) times(ttl time.Duration, given bool) error {
	r.reserve = min(max(ttl/50, 5*time.Millisecond), 200*time.Millisecond)
	r.grace = min(ttl/6, 5*time.Second)
	if !given {
		return nil
	}
	r.grace = time.Duration(r.killAfter)
	if r.grace < 0 || r.grace > ttl/3 {
		return usagef("--kill-after %v is outside 0 to %v, a third of the ttl", r.grace, ttl/3)
	}
	return nil
}

// short cuts a text to 256 bytes, the longest metadata of a holder.
func short(text string) string {
	if len(text) > 256 {
		text = text[:256]
	}
	for !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return text
}

// thisHost returns the name of this machine.
func thisHost() string {
	host, _ := os.Hostname()
	return cmp.Or(short(host), "unknown")
}

// notRun returns the error of a command that could not be started, with the codes of env(1).
func notRun(name string, err error) error {
	code := exitNotRun
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		code = exitNotFound
	}
	var detail *exec.Error
	if errors.As(err, &detail) {
		err = detail.Err
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return &exitError{code, fmt.Errorf("%s: %w", visible(name), err)}
}

// take waits for the lock. A signal that would end the command ends the wait.
func (r *run) take(ctx context.Context, cancel func(), g *guard.Guard) error {
	taken := make(chan error, 1)
	go func() {
		if r.work != nil {
			r.work.run(ctx, g, r.key, func(lease *guard.Lease) { r.lease = lease; taken <- nil }, taken)
			return
		}
		lease, err := g.Acquire(ctx, guard.Key(r.key), r.mode...)
		r.lease = lease
		taken <- err
	}()
	waiting, waited := context.WithCancel(ctx)
	defer waited()
	go r.explain(waiting)
	var ended error
	for {
		select {
		case sig := <-r.signals:
			if child.Ends(sig) {
				ended = &exitError{Code: 128 + int(sig.(syscall.Signal))}
				cancel()
			}
		case err := <-taken:
			switch {
			case ended != nil && err == nil:
				_ = r.giveBack(ctx) // the command did not run
				return ended
			case ended != nil:
				return ended
			case errors.Is(err, errDone), errors.Is(err, guard.ErrNotKept):
				return r.done(ctx)
			case errors.Is(err, guard.ErrBusy):
				return r.busy(err)
			case errors.Is(err, guard.ErrStore):
				return &exitError{exitUnavailable, fmt.Errorf("%s: %s", visible(r.key), plain(err))}
			}
			return err
		}
	}
}

// explain prints at a terminal, after a second, which lock run waits for and who holds it.
func (r *run) explain(ctx context.Context) {
	if !isTerminal(os.Stderr) {
		return
	}
	select {
	case <-ctx.Done():
		return
	case <-time.After(time.Second):
	}
	text := "waiting for " + visible(r.key)
	info, _ := get(ctx, r.inspector, r.key) // no holders if this user may not read them
	for _, h := range info.Holders {
		text += fmt.Sprintf("; held by %s for %s", visible(h.Instance), age(info.Now, h.Since))
		if h.Metadata != "" {
			text += ": " + visible(h.Metadata)
		}
	}
	if ctx.Err() == nil {
		r.say(text, 0)
	}
}

func (r *run) busy(err error) error {
	if r.okIfBusy {
		return &exitError{Code: exitOK}
	}
	text := fmt.Sprintf("%s is busy", visible(r.key))
	var busy *guard.BusyError
	if errors.As(err, &busy) {
		if busy.Holder != "" {
			text += ", held by " + strconv.Quote(busy.Holder)
		}
		if busy.Waited > 0 {
			text += fmt.Sprintf("; waited %v", busy.Waited.Round(time.Millisecond))
		}
	}
	return &exitError{r.busyCode, errors.New(text)}
}

// supervise returns when the command has ended. If the lock was lost, its whole process group has ended.
func (r *run) supervise(ctx context.Context) {
	warn := time.NewTimer(r.untilWarning())
	defer warn.Stop()
	for {
		select {
		case <-r.child.Done():
			return
		case sig := <-r.signals:
			r.child.Signal(sig.(syscall.Signal))
		case <-warn.C:
			if left := r.untilWarning(); left > 0 {
				warn.Reset(left) // it was renewed
				continue
			}
			r.child.Terminate()
			r.end(notConfirmed, r.grace)
			return
		case <-r.lease.Context().Done():
			cause := context.Cause(r.lease.Context()) //nolint:contextcheck // it is the lease that ended
			r.child.Terminate()
			r.end(r.why(cause), r.graceAfter(ctx, cause))
			return
		}
	}
}

const notConfirmed = "Redis has not confirmed it for too long"

// why returns the reason of a loss, without the words that there was a loss.
func (r *run) why(err error) string {
	var lost *guard.LostError
	switch {
	case errors.Is(err, guard.ErrMaxHold):
		return fmt.Sprintf("--max-hold %v has passed", &r.maxHold)
	case errors.Is(err, guard.ErrRevoked):
		return "it was revoked or broken"
	case errors.As(err, &lost):
		return plain(lost.Cause)
	}
	return plain(err)
}

// untilWarning returns how long the command may run if the lock is never renewed again.
func (r *run) untilWarning() time.Duration {
	return time.Until(r.lease.Deadline()) - r.grace - r.reserve
}

// graceAfter returns how long a command whose lock was lost may take to end: 0 if another caller can have the lock
// by now.
func (r *run) graceAfter(ctx context.Context, cause error) time.Duration {
	switch {
	case errors.Is(cause, guard.ErrMaxHold):
	case errors.Is(cause, guard.ErrRevoked) && r.stillThere(ctx):
	default:
		return 0
	}
	return min(r.grace, time.Until(r.lease.Deadline())-r.reserve)
}

// stillThere distinguishes a hold that was revoked from a hold that was broken. Revoke needs the rights of a Guard
// only, and changes nothing a second time; Get needs more rights. Without an answer, the hold counts as there.
func (r *run) stillThere(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, r.grace/2)
	defer cancel()
	there, err := r.inspector.Revoke(ctx, r.key, r.lease.Fence())
	return there || err != nil
}

// end waits for the end of the command's process group, which got TERM, and kills it after the grace.
func (r *run) end(why string, grace time.Duration) {
	r.lostText = why
	kill := time.NewTimer(grace)
	defer kill.Stop()
	gone, lost := r.child.Gone(), r.lease.Context().Done()
	if r.lease.Err() != nil {
		lost = nil // the loss is the reason for this end
	}
	for {
		select {
		case <-gone:
			return
		case sig := <-r.signals:
			r.child.Signal(sig.(syscall.Signal))
			continue
		case <-lost:
			// The lock was lost while the command had time to end.
		case <-kill.C:
		}
		r.child.Kill()
		<-r.child.Done()
		return
	}
}

// outcome releases the lock and returns the command's exit code.
func (r *run) outcome(ctx context.Context) error {
	err := r.giveBack(ctx)
	switch {
	case r.lostText != "":
		return &exitError{exitLost, fmt.Errorf("the lock of %s was lost and the command ended: %s", visible(r.key), r.lostText)}
	case errors.Is(err, guard.ErrLost):
		return &exitError{exitLost, fmt.Errorf("the lock of %s was lost before the command ended: %s", visible(r.key), r.why(err))}
	case r.unconfirmed != nil && r.work != nil:
		r.say(fmt.Sprintf("the record of %s was not confirmed, the command may run again: %s", visible(r.key), plain(r.unconfirmed)), 0)
	case r.unconfirmed != nil:
		r.say(fmt.Sprintf("the release of %s was not confirmed, its ttl ends it: %s", visible(r.key), plain(r.unconfirmed)), 0)
	}
	return &exitError{Code: r.child.Code()}
}

// giveBack releases the lock. It waits for Redis for the Guard's StoreTimeout, also after a signal.
func (r *run) giveBack(ctx context.Context) error {
	if r.work != nil {
		return r.work.end(r.child != nil && r.child.Code() == 0)
	}
	return r.lease.Release(context.WithoutCancel(ctx))
}
