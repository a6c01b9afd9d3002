//go:build !unix

package main

import "github.com/spf13/cobra"

func (p *program) runCommand() *cobra.Command {
	return &cobra.Command{
		Use: "run", Short: "not on this system: it has no process groups", DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error { return usagef("redlatch run needs the process groups of Unix") },
	}
}
