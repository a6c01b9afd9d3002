package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/redlatch/redlatch/guard/inspect"
)

var (
	revokeCommand = command{
		name: "revoke", args: "KEY",
		about: `ask a holder to end

Its work is notified at once. Nobody gets the lock before the work or its lease has ended.`,
		make: func(fs *pflag.FlagSet) action { return newEnding(fs, "revoke").do },
	}
	breakCommand = command{
		name: "break", args: "KEY",
		about: `free a lock at once, whatever its holder does

It is for a holder that you know is dead: if it is not, two may work at the same time.`,
		make: func(fs *pflag.FlagSet) action {
			e := newEnding(fs, "break")
			fs.BoolVarP(&e.yes, "yes", "y", false, "do not ask")
			return e.do
		},
	}
)

// ending is a call of revoke or break.
type ending struct {
	verb  string
	fence uint64 // 0 is whichever holds
	given func() bool
	yes   bool
}

func newEnding(fs *pflag.FlagSet, verb string) *ending {
	e := &ending{verb: verb}
	fs.Uint64Var(&e.fence, "fence", 0, "the hold that is meant, if the lock is still its own (default: who holds it now)")
	e.given = func() bool { return fs.Changed("fence") }
	return e
}

func (e *ending) do(ctx context.Context, p *program, args []string) error {
	key, err := oneKey(args)
	if err != nil {
		return err
	}
	i, closing, err := p.inspector()
	if err != nil {
		return err
	}
	defer closing()
	h, err := e.holder(ctx, i, key)
	if err != nil {
		return err
	}
	if e.verb == "break" && !e.yes {
		if err := ask(p, fmt.Sprintf("%s is held by %s, fence %d. If that process lives, two may work at the same time.\nBreak it?",
			visible(key), visible(h.Instance), h.Fence)); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	do := i.Revoke
	if e.verb == "break" {
		do = i.Break
	}
	there, err := do(ctx, key, h.Fence)
	switch {
	case err != nil:
		return err
	case !there:
		return noSuchHold(key, h.Fence)
	}
	e.say(p, key, h)
	return nil
}

// holder finds the hold that is meant.
func (e *ending) holder(ctx context.Context, i *inspect.Inspector, key string) (inspect.Holder, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	info, err := i.Get(ctx, key)
	if err != nil {
		return inspect.Holder{}, err
	}
	if e.given() {
		for _, h := range info.Holders {
			if h.Fence == e.fence {
				return h, nil
			}
		}
		return inspect.Holder{}, noSuchHold(key, e.fence)
	}
	switch len(info.Holders) {
	case 0:
		return inspect.Holder{}, &exitError{exitNoHold, fmt.Errorf("%s is free", visible(key))}
	case 1:
		return info.Holders[0], nil
	}
	return inspect.Holder{}, usagef("%s has %d holders: name one by --fence", visible(key), len(info.Holders))
}

func noSuchHold(key string, fence uint64) error {
	return &exitError{exitNoHold, fmt.Errorf("%s has no hold with the fence %d any more: nothing was done", visible(key), fence)}
}

// ask returns nil if the answer is yes.
func ask(p *program, question string) error {
	if terminalWidth(os.Stdin) == 0 {
		return usagef("there is no terminal to ask on: give --yes")
	}
	_, _ = fmt.Fprintf(p.stderr, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return &exitError{exitNoHold, fmt.Errorf("nothing was done")}
}

func (e *ending) say(p *program, key string, h inspect.Holder) {
	if p.json {
		p.printJSON(struct {
			Key      string `json:"key"`
			Done     string `json:"done"`
			Instance string `json:"instance"`
			Fence    uint64 `json:"fence"`
		}{key, e.verb, h.Instance, h.Fence})
		return
	}
	if e.verb == "break" {
		p.print("%s was taken from %s\n", visible(key), visible(h.Instance))
		return
	}
	p.print("%s was asked to end; %s stays taken until it has, for %s at most\n", visible(h.Instance), visible(key), left(h.Left))
}
