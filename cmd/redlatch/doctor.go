package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/doctor"
)

func (p *program) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Check whether a Redis is safe for locks",
		Long: `Check whether a Redis is safe for locks, and say how to fix it.

It checks the login, version, Lua, memory, clock, latency, replication, connections, scripts and messages
of every primary. It writes nothing. The exit code is 1 if locks do not work there, or would be lost.`,
		SuggestFor: []string{"check", "diagnose", "test", "ping", "status"},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unexpected argument %q", args[0])
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              p.examine,
	}
}

func (p *program) examine(cmd *cobra.Command, _ []string) error {
	client, err := p.open(cmd.Flags())
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithTimeout(cmd.Context(), 2*answerTime)
	defer cancel()
	found, err := doctor.Examine(ctx, client, p.prefix)
	if err != nil {
		return fmt.Errorf("Redis is unavailable: %w", err) //nolint:staticcheck // Redis is a name
	}
	bad := false
	for _, f := range found {
		bad = bad || f.Level == doctor.Bad
		if !p.json {
			printf("%s", spell(f))
		}
	}
	if p.json {
		printJSON(found)
	}
	if bad {
		return &exitError{exitNo, errors.New("this Redis is not safe for locks")}
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
