package main

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/redlatch/redlatch/guard/inspect"
)

var forgetCommand = command{
	name: "forget", args: "KEY",
	about: `delete the record of work that ran once

The next call runs the work again, whatever became of it before. While the work goes on, its
record is not deleted.`,
	make: func(fs *pflag.FlagSet) action {
		f := &forgetting{}
		fs.BoolVarP(&f.yes, "yes", "y", false, "do not ask")
		return f.do
	},
}

// forgetting is a call of forget.
type forgetting struct{ yes bool }

func (f *forgetting) do(ctx context.Context, p *program, args []string) error {
	key, err := oneKey(args)
	if err != nil {
		return err
	}
	i, closing, err := p.inspector()
	if err != nil {
		return err
	}
	defer closing()
	r, err := forgettable(ctx, p, i, key)
	if err != nil {
		return err
	}
	if !f.yes {
		if err := ask(p, fmt.Sprintf("The next call runs the work of %s again.\nForget it?", visible(key))); err != nil {
			return err
		}
		if err := unchanged(ctx, i, key, r); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	switch there, err := i.Forget(ctx, key); {
	case err != nil:
		return err
	case !there:
		return noRecord(key)
	}
	if p.json {
		p.printJSON(struct {
			Key   string              `json:"key"`
			Done  string              `json:"done"`
			State inspect.RecordState `json:"state"`
			Fence uint64              `json:"fence"`
		}{key, "forget", r.State, r.Fence})
		return nil
	}
	p.print("the record of %s was deleted\n", visible(key))
	return nil
}

// forgettable shows the record that is about to be deleted, if that may be asked for.
func forgettable(ctx context.Context, p *program, i *inspect.Inspector, key string) (inspect.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	info, err := i.Get(ctx, key)
	switch {
	case err != nil:
		return inspect.Record{}, err
	case info.Record == nil:
		return inspect.Record{}, noRecord(key)
	case info.Record.State == inspect.RecordInProgress:
		return inspect.Record{}, inspect.ErrInProgress
	}
	if !p.json {
		writeRecord(p.stderr, info)
	}
	return *info.Record, nil
}

// unchanged says whether the record is still the one that the person at the terminal read of.
func unchanged(ctx context.Context, i *inspect.Inspector, key string, was inspect.Record) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	info, err := i.Get(ctx, key)
	switch r := info.Record; {
	case err != nil:
		return err
	case r == nil:
		return noRecord(key)
	case r.State != was.State || r.Fence != was.Fence:
		return &exitError{exitNoHold, fmt.Errorf("%s has another record by now: nothing was done", visible(key))}
	}
	return nil
}

func noRecord(key string) error {
	return &exitError{exitNoHold, fmt.Errorf("%s has no record", visible(key))}
}
