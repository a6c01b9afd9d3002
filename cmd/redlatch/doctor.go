package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/doctor"
)

var doctorCommand = command{
	name: "doctor", args: "",
	about: `find what is wrong with a Redis for locks, and how to fix it

It writes nothing. It looks at the version, memory, clock, latency, replication, connections, load,
scripts and messages of every primary, for a second. It exits with 1 if locks do not work there, or are lost.`,
	make: func(*pflag.FlagSet) action { return examine },
}

func examine(ctx context.Context, p *program, args []string) error {
	if len(args) > 0 {
		return usagef("unexpected argument %q", args[0])
	}
	client, err := p.open()
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithTimeout(ctx, 2*answerTime)
	defer cancel()
	found, err := doctor.Examine(ctx, client, p.prefix)
	if err != nil {
		return err
	}
	bad := false
	for _, f := range found {
		bad = bad || f.Level == doctor.Bad
		if !p.json {
			p.print("%s", spell(f))
		}
	}
	if p.json {
		p.printJSON(found)
	}
	if bad {
		return &exitError{exitNoHold, errors.New("this Redis is not fit for locks")}
	}
	return nil
}

func spell(f doctor.Finding) string {
	where := ""
	if f.Server != "" {
		where = " (" + f.Server + ")"
	}
	text := fmt.Sprintf("%-4s  %s%s: %s\n", f.Level, f.Check, where, visible(f.Says))
	if f.Fix != "" {
		text += fmt.Sprintf("      fix: %s\n", visible(f.Fix))
	}
	return text
}
