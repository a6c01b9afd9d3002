// Command recording runs the orders example with and without locks, and draws what the
// terminal shows, line by line and at the pace of the run, into docs/orders.svg:
//
//	make recording
package main

import (
	"bufio"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// line is what the terminal shows from a moment of the run on.
type line struct {
	at   time.Duration
	text string
}

func main() {
	if err := run(); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}

func run() error {
	dir, err := os.MkdirTemp("", "recording")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program := filepath.Join(dir, "orders")
	if out, err := exec.Command("go", "build", "-o", program, "./examples/orders").CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	var all []line
	for _, flags := range [][]string{nil, {"-unguarded"}} {
		var begin time.Duration
		if len(all) > 0 {
			begin = all[len(all)-1].at + time.Second
			all = append(all, line{begin, ""})
		}
		all = append(all, line{begin, strings.Join(append([]string{"$ go run ./examples/orders"}, flags...), " ")})
		shown, err := record(program, flags, begin+500*time.Millisecond)
		if err != nil {
			return err
		}
		all = append(all, shown...)
	}
	return os.WriteFile("docs/orders.svg", []byte(draw(all)), 0o644) //nolint:gosec // public
}

// record runs the program and notes when it wrote which line. Exit code 1 is that of a run
// that charged too often.
func record(program string, flags []string, begin time.Duration) ([]line, error) {
	cmd := exec.Command(program, flags...) //nolint:gosec // our own
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = cmd.Stdout
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var shown []line
	for lines := bufio.NewScanner(out); lines.Scan(); {
		shown = append(shown, line{begin + time.Since(start), lines.Text()})
	}
	if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() != 1 {
		return nil, err
	}
	return shown, nil
}

const (
	lineHeight = 18
	top        = 30
)

// draw lets each line appear at its moment. Whoever does not want things to move sees all of them at once.
func draw(all []line) string {
	var b strings.Builder
	height := top + lineHeight*len(all) + 10
	_, _ = fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="860" height="%d" viewBox="0 0 860 %d" `+
		`font-family="monospace" font-size="14" fill="#d8dee9">`+"\n", height, height)
	b.WriteString("<title>The orders example, with and without locks</title>\n" +
		"<style>@media (prefers-reduced-motion: no-preference) { text { opacity: 0; animation: show 0.01s forwards } }\n" +
		"@keyframes show { to { opacity: 1 } }</style>\n")
	_, _ = fmt.Fprintf(&b, `<rect width="860" height="%d" rx="8" fill="#20242c"/>`+"\n", height)
	for i, l := range all {
		_, _ = fmt.Fprintf(&b, `<text x="16" y="%d" xml:space="preserve" fill="%s" style="animation-delay:%.2fs">%s</text>`+"\n",
			top+lineHeight*i, colour(l.text), l.at.Seconds(), html.EscapeString(l.text))
	}
	return b.String() + "</svg>\n"
}

// colour marks what was typed and what went wrong.
func colour(text string) string {
	switch {
	case strings.HasPrefix(text, "$"):
		return "#88c0d0"
	case strings.Contains(text, "too many"), strings.Contains(text, "off by"), strings.Contains(text, "WITHOUT"):
		return "#e5877a"
	case strings.Contains(text, "exactly once"):
		return "#a3be8c"
	}
	return "#d8dee9"
}
