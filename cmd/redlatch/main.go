// Command redlatch runs commands under a distributed lock on Redis, shows who holds one and
// who waits, ends holds, and forgets records.
//
//	redlatch run nightly-report -- ./report.sh
//	redlatch ls
//	redlatch revoke order:42
//
// It finds Redis by --redis or REDIS_URL. See docs/redlatch.md, or redlatch --help.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"text/tabwriter"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/pflag"

	"github.com/redlatch/redlatch/internal/version"
)

// command is one of redlatch's.
type command struct {
	name  string
	args  string // after the flags
	about string
	make  func(fs *pflag.FlagSet) action
}

// action runs a command, with the arguments after the flags.
type action func(ctx context.Context, p *program, args []string) error

func commands() []command {
	return []command{
		runCommand, lsCommand, showCommand, watchCommand, revokeCommand, breakCommand,
		forgetCommand, doctorCommand,
	}
}

// quiet drops what go-redis logs: errors say it, too.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func main() {
	redis.SetLogger(quiet{})
	p := &program{stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv}
	os.Exit(p.main(context.Background(), os.Args[1:]))
}

// program is one call of redlatch.
type program struct {
	stdout, stderr io.Writer
	getenv         func(string) string

	command string // its name
	flags   *pflag.FlagSet
	redis   string
	prefix  string
	json    bool

	passwordFile string
}

func (p *program) main(ctx context.Context, args []string) int {
	err := p.dispatch(ctx, args)
	code := exitCode(err)
	var exit *exitError
	if err == nil || errors.As(err, &exit) && exit.Err == nil {
		return code
	}
	p.report(err, code)
	return code
}

func (p *program) dispatch(ctx context.Context, args []string) error {
	if len(args) == 0 {
		p.help(p.stderr)
		return usagef("which command?")
	}
	switch name := args[0]; name {
	case "help", "-h", "--help":
		p.help(p.stdout)
		return nil
	case "version", "--version":
		return p.version()
	default:
		for _, c := range commands() {
			if c.name == name {
				p.command = name
				return p.call(ctx, c, args[1:])
			}
		}
		return usagef("there is no command %q; redlatch --help lists them", name)
	}
}

func (p *program) call(ctx context.Context, c command, args []string) error {
	fs := pflag.NewFlagSet(c.name, pflag.ContinueOnError)
	fs.SetInterspersed(false) // what follows KEY may be another command's flags
	fs.SetOutput(io.Discard)
	fs.SortFlags = false
	fs.Usage = func() {}
	do := c.make(fs)
	p.flags = fs
	fs.StringVar(&p.redis, "redis", "", "`URL` of Redis, in place of REDIS_URL; ps shows it to others: no password in it")
	fs.StringVar(&p.passwordFile, "redis-password-file", "", "the `file` with the password of Redis, in place of REDIS_PASSWORD_FILE")
	fs.StringVar(&p.prefix, "prefix", "guard", "the `namespace` of the locks in Redis, as guard.Prefix")
	fs.BoolVar(&p.json, "json", false, "write JSON")
	switch err := fs.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		p.print("redlatch %s [flags] %s\n\n%s\n\n%s", c.name, c.args, c.about, fs.FlagUsages())
		return nil
	case err != nil:
		return usagef("%w", err)
	}
	return do(ctx, p, fs.Args())
}

const helpEnd = `
Redis is found by --redis or REDIS_URL:
%s
Its password may be in a file, which --redis-password-file or REDIS_PASSWORD_FILE names: ps shows
arguments to others. Of a redis+sentinel URL, user:password@ is for the Sentinels, and the file for Redis.
Flags stand before KEY. redlatch COMMAND --help lists them.
Exit codes: 0, 1 no such hold or record, 64 usage, 65 what is in Redis is no lock,
69 Redis is unavailable, 70 the lock was lost, 75 it is busy, 126 and 127 as env(1); run has that of its command.
`

func (p *program) help(w io.Writer) {
	var lines strings.Builder
	table := tabwriter.NewWriter(&lines, 0, 0, 2, ' ', 0)
	for _, c := range commands() {
		about, _, _ := strings.Cut(c.about, "\n")
		_, _ = fmt.Fprintf(table, "  redlatch %s [flags] %s\t%s\n", c.name, c.args, about)
	}
	_ = table.Flush()
	_, _ = fmt.Fprintf(w, "redlatch locks by Redis.\n\n%s", lines.String())
	_, _ = fmt.Fprintf(w, helpEnd, "  "+strings.ReplaceAll(strings.TrimSpace(urlForms), "\n", "\n  "))
}

func (p *program) version() error {
	number, from := "v"+version.Number, ""
	// What is built from another commit than that of the tag is not the release.
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != number {
		from = ", built from " + cmp.Or(info.Main.Version, "an unknown version")
	}
	p.print("redlatch %s%s\n", number, from)
	return nil
}

// print writes a result. If nobody reads it, there is nothing to do about it.
func (p *program) print(format string, args ...any) { _, _ = fmt.Fprintf(p.stdout, format, args...) }
