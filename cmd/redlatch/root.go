package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/redisurl"
	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect"
)

// program has the flags of all commands.
type program struct {
	redis        string
	passwordFile string
	prefix       string
	json         bool
}

const about = `Run commands under a distributed lock in Redis: one host at a time, or at most n.
See who holds a lock and who waits, end a holder, delete a record of work that ran once.

--redis or REDIS_URL is the URL of Redis. There is no default.

%s
The password may be in the URL, or in a file that --redis-password-file or REDIS_PASSWORD_FILE names.
In a URL for Sentinel, user:password@ is for the Sentinels, and the file for Redis.`

const examples = `  redlatch run nightly-report ./report.sh --all
  redlatch run --no-wait --ok-if-busy --min-hold 10m report ./report.sh
  redlatch ls 'order:*'
  redlatch show order:42`

// root makes the command line.
func (p *program) root() *cobra.Command {
	cobra.EnableCommandSorting = false
	root := &cobra.Command{
		Use:     "redlatch",
		Short:   "Run commands under a distributed lock in Redis, and show locks",
		Long:    fmt.Sprintf(about, indent(redisurl.Forms)),
		Example: examples,
		Version: version(),
		Args:    cobra.ArbitraryArgs,
		RunE:    unknown,
		// If the name of a command is misspelled, report that, and not its flags as unknown.
		FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
		SilenceErrors:      true,
		SilenceUsage:       true,
	}
	flags := root.PersistentFlags()
	flags.StringVar(&p.redis, "redis", "", "`URL` of Redis, instead of REDIS_URL; ps shows it to others: no password in it")
	flags.StringVar(&p.passwordFile, "redis-password-file", "", "`file` with the password of Redis, instead of REDIS_PASSWORD_FILE")
	flags.StringVar(&p.prefix, "prefix", guard.DefaultPrefix, "`namespace` of the locks in Redis: the prefix of your Guards")
	flags.BoolVar(&p.json, "json", false, "write results and messages as JSON")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usagef("%w", err) })
	root.SetHelpTemplate(root.HelpTemplate() + "\nExit codes:\n" + exitTable())
	root.AddCommand(p.runCommand(), p.listCommand(), p.showCommand(), p.revokeCommand(), p.breakCommand(),
		p.forgetCommand(), p.doctorCommand(), versionCommand(), manCommand())
	return root
}

// unknown runs if the arguments name no command.
func unknown(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		cmd.SetOut(os.Stderr)
		_ = cmd.Help()
		return usagef("a command is missing")
	}
	cmd.SuggestionsMinimumDistance = min(2, len(args[0])/2) // every short word is two letters from "ls"
	if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
		like = slices.Compact(like) // a command may be like the word for two reasons
		return usagef("unknown command %q: did you mean %s?", args[0], strings.Join(like, " or "))
	}
	return usagef("unknown command %q", args[0])
}

// indent makes a text a block whose lines neither a terminal nor a manual page joins.
func indent(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    ") + "\n"
}

// version is the version of the module that the program was built from.
func version() string {
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return "unknown"
	}
	return cmp.Or(info.Main.Version, "unknown")
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		Run: func(*cobra.Command, []string) { printf("redlatch version %s\n", version()) },
	}
}

func manCommand() *cobra.Command {
	return &cobra.Command{
		Use: "man DIRECTORY", Short: "Write manual pages into a directory", Args: oneArgument("DIRECTORY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			root.Long += "\n\nExit codes:\n\n" + indent(exitTable())
			return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "redlatch " + version(), Manual: "redlatch"}, args[0])
		},
	}
}

// oneArgument checks for one argument.
func oneArgument(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("%s is missing", name)
		}
		return atMostOne(name)(cmd, args)
	}
}

func atMostOne(name string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usagef("unexpected argument %q after %s", args[1], name)
		}
		return nil
	}
}

// inspecting makes the function of a command that looks at locks. do gets the argument, or "".
func (p *program) inspecting(do func(ctx context.Context, i *inspect.Inspector, argument string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		client, err := p.open(cmd.Flags())
		if err != nil {
			return err
		}
		defer func() { _ = client.Close() }()
		return do(cmd.Context(), inspect.New(client, inspect.Prefix(p.prefix)), strings.Join(args, ""))
	}
}

// printf writes a result. There is nothing to do about an error.
func printf(format string, args ...any) { _, _ = fmt.Fprintf(os.Stdout, format, args...) }
