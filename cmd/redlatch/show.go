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

const listAbout = `List the locks that are held: who holds them, for how long, and how many processes wait.

MATCH is a glob for the whole key: * is any text, ? one character, [a-z] one of several. LEFT is the rest of the
lease, which a live holder renews. WHAT is a text of the holder. With --json, each line is an object.

redlatch asks with SCAN over all keys of the Redis: do not poll it. For a view that is always open, package guardweb
has a page.`

func (p *program) listCommand() *cobra.Command {
	return &cobra.Command{
		Use: "ls [MATCH]", Short: "List the locks that are held", Long: listAbout, Example: "  redlatch ls 'order:*' --json",
		SuggestFor: []string{"list", "locks", "get", "watch", "top"}, Args: atMostOne("MATCH"), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: p.inspecting(p.list),
	}
}

func (p *program) showCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show KEY", Short: "Show who holds a lock, who waits for it, and its record",
		SuggestFor: []string{"info", "describe", "inspect", "status", "get", "who", "holder"},
		Args:       oneArgument("KEY"), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: p.inspecting(p.show),
	}
}

// get asks for one lock.
func get(ctx context.Context, i *inspect.Inspector, key string) (inspect.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	return i.Get(ctx, key)
}

// collect returns the locks that match, sorted by key. If a value is not a lock, it prints a message, and broken is true.
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
		writeTable(os.Stdout, locks, match, columns())
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

// writeLock writes everything about a lock.
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
		_, _ = fmt.Fprintln(w, "no process waits")
		return
	case info.Queued == 0: // Redis does not know the callers that wait in the holder's own process
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

// writeRecord writes the record of guard.Once, or of run --once.
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

// what returns the metadata of a holder, and the kind of its hold.
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

// mode returns how many may hold the lock at the same time.
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

// age returns the time since, by the server's clock.
func age(now, since time.Time) string {
	if since.IsZero() {
		return "?"
	}
	return round(max(0, now.Sub(since)))
}

func round(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// visible quotes a text of others that could steer the terminal.
func visible(text string) string {
	if quoted := strconv.Quote(text); quoted != `"`+text+`"` || text != strings.TrimSpace(text) {
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
	line, _ := json.Marshal(value) // plain fields cannot fail
	printf("%s\n", line)
}
