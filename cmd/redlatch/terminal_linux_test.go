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
)

// screen is a terminal, from the side of its user.
type screen struct {
	*call

	keys *os.File

	mu   sync.Mutex
	text strings.Builder
}

func (s *screen) shown() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (s *screen) shows(texts ...string) *screen {
	s.Helper()
	for _, text := range texts {
		s.eventually(text, func() bool { return strings.Contains(s.shown(), text) })
	}
	return s
}

func (s *screen) press(keys string) *screen {
	s.Helper()
	_, err := s.keys.WriteString(keys)
	require.NoError(s, err)
	return s
}

// atTerminal runs a call in the foreground of a new terminal.
func (r *env) atTerminal(args ...string) *screen {
	r.Helper()
	c := r.prepare(args...)
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(r, err)
	require.NoError(r, unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0))
	require.NoError(r, unix.IoctlSetWinsize(int(keys.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 240}))
	n, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	require.NoError(r, err)
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(r, err)
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = tty, tty, tty
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	c.start()
	require.NoError(r, tty.Close())
	s, read := &screen{call: c, keys: keys}, make(chan struct{})
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
	r.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		<-c.ended
		_ = keys.Close()
		<-read
	})
	return s
}

// The command reads from the terminal, Ctrl-Z does not stop it, and Ctrl-C ends it.
func TestTerminal_RunAtATerminal(t *testing.T) {
	r := shared(t)
	at := r.atTerminal("run", "typed", "--", "sh", "-c", `read line; echo "got $line"; while :; do read more; echo "more $more"; done`)
	at.press("hello\n").shows("got hello").press("\x1a").shows("cannot be stopped").press("again\n").shows("more again").press("\x03").ends(130)
	r.free("typed")
}

// A command that waits tells its user why.
func TestTerminal_AWaitingCommandNamesTheHolder(t *testing.T) {
	r := own(t)
	holder := r.start("run", "--name", "nightly", "k", "--", "sleep", "1000")
	r.held("k")
	at := r.atTerminal("run", "k", "--", "true")
	at.shows("redlatch: waiting for k; held by ", fmt.Sprintf(":%d for ", holder.cmd.Process.Pid), ": nightly").press("\x03").ends(130)
	holder.signal(syscall.SIGTERM).ends(143)
	r.holds("bare")
	at = r.atTerminal("run", "bare", "--", "true").shows("waiting for bare; held by ")
	assert.Regexp(t, `held by \S+ for \S+s\r\n$`, at.shown())
	at.press("\x03").ends(130)
}

func TestTerminal_TheListIsAsWideAsTheTerminal(t *testing.T) {
	r := own(t)
	r.holds("order:" + strings.Repeat("payment-", 50))
	r.atTerminal("ls").shows("…").ends(0)
}

func TestTerminal_BreakAndForgetAskAtATerminal(t *testing.T) {
	r := own(t)
	r.holds("k")
	r.unfinished("k")
	for verb, question := range map[string]string{"break": "Break it? [y/N]", "forget": "Forget it? [y/N]"} {
		key := map[string]string{"break": "redlatch:{k}", "forget": "redlatch:{k}:once"}[verb]
		for _, no := range []string{"n\n", "\n", "\x04"} {
			r.atTerminal(verb, "k").shows(question).press(no).ends(1)
			assert.EqualValues(t, 1, r.rdb.Exists(t.Context(), key).Val())
		}
		at := r.atTerminal(verb, "k").shows(question).press("y\n")
		at.ends(0)
		assert.Zero(t, r.rdb.Exists(t.Context(), key).Val())
		if verb == "forget" {
			assert.Contains(t, at.shown(), "record: unfinished ")
		}
	}
}

// A record of work in progress cannot be deleted, so nothing is asked.
func TestTerminal_ForgetOfWorkInProgress(t *testing.T) {
	r := own(t)
	holder := r.start("run", "--once", "1h", "k", "--", "sleep", "1000")
	r.held("k")
	at := r.atTerminal("forget", "k")
	at.ends(75)
	assert.NotContains(t, at.shown(), "Forget it?")
	holder.signal(syscall.SIGTERM).ends(143)
}

// While a user reads the question, another call may finish the work. Its record was not shown.
func TestTerminal_ForgetDeletesNoRecordThatWasNotShown(t *testing.T) {
	r := own(t)
	for key, since := range map[string]string{
		"done since": "1 done 7 0 0123456789abcdef-1 - 1700000000000000 0 42", "begun since": "1 begun 8 7 0123456789abcdef-2 - 1700000000000000 0 ",
	} {
		r.unfinished(key)
		at := r.atTerminal("forget", key).shows("Forget it? [y/N]")
		require.NoError(t, r.rdb.Set(t.Context(), "redlatch:{"+key+"}:once", since, time.Hour).Err())
		at.press("y\n").ends(1)
		at.shows("another record by now: nothing was done")
		assert.Equal(t, since, r.rdb.Get(t.Context(), "redlatch:{"+key+"}:once").Val(), key)
	}
	r.unfinished("deleted since")
	at := r.atTerminal("forget", "deleted since").shows("Forget it? [y/N]")
	require.NoError(t, r.rdb.Del(t.Context(), "redlatch:{deleted since}:once").Err())
	at.press("y\n").ends(1)
	at.shows("deleted since has no record")
}
