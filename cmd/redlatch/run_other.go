//go:build !unix

package main

import (
	"context"

	"github.com/spf13/pflag"
)

var runCommand = command{
	name: "run", args: "KEY -- command args…",
	about: "not on this system: it has no process groups to end",
	make: func(*pflag.FlagSet) action {
		return func(context.Context, *program, []string) error {
			return usagef("redlatch run needs the process groups of Unix")
		}
	},
}
