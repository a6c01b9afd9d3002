package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect"
)

// The exit codes of redlatch's own, after sysexits(3) and env(1).
const (
	exitNoHold      = 1
	exitUsage       = 64
	exitData        = 65
	exitUnavailable = 69
	exitLost        = 70
	exitBusy        = 75
	exitNotRun      = 126 // the command is there and cannot be run
	exitNotFound    = 127
)

// exitError ends the program with a code. Without an Err there is nothing to say.
type exitError struct {
	Code int
	Err  error
}

func (e *exitError) Error() string { return fmt.Sprint(e.Err) }

func (e *exitError) Unwrap() error { return e.Err }

func usagef(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

func exitCode(err error) int {
	var exit *exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.Code
	case errors.Is(err, guard.ErrOption), errors.Is(err, guard.ErrKey):
		return exitUsage
	case errors.Is(err, guard.ErrLost):
		return exitLost
	case errors.Is(err, inspect.ErrInProgress):
		return exitBusy
	case errors.Is(err, inspect.ErrFormat):
		return exitData
	}
	return exitUnavailable
}

// flagOf is the flag that an option of package guard is given by.
var flagOf = map[string]string{
	"TTL": "--ttl", "Wait": "--wait", "MaxHold": "--max-hold", "MinHold": "--min-hold", "Name": "--name", "Metadata": "--name", "Prefix": "--prefix",
	"Limit": "--limit", "keep": "--once",
}

// report says on standard error why the program ends.
func (p *program) report(err error, code int) {
	var option *guard.OptionError
	if errors.As(err, &option) && flagOf[option.Option] != "" {
		err = fmt.Errorf("%s %s", flagOf[option.Option], option.Reason)
	}
	if code == exitUsage && p.command != "" {
		err = fmt.Errorf("%w; see redlatch %s --help", err, p.command)
	}
	p.say(err.Error(), code)
}

// oneLine escapes what steers a terminal or ends a line. A message may repeat arguments, and
// what Redis said: neither may write lines of its own into a log.
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

// say writes a message to standard error, for people or as JSON. code is 0 if the program
// goes on.
func (p *program) say(message string, code int) {
	if !p.json {
		_, _ = fmt.Fprintf(p.stderr, "redlatch: %s\n", oneLine(message))
		return
	}
	line, _ := json.Marshal(struct {
		Message string `json:"message"`
		Code    int    `json:"code,omitempty"`
	}{message, code})
	_, _ = fmt.Fprintf(p.stderr, "%s\n", line)
}
