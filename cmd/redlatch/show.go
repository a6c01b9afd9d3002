package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch/guard/inspect"
)

// answerTime bounds the questions about one lock.
const answerTime = 10 * time.Second

const matchHelp = `

MATCH is a glob: * is any text, ? one character, [a-z] one of some. redlatch asks with SCAN over all keys
of the Redis: do not poll it. Package guardweb is a page for a view that is always open.`

func (p *program) listCommand() *cobra.Command {
	return &cobra.Command{
		Use: "ls [MATCH]", Short: "list the locks that are held",
		Long: "List the locks that are held: who holds them, for how long, and how many processes wait." + matchHelp + `
With --json, each line is an object.`,
		Example:    "  redlatch ls 'order:*' --json",
		SuggestFor: []string{"list", "locks", "get"}, Args: atMostOne("MATCH"), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: p.inspecting(p.list),
	}
}

func (p *program) showCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show KEY", Short: "show who holds a lock, who waits for it, and its record",
		SuggestFor: []string{"info", "describe", "inspect", "status", "get", "who", "holder"},
		Args:       oneArgument("KEY"), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: p.inspecting(p.show),
	}
}

func (p *program) watchCommand() *cobra.Command {
	every := duration(2 * time.Second)
	cmd := &cobra.Command{
		Use: "watch [MATCH]", Short: "list the locks that are held, again and again",
		Long: "List the locks that are held, until Ctrl-C." + matchHelp + `
With --json, each line is an array.`,
		SuggestFor: []string{"top", "follow", "monitor"}, Args: atMostOne("MATCH"), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: p.inspecting(func(ctx context.Context, i *inspect.Inspector, match string) error {
			if every < duration(100*time.Millisecond) {
				return usagef("--interval %v is less than 100ms", &every)
			}
			return p.watch(ctx, i, match, time.Duration(every))
		}),
	}
	cmd.Flags().Var(&every, "interval", "time between two lists, at least 100ms")
	return cmd
}

// get asks for one lock.
func get(ctx context.Context, i *inspect.Inspector, key string) (inspect.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	return i.Get(ctx, key)
}

// collect returns the locks that match, by key. If a key is not a lock, it prints that, and broken is true.
func (p *program) collect(ctx context.Context, i *inspect.Inspector, match string) (locks []inspect.Info, broken bool, err error) {
	for info, err := range i.All(ctx, match) {
		var format *inspect.FormatError
		switch {
		case errors.As(err, &format):
			p.say(visible(format.Key)+": "+plain(err), 0)
			broken = true
		case err != nil:
			return nil, broken, err
		default:
			locks = append(locks, info)
		}
	}
	slices.SortFunc(locks, func(a, b inspect.Info) int { return cmp.Compare(a.Key, b.Key) })
	return locks, broken, nil
}

func (p *program) list(ctx context.Context, i *inspect.Inspector, match string) error {
	locks, broken, err := p.collect(ctx, i, match)
	if err != nil {
		return err
	}
	if p.json {
		for _, info := range locks {
			printJSON(toJSON(info))
		}
	} else {
		writeTable(os.Stdout, locks, columns())
	}
	if broken {
		return &exitError{Code: exitData}
	}
	return nil
}

func (p *program) show(ctx context.Context, i *inspect.Inspector, key string) error {
	info, err := get(ctx, i, key)
	if err != nil {
		return err
	}
	if p.json {
		printJSON(toJSON(info))
	} else {
		writeLock(os.Stdout, info)
	}
	return nil
}

// watch clears the screen before each list, at a terminal.
func (p *program) watch(ctx context.Context, i *inspect.Inspector, match string, every time.Duration) error {
	clearScreen := ""
	if terminalWidth(os.Stdout) > 0 {
		clearScreen = "\x1b[H\x1b[2J"
	}
	for ; ; time.Sleep(every) {
		locks, _, err := p.collect(ctx, i, match)
		if err != nil {
			return err
		}
		if p.json {
			all := []lockJSON{}
			for _, info := range locks {
				all = append(all, toJSON(info))
			}
			printJSON(all)
			continue
		}
		var screen strings.Builder
		_, _ = fmt.Fprintf(&screen, "%s%s  every %v, Ctrl-C ends it\n", clearScreen, time.Now().Format(time.TimeOnly), every)
		writeTable(&screen, locks, columns())
		printf("%s\n", screen.String())
	}
}

// writeLock writes all there is to know about a lock.
func writeLock(w io.Writer, info inspect.Info) {
	if len(info.Holders) == 0 {
		_, _ = fmt.Fprintf(w, "%s is free\n", visible(info.Key))
	}
	for _, h := range info.Holders {
		_, _ = fmt.Fprintf(w, "%s is held by %s for %s\n", visible(info.Key), visible(h.Instance), age(info.Now, h.Since))
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintf(table, "  fence\t%d\n  left\t%s\n  calls\t%d\n", h.Fence, left(h.Left), h.Depth)
		if text := what(h); text != "" {
			_, _ = fmt.Fprintf(table, "  what\t%s\n", text)
		}
		_ = table.Flush()
	}
	writeRecord(w, info)
	if info.LastFence > 0 {
		_, _ = fmt.Fprintf(w, "last fence  %d\n", info.LastFence)
	}
	switch {
	case info.Queued == 0 && len(info.Holders) == 0:
		_, _ = fmt.Fprintln(w, "nobody waits")
		return
	case info.Queued == 0: // Redis does not know whether callers of the holder's own process do
		_, _ = fmt.Fprintln(w, "no other process waits")
		return
	}
	_, _ = fmt.Fprintf(w, "%d waiting\n", info.Queued)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for n, waiter := range info.Waiting {
		_, _ = fmt.Fprintf(table, "  %d.\t%s\tfor %s%s\n", n+1, visible(waiter.Instance), age(info.Now, waiter.Since), mode(waiter.Limit))
	}
	if more := info.Queued - len(info.Waiting); more > 0 {
		_, _ = fmt.Fprintf(table, "\tand %d more\n", more)
	}
	_ = table.Flush()
}

// writeRecord writes the record that guard.Once, or run --once, made under a key.
func writeRecord(w io.Writer, info inspect.Info) {
	r := info.Record
	if r == nil {
		return
	}
	if r.State == damaged {
		_, _ = fmt.Fprintln(w, "record: damaged")
		return
	}
	state := fmt.Sprintf("%s %s ago", r.State, age(info.Now, r.Since))
	if r.State == inspect.RecordInProgress {
		state = fmt.Sprintf("%s for %s", r.State, age(info.Now, r.Since))
	}
	if r.Instance != "" {
		state += " by " + visible(r.Instance)
	}
	_, _ = fmt.Fprintf(w, "record: %s\n", state)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(table, "  fence\t%d\n  left\t%s\n", r.Fence, left(r.Left))
	if r.State == inspect.RecordDone {
		_, _ = fmt.Fprintf(table, "  result\t%d bytes\n", r.Size)
	}
	if r.Metadata != "" {
		_, _ = fmt.Fprintf(table, "  what\t%s\n", visible(r.Metadata))
	}
	_ = table.Flush()
}

// what is what a holder said of itself, and what kind of hold it has.
func what(h inspect.Holder) string {
	text := visible(h.Metadata) + mode(h.Limit)
	if h.Depth == 0 {
		text += " (done, its MinHold has not ended)"
	}
	if h.Revoked {
		text += " (revoked)"
	}
	return strings.TrimSpace(text)
}

// mode says beside how many others somebody may be.
func mode(limit int) string {
	switch limit {
	case 0:
		return " (shared)"
	case 1:
		return ""
	}
	return fmt.Sprintf(" (limit %d)", limit)
}

func left(d time.Duration) string {
	if d == 0 {
		return "no end"
	}
	return round(d)
}

// age is by the server's clock.
func age(now, since time.Time) string {
	if since.IsZero() {
		return "?"
	}
	return round(max(0, now.Sub(since)))
}

func round(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	default:
		return d.Round(time.Second).String()
	}
}

// visible keeps what others wrote from steering the terminal.
func visible(text string) string {
	if quoted := strconv.Quote(text); quoted != `"`+text+`"` || strings.ContainsAny(text, " ") && text != strings.TrimSpace(text) {
		return quoted
	}
	return text
}

type lockJSON struct {
	Key       string       `json:"key"`
	Holders   []holderJSON `json:"holders"`
	Waiting   []waiterJSON `json:"waiting"`
	Queued    int          `json:"queued"`
	Record    *recordJSON  `json:"record,omitempty"`
	LastFence uint64       `json:"last_fence"`
	Now       time.Time    `json:"now"`
}

type holderJSON struct {
	Instance string    `json:"instance"`
	Metadata string    `json:"metadata"`
	Since    time.Time `json:"since,omitzero"`
	Left     float64   `json:"left"` // seconds
	Fence    uint64    `json:"fence"`
	Depth    int       `json:"depth"`
	Limit    int       `json:"limit"`
	Revoked  bool      `json:"revoked"`
}

type waiterJSON struct {
	Instance string    `json:"instance"`
	Since    time.Time `json:"since"`
	Asked    time.Time `json:"asked,omitzero"`
	Limit    int       `json:"limit"`
	Front    bool      `json:"front"`
}

type recordJSON struct {
	State    inspect.RecordState `json:"state"`
	Instance string              `json:"instance"`
	Metadata string              `json:"metadata"`
	Since    time.Time           `json:"since"`
	Left     float64             `json:"left"` // seconds
	Fence    uint64              `json:"fence"`
	Size     int                 `json:"size"` // of the result, in bytes
}

func toJSON(info inspect.Info) lockJSON {
	l := lockJSON{
		Key: info.Key, Holders: []holderJSON{}, Waiting: []waiterJSON{},
		Queued: info.Queued, LastFence: info.LastFence, Now: info.Now.UTC(),
	}
	for _, h := range info.Holders {
		l.Holders = append(l.Holders, holderJSON{
			h.Instance, h.Metadata, h.Since.UTC(), h.Left.Seconds(), h.Fence, h.Depth, h.Limit, h.Revoked,
		})
	}
	for _, w := range info.Waiting {
		l.Waiting = append(l.Waiting, waiterJSON{w.Instance, w.Since.UTC(), w.Asked.UTC(), w.Limit, w.Front})
	}
	if r := info.Record; r != nil {
		l.Record = &recordJSON{r.State, r.Instance, r.Metadata, r.Since.UTC(), r.Left.Seconds(), r.Fence, r.Size}
	}
	return l
}

func printJSON(value any) {
	line, _ := json.Marshal(value) // of plain fields: it cannot fail
	printf("%s\n", line)
}
