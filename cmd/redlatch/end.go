package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch/guard/inspect"
)

// ending is a call of revoke, break or forget.
type ending struct {
	*program

	fence      uint64
	fenceGiven func() bool
	yes        bool
}

func (p *program) revokeCommand() *cobra.Command {
	e := &ending{program: p}
	cmd := &cobra.Command{
		Use: "revoke KEY", Short: "Ask a holder to end: the safe way",
		Long: `Ask the holder of a lock to end. Its work is notified at once.

The next caller gets the lock when the work has returned, or its lease has ended.`,
		SuggestFor: []string{"cancel", "stop", "kill", "end", "release", "unlock"},
		Args:       oneArgument("KEY"), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: p.inspecting(e.revoke),
	}
	e.addFence(cmd)
	return cmd
}

func (p *program) breakCommand() *cobra.Command {
	e := &ending{program: p}
	cmd := &cobra.Command{
		Use: "break KEY", Short: "Free a lock at once, although its holder may be at work",
		Long: `Free a lock at once. Use it for a holder that you know is dead.

If that process lives, two processes may work at the same time until it is notified.`,
		SuggestFor: []string{"force", "unlock", "release", "delete", "rm"},
		Args:       oneArgument("KEY"), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: p.inspecting(e.breakHold),
	}
	e.addFence(cmd)
	e.addYes(cmd)
	return cmd
}

func (p *program) forgetCommand() *cobra.Command {
	e := &ending{program: p}
	cmd := &cobra.Command{
		Use: "forget KEY", Short: "Delete the record of work that ran once: the next call runs it again",
		Long: `Delete the record of guard.Once, or of run --once, under a key.

The next call runs the work again, whatever the first call did. A record of work in progress is not deleted.`,
		SuggestFor: []string{"delete", "rm", "reset"},
		Args:       oneArgument("KEY"), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: p.inspecting(e.forget),
	}
	e.addYes(cmd)
	return cmd
}

func (e *ending) addFence(cmd *cobra.Command) {
	cmd.Flags().Uint64Var(&e.fence, "fence", 0, "the hold to end, by the fence that ls shows (default: the only hold)")
	e.fenceGiven = func() bool { return cmd.Flags().Changed("fence") }
}

func (e *ending) addYes(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&e.yes, "yes", "y", false, "do not ask")
}

func (e *ending) revoke(ctx context.Context, i *inspect.Inspector, key string) error {
	h, err := e.holder(ctx, i, key)
	if err != nil {
		return err
	}
	if err := end(ctx, key, h.Fence, i.Revoke); err != nil {
		return err
	}
	e.done(doneJSON{Key: key, Done: "revoke", Instance: h.Instance, Fence: h.Fence}, "%s was asked to end; %s stays taken until it has, for %s at most",
		visible(h.Instance), visible(key), left(h.Left))
	return nil
}

func (e *ending) breakHold(ctx context.Context, i *inspect.Inspector, key string) error {
	h, err := e.holder(ctx, i, key)
	if err != nil {
		return err
	}
	if err := e.ask("%s is held by %s, fence %d. If that process lives, two processes may work at the same time.\nBreak it?",
		visible(key), visible(h.Instance), h.Fence); err != nil {
		return err
	}
	if err := end(ctx, key, h.Fence, i.Break); err != nil {
		return err
	}
	e.done(doneJSON{Key: key, Done: "break", Instance: h.Instance, Fence: h.Fence}, "%s was taken from %s", visible(key), visible(h.Instance))
	return nil
}

// end ends a hold by do: Revoke or Break.
func end(ctx context.Context, key string, fence uint64, do func(context.Context, string, uint64) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	there, err := do(ctx, key, fence)
	if err == nil && !there {
		err = noSuchHold(key, fence)
	}
	return err
}

// holder finds the hold to end.
func (e *ending) holder(ctx context.Context, i *inspect.Inspector, key string) (inspect.Holder, error) {
	info, err := get(ctx, i, key)
	switch {
	case err != nil:
		return inspect.Holder{}, err
	case e.fenceGiven():
		for _, h := range info.Holders {
			if h.Fence == e.fence {
				return h, nil
			}
		}
		return inspect.Holder{}, noSuchHold(key, e.fence)
	case len(info.Holders) == 0:
		return inspect.Holder{}, &exitError{exitNo, fmt.Errorf("%s is free", visible(key))}
	case len(info.Holders) > 1:
		var fences []string
		for _, h := range info.Holders {
			fences = append(fences, strconv.FormatUint(h.Fence, 10))
		}
		return inspect.Holder{}, usagef("%s has %d holders: name one by --fence %s", visible(key), len(info.Holders), strings.Join(fences, " or "))
	}
	return info.Holders[0], nil
}

func noSuchHold(key string, fence uint64) error {
	return &exitError{exitNo, fmt.Errorf("%s has no hold with the fence %d any more: nothing was done", visible(key), fence)}
}

// forget deletes a record, and only the record that it showed.
func (e *ending) forget(ctx context.Context, i *inspect.Inspector, key string) error {
	shown, err := record(ctx, i, key)
	if err != nil {
		return err
	}
	if !e.json {
		writeRecord(os.Stderr, shown)
	}
	if err := e.ask("The next call runs the work of %s again.\nForget it?", visible(key)); err != nil {
		return err
	}
	switch now, err := record(ctx, i, key); {
	case err != nil:
		return err
	case now.Record.State != shown.Record.State || now.Record.Fence != shown.Record.Fence:
		return &exitError{exitNo, fmt.Errorf("%s has another record by now: nothing was done", visible(key))}
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	switch there, err := i.Forget(ctx, key); {
	case err != nil:
		return err
	case !there:
		return noRecord(key)
	}
	e.done(doneJSON{Key: key, Done: "forget", State: shown.Record.State, Fence: shown.Record.Fence}, "the record of %s was deleted", visible(key))
	return nil
}

// damaged is the state of a record that cannot be read.
const damaged inspect.RecordState = "damaged"

// record asks for a key with a record that may be deleted.
func record(ctx context.Context, i *inspect.Inspector, key string) (inspect.Info, error) {
	info, err := get(ctx, i, key)
	switch {
	case errors.Is(err, inspect.ErrFormat): // Forget deletes a record that cannot be read, too
		info.Record, err = &inspect.Record{State: damaged}, nil
	case err != nil:
	case info.Record == nil:
		err = noRecord(key)
	case info.Record.State == inspect.RecordInProgress:
		err = inspect.ErrInProgress
	}
	return info, err
}

func noRecord(key string) error {
	return &exitError{exitNo, fmt.Errorf("%s has no record", visible(key))}
}

// ask returns nil if the answer is yes, or with --yes.
func (e *ending) ask(question string, args ...any) error {
	if e.yes {
		return nil
	}
	if !isTerminal(os.Stdin) {
		return usagef("there is no terminal to ask on: give --yes")
	}
	_, _ = fmt.Fprintf(os.Stderr, question+" [y/N] ", args...)
	answer, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return &exitError{exitNo, errors.New("nothing was done")}
}

type doneJSON struct {
	Key      string              `json:"key"`
	Done     string              `json:"done"`
	Instance string              `json:"instance,omitempty"`
	State    inspect.RecordState `json:"state,omitempty"`
	Fence    uint64              `json:"fence"`
}

func (e *ending) done(done doneJSON, format string, args ...any) {
	if e.json {
		printJSON(done)
		return
	}
	printf(format+"\n", args...)
}
