package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect"
)

// The exit codes of redlatch itself, after sysexits(3) and env(1).
const (
	exitOK          = 0
	exitNo          = 1
	exitUsage       = 64
	exitData        = 65
	exitUnavailable = 69
	exitLost        = 70
	exitBusy        = 75
	exitNotRun      = 126
	exitNotFound    = 127
)

var exits = []struct {
	code int
	when string
}{
	{exitOK, "success; run: the exit code of the command, 128+n if signal n ended it"},
	{exitNo, "no such hold or record, or the answer was no; doctor: locks are not safe there"},
	{exitUsage, "wrong flags or arguments; no terminal to ask on, and no --yes"},
	{exitData, "the value under the key is not a redlatch lock, or not its record"},
	{exitUnavailable, "Redis does not answer, or refuses"},
	{exitLost, "the lock was lost; the command was ended, or had ended"},
	{exitBusy, "the lock is busy (-E and --ok-if-busy change this); forget: the work is in progress"},
	{exitNotRun, "the command cannot be run"},
	{exitNotFound, "the command is not found"},
}

// exitTable is the table of exit codes in help texts.
func exitTable() string {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, e := range exits {
		_, _ = fmt.Fprintf(table, "  %d\t%s\n", e.code, e.when)
	}
	_ = table.Flush()
	return b.String()
}

// exitError ends the program with a code, and with a message unless Err is nil.
type exitError struct {
	Code int
	Err  error
}

func (e *exitError) Error() string { return fmt.Sprint(e.Err) }

func usagef(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

func exitCode(err error) int {
	var exit *exitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &exit):
		return exit.Code
	case errors.Is(err, guard.ErrOption), errors.Is(err, guard.ErrKey):
		return exitUsage
	case errors.Is(err, inspect.ErrInProgress):
		return exitBusy
	case errors.Is(err, inspect.ErrFormat), errors.Is(err, guard.ErrDamagedRecord):
		return exitData
	}
	return exitUnavailable
}

// report prints why cmd failed on standard error, and returns the exit code.
func (p *program) report(cmd *cobra.Command, err error) int {
	code := exitCode(err)
	var exit *exitError
	if err == nil || errors.As(err, &exit) && exit.Err == nil {
		return code
	}
	message := plain(err)
	if code == exitUsage {
		message += "; see " + cmd.CommandPath() + " --help"
	}
	p.say(message, code)
	return code
}

// flagOf maps options of package guard to flags.
var flagOf = map[string]string{
	"TTL": "--ttl", "Wait": "--wait", "MaxHold": "--max-hold", "MinHold": "--min-hold", "Name": "--name", "Metadata": "--name", "Prefix": "--prefix",
	"Limit": "--limit", "keep": "--once",
}

// plain returns the text of err in the words of the command line, without the names of Go packages.
func plain(err error) string {
	var option *guard.OptionError
	var store *guard.StoreError
	var refusal redis.Error
	switch {
	case errors.As(err, &option) && flagOf[option.Option] != "":
		return flagOf[option.Option] + " " + option.Reason
	case errors.As(err, &store) && errors.As(store.Err, &refusal):
		return "Redis refuses: " + refusal.Error()
	case errors.As(err, &store):
		return "Redis is unavailable: " + store.Err.Error()
	}
	return strings.TrimPrefix(strings.TrimPrefix(err.Error(), "guard: "), "inspect: ")
}

// oneLine escapes characters that steer a terminal or end a line. A message may repeat arguments
// and replies of Redis: neither may write lines of its own into a log.
func oneLine(message string) string {
	var b strings.Builder
	for _, r := range message {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

// say writes a message to standard error, for people or as JSON. code is 0 if the program continues.
func (p *program) say(message string, code int) {
	if !p.json {
		_, _ = fmt.Fprintf(os.Stderr, "redlatch: %s\n", oneLine(message))
		return
	}
	line, _ := json.Marshal(struct {
		Message string `json:"message"`
		Code    int    `json:"code,omitempty"`
	}{message, code})
	_, _ = fmt.Fprintf(os.Stderr, "%s\n", line)
}
