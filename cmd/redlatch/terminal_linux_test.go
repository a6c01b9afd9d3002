package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/internal/redistest"
)

// screen is a terminal, from the side of the person at it.
type screen struct {
	keys *os.File

	mu   sync.Mutex
	text strings.Builder
}

func (s *screen) shown() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (s *screen) shows(t *testing.T, text string) {
	t.Helper()
	eventually(t, text, func() bool { return strings.Contains(s.shown(), text) })
}

func (s *screen) press(t *testing.T, keys string) {
	t.Helper()
	_, err := s.keys.WriteString(keys)
	require.NoError(t, err)
}

// atTerminal has a call run in the foreground of a terminal of its own.
func (c *call) atTerminal(t *testing.T) *screen {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0))
	require.NoError(t, unix.IoctlSetWinsize(int(keys.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 240}))
	n, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = tty, tty, tty
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	c.start(t)
	require.NoError(t, tty.Close())
	s, read := &screen{keys: keys}, make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 4096)
		for {
			n, err := keys.Read(buf)
			s.mu.Lock()
			s.text.Write(buf[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		<-c.ended
		_ = keys.Close()
		<-read
	})
	return s
}

// The command reads what is typed, is not put aside by Ctrl-Z, and ends with Ctrl-C.
func TestTerminal_RunAtATerminal(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := prepare(t, s.Addr(), "run", "typed", "--", "sh", "-c", `read line; echo "got $line"; while :; do read more; echo "more $more"; done`)
	at := c.atTerminal(t)
	at.press(t, "hello\n")
	at.shows(t, "got hello")
	at.press(t, "\x1a")
	at.shows(t, "cannot be put aside")
	at.press(t, "again\n")
	at.shows(t, "more again")
	at.press(t, "\x03")
	assert.Equal(t, 130, c.code(t))
	free(t, s.Client(t), "typed")
}

func TestTerminal_ProgressAtATerminal(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	client := s.Client(t)
	holder := start(t, s.Addr(), "run", "--name", "nightly", "progress", "--", "sleep", "1000")
	held(t, client, "progress")
	c := prepare(t, s.Addr(), "run", "progress", "--", "true")
	at := c.atTerminal(t)
	at.shows(t, "waiting for progress, 1s")
	at.shows(t, "; 1 of 1 in the queue; held by ")
	at.shows(t, fmt.Sprintf(":%d for ", holder.cmd.Process.Pid))
	at.shows(t, ": nightly")
	at.press(t, "\x03")
	assert.Equal(t, 130, c.code(t))
	eventually(t, "the line is gone", func() bool { return strings.HasSuffix(at.shown(), "\r\x1b[K") })
	holder.signal(t, syscall.SIGTERM)
	holder.code(t)
}

// Who waits for a permit sees up to how many run beside the holder.
func TestTerminal_ProgressAtATerminalSaysTheLimit(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	client := s.Client(t)
	export := func(args ...string) []string {
		return append([]string{"run", "--limit", "2", "--name", "export", "limited progress", "--"}, args...)
	}
	var inside []*call
	for n := range 2 {
		inside = append(inside, start(t, s.Addr(), export("sleep", "1000")...))
		eventually(t, "they run", func() bool {
			info, err := inspect.New(client).Get(t.Context(), "limited progress")
			return err == nil && len(info.Holders) == n+1
		})
	}
	c := prepare(t, s.Addr(), export("true")...)
	at := c.atTerminal(t)
	at.shows(t, "; 1 of 1 in the queue; 2 hold it (limit 2)")
	at.press(t, "\x03")
	assert.Equal(t, 130, c.code(t))

	inside[0].signal(t, syscall.SIGTERM)
	inside[0].code(t)
	c = prepare(t, s.Addr(), "run", "limited progress", "--", "true") // alone
	at = c.atTerminal(t)
	at.shows(t, "; 1 of 1 in the queue; held by ")
	at.shows(t, ": export (limit 2)")
	at.press(t, "\x03")
	assert.Equal(t, 130, c.code(t))
	inside[1].signal(t, syscall.SIGTERM)
	inside[1].code(t)
	free(t, client, "limited progress")
}

func TestTerminal_BreakAsksAtATerminal(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	lease := hold(t, s, "asked")
	for _, no := range []string{"n\n", "\n", "\x04"} {
		c := prepare(t, s.Addr(), "break", "asked")
		at := c.atTerminal(t)
		at.shows(t, "Break it? [y/N]")
		at.press(t, no)
		assert.Equal(t, 1, c.code(t), "%q", no)
		require.NoError(t, lease.Err())
		held(t, s.Client(t), "asked")
	}
	c := prepare(t, s.Addr(), "break", "asked")
	at := c.atTerminal(t)
	at.shows(t, "Break it? [y/N]")
	at.press(t, "y\n")
	assert.Zero(t, c.code(t))
	free(t, s.Client(t), "asked")
}

func TestTerminal_ForgetAsksAtATerminal(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := s.Client(t)
	unfinished(t, client, "asked")
	for _, no := range []string{"n\n", "\n", "\x04"} {
		c := prepare(t, s.Addr(), "forget", "asked")
		at := c.atTerminal(t)
		at.shows(t, "its record: unfinished since ")
		at.shows(t, "Forget it? [y/N]")
		at.press(t, no)
		assert.Equal(t, 1, c.code(t), "%q", no)
		assert.EqualValues(t, 1, client.Exists(t.Context(), "guard:{asked}:once").Val())
	}
	c := prepare(t, s.Addr(), "forget", "asked")
	at := c.atTerminal(t)
	at.shows(t, "Forget it? [y/N]")
	at.press(t, "y\n")
	assert.Zero(t, c.code(t))
	assert.Zero(t, client.Exists(t.Context(), "guard:{asked}:once").Val())
}

// While a person reads the question, the work may be done after all. That result is not what was shown.
func TestTerminal_ForgetDeletesNoRecordThatWasNotShown(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := s.Client(t)
	for key, since := range map[string]string{
		"done since": "1 done 7 0 0123456789abcdef-1 - 1700000000000000 0 42", "begun since": "1 begun 8 7 0123456789abcdef-2 - 1700000000000000 0 ",
	} {
		unfinished(t, client, key)
		c := prepare(t, s.Addr(), "forget", key)
		at := c.atTerminal(t)
		at.shows(t, "Forget it? [y/N]")
		require.NoError(t, client.Set(t.Context(), "guard:{"+key+"}:once", since, time.Hour).Err())
		at.press(t, "y\n")
		assert.Equal(t, 1, c.code(t), key)
		at.shows(t, "another record by now: nothing was done")
		assert.Equal(t, since, client.Get(t.Context(), "guard:{"+key+"}:once").Val(), key)
	}
}
