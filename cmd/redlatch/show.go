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

	"github.com/spf13/pflag"

	"github.com/redlatch/redlatch/guard/inspect"
)

// answerTime bounds the questions about one lock.
const answerTime = 10 * time.Second

var (
	lsCommand = command{
		name: "ls", args: "[MATCH]",
		about: `list the locks that are held

MATCH is a glob: * is any text, ? one character, [a-z] one of some. It goes by SCAN over all
keys of the Redis. With --json there is one object a line.`,
		make: func(*pflag.FlagSet) action { return list },
	}
	showCommand = command{
		name: "show", args: "KEY", about: "show who holds a lock, who waits for it, and its record",
		make: func(*pflag.FlagSet) action { return show },
	}
	watchCommand = command{
		name: "watch", args: "[MATCH]",
		about: `list the locks that are held, again and again

Each time is a SCAN over all keys of the Redis: a page that is always there is better made
with package guardweb. With --json there is one array a line.`,
		make: func(fs *pflag.FlagSet) action {
			w := &watch{every: duration(2 * time.Second)}
			fs.Var(&w.every, "interval", "the time between two looks, at least 100ms")
			fs.IntVar(&w.times, "count", 0, "end after that many looks; 0 is never")
			return w.do
		},
	}
)

// inspector opens the Redis that is meant. close ends it.
func (p *program) inspector() (i *inspect.Inspector, closing func(), err error) {
	client, err := p.open()
	if err != nil {
		return nil, nil, err
	}
	return inspect.New(client, inspect.Prefix(p.prefix)), func() { _ = client.Close() }, nil
}

// oneKey takes the arguments of a command that has a KEY alone.
func oneKey(args []string) (string, error) {
	switch len(args) {
	case 0:
		return "", usagef("KEY is missing")
	case 1:
		return args[0], nil
	}
	return "", usagef("unexpected argument %q after KEY; flags stand before it", args[1])
}

func oneMatch(args []string) (string, error) {
	switch len(args) {
	case 0:
		return "", nil
	case 1:
		return args[0], nil
	}
	return "", usagef("unexpected argument %q after MATCH; flags stand before it", args[1])
}

// collect gives the locks that match, by key. Where a key is no lock, it prints that, and broken is true.
func (p *program) collect(ctx context.Context, i *inspect.Inspector, match string) (locks []inspect.Info, broken bool, err error) {
	for info, err := range i.All(ctx, match) {
		var format *inspect.FormatError
		switch {
		case errors.As(err, &format):
			p.say(fmt.Sprintf("%s: %v", visible(format.Key), err), 0)
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

func list(ctx context.Context, p *program, args []string) error {
	match, err := oneMatch(args)
	if err != nil {
		return err
	}
	i, closing, err := p.inspector()
	if err != nil {
		return err
	}
	defer closing()
	locks, broken, err := p.collect(ctx, i, match)
	if err != nil {
		return err
	}
	if p.json {
		for _, info := range locks {
			p.printJSON(toJSON(info))
		}
	} else {
		writeTable(p.stdout, locks, p.columns())
	}
	if broken {
		return &exitError{Code: exitData}
	}
	return nil
}

func show(ctx context.Context, p *program, args []string) error {
	key, err := oneKey(args)
	if err != nil {
		return err
	}
	i, closing, err := p.inspector()
	if err != nil {
		return err
	}
	defer closing()
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	info, err := i.Get(ctx, key)
	if err != nil {
		return err
	}
	if p.json {
		p.printJSON(toJSON(info))
	} else {
		writeLock(p.stdout, info)
	}
	return nil
}

type watch struct {
	every duration
	times int
}

func (w *watch) do(ctx context.Context, p *program, args []string) error {
	match, err := oneMatch(args)
	switch {
	case err != nil:
		return err
	case time.Duration(w.every) < 100*time.Millisecond:
		return usagef("--interval %v is less than 100ms", time.Duration(w.every))
	case w.times < 0:
		return usagef("--count %d is negative", w.times)
	}
	i, closing, err := p.inspector()
	if err != nil {
		return err
	}
	defer closing()
	tick := time.NewTicker(time.Duration(w.every))
	defer tick.Stop()
	for n := 1; ; n++ {
		locks, _, err := p.collect(ctx, i, match)
		if err != nil {
			return err
		}
		w.write(p, locks, n)
		if n == w.times {
			return nil
		}
		<-tick.C
	}
}

// write takes the place of what it wrote before, at a terminal.
func (w *watch) write(p *program, locks []inspect.Info, n int) {
	if p.json {
		all := []lockJSON{}
		for _, info := range locks {
			all = append(all, toJSON(info))
		}
		p.printJSON(all)
		return
	}
	var screen strings.Builder
	f, ok := p.stdout.(*os.File)
	switch {
	case ok && terminalWidth(f) > 0:
		screen.WriteString("\x1b[H\x1b[2J")
	case n > 1:
		screen.WriteString("\n")
	}
	_, _ = fmt.Fprintf(&screen, "%s  every %v, Ctrl-C ends it\n", time.Now().Format(time.TimeOnly), time.Duration(w.every))
	writeTable(&screen, locks, p.columns())
	p.print("%s", screen.String())
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

// writeRecord writes what guard.Once, or run --once, recorded of a key.
func writeRecord(w io.Writer, info inspect.Info) {
	r := info.Record
	if r == nil {
		return
	}
	_, _ = fmt.Fprintf(w, "its record: %s since %s ago, by %s\n", r.State, age(info.Now, r.Since), visible(r.Instance))
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

func (p *program) printJSON(value any) {
	line, _ := json.Marshal(value) // of plain fields: it cannot fail
	p.print("%s\n", line)
}
