package redisconn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	resp "github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fakeServer answers as a test says, in virtual time. A script of these tests is known by its first argument.
type fakeServer struct {
	*resp.Server
	answer func(p *resp.Peer, command, of string)

	mu    sync.Mutex
	sent  []string // scripts and WAIT, in order
	dials int
}

// onFakeServer runs a test with a Client of a fakeServer. Nothing is left open when it has been closed.
func onFakeServer(t *testing.T, o Options, test func(t *testing.T, s *fakeServer, c *Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{Server: resp.NewServerConn()}
		s.answer = func(p *resp.Peer, _, of string) { p.WriteInline("did " + of) }
		s.SetPreHook(func(p *resp.Peer, command string, args ...string) bool {
			var of string
			switch command {
			case "EVALSHA", "EVAL":
				of = args[len(args)-1]
			case "WAIT", "ECHO":
				of = strings.Join(args, " ")
			default:
				return false // as the handshake: it is not known
			}
			s.mu.Lock()
			s.sent = append(s.sent, command+" "+of)
			s.mu.Unlock()
			s.answer(p, command, of)
			return true
		})
		user := redis.NewClient(&redis.Options{
			Addr: "server", Protocol: 2, DisableIdentity: true, PoolSize: 20,
			Dialer: func(context.Context, string, string) (net.Conn, error) {
				s.mu.Lock()
				s.dials++
				s.mu.Unlock()
				ours, theirs := net.Pipe()
				s.ServeConn(theirs)
				return ours, nil
			},
		})
		if o.AttemptTimeout == 0 {
			o.AttemptTimeout = time.Second
		}
		c := Open(user, o)
		test(t, s, c)
		require.NoError(t, c.Close())
		synctest.Wait()
		assert.Zero(t, s.ClientsLen(), "connections after Close")
		require.NoError(t, user.Close())
	})
}

// scripts are those that were sent since the last call.
func (s *fakeServer) scripts() (sent []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sent, s.sent = s.sent, nil
	return sent
}

// of is a command that the fakeServer knows by a name.
func of(name string) Command { return NewScript("the script").With([]string{"key"}, name) }

var scriptOfMany = NewScriptOfMany("the script of many")

// batchedOf is a command that shares a call with others of its script.
func batchedOf(name string) Command { return scriptOfMany.With([]string{"a", "b"}, name) }

// acked is a command that replicas have to know of.
func acked(name string, w AckWait) Command {
	c := of(name)
	c.Acks = w
	return c
}

// together sends commands in one write, as callers' commands go out under load.
func together(ctx context.Context, c *Client, cmds []Command) []Reply {
	c.calls.active = inFlight
	replies := make([]Reply, len(cmds))
	var callers sync.WaitGroup
	for i, cmd := range cmds {
		callers.Go(func() { replies[i].Value, replies[i].Err = c.Do(ctx, cmd) })
		synctest.Wait()
	}
	c.calls.active = 1
	c.calls.exit()
	callers.Wait()
	synctest.Wait()
	return replies
}

func pipelined(ctx context.Context, c *Client, cmds []Command) []Reply { return c.Pipeline(ctx, cmds) }

var bothPaths = map[string]func(context.Context, *Client, []Command) []Reply{"together": together, "pipeline": pipelined}

var paths = map[string]func(ctx context.Context, c *Client) (any, error){
	"alone": func(ctx context.Context, c *Client) (any, error) { return c.Do(ctx, of("it")) },
	"in the queue": func(ctx context.Context, c *Client) (any, error) {
		r := together(ctx, c, []Command{of("it")})
		return r[0].Value, r[0].Err
	},
	"together": func(ctx context.Context, c *Client) (any, error) {
		r := together(ctx, c, []Command{of("it"), of("it")})
		if fmt.Sprint(r[1]) != fmt.Sprint(r[0]) {
			return r, io.ErrUnexpectedEOF
		}
		return r[0].Value, r[0].Err
	},
	"pipeline": func(ctx context.Context, c *Client) (any, error) {
		r := c.Pipeline(ctx, []Command{of("it")})
		return r[0].Value, r[0].Err
	},
	"acked": func(ctx context.Context, c *Client) (any, error) { return c.Do(ctx, acked("it", AckWait{N: 1})) },
}

// requireBroken checks that an error is of a connection that Redis closed.
func requireBroken(t *testing.T, err error) {
	t.Helper()
	require.True(t, errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe), "%v", err)
}

// A command is sent once, and once more in full if its script is not known: nothing else says that it did nothing.
func TestClient_SendsACommandOnce(t *testing.T) {
	for name, send := range paths {
		t.Run(name, func(t *testing.T) {
			onFakeServer(t, Options{}, func(t *testing.T, s *fakeServer, c *Client) {
				known := true
				s.answer = func(p *resp.Peer, command, of string) {
					switch {
					case command == "WAIT":
						p.WriteInt(1)
					case command == "EVALSHA" && !known:
						p.WriteError("NOSCRIPT No matching script")
					default:
						p.WriteInline("did " + of)
					}
				}
				for known = range map[bool]bool{true: true, false: true} {
					got, err := send(t.Context(), c)
					require.NoError(t, err)
					assert.Equal(t, "did it", got)
					sent := s.scripts()
					assert.Equal(t, !known, slices.Contains(sent, "EVAL it"), "known: %v", known)
				}
				s.answer = func(p *resp.Peer, _, _ string) { p.Close() }
				_, err := send(t.Context(), c)
				requireBroken(t, err)
				require.ErrorContains(t, err, "server: ")
				assert.LessOrEqual(t, len(s.scripts()), 2, "the reply was lost: the caller decides")
			})
		})
	}
}

// What Redis did not do as part of a batch goes by itself, once. What went unanswered does not.
func TestClient_ABatchThatIsNotDone(t *testing.T) {
	type replies = []any
	for name, test := range map[string]struct {
		batch func(p *resp.Peer, command string)
		want  replies
		sent  int
		loose bool // later ones go by themselves, too
	}{
		"done":         {batch: func(p *resp.Peer, _ string) { p.WriteLen(2); p.WriteInt(7); p.WriteInt(0) }, want: replies{int64(7), int64(0)}, sent: 1},
		"one is not":   {batch: func(p *resp.Peer, _ string) { p.WriteLen(2); p.WriteNull(); p.WriteInt(8) }, want: replies{"did x", int64(8)}, sent: 2},
		"no list":      {batch: func(p *resp.Peer, _ string) { p.WriteInt(1) }, want: replies{"did x", "did y"}, sent: 3},
		"short":        {batch: func(p *resp.Peer, _ string) { p.WriteLen(1); p.WriteInt(1) }, want: replies{"did x", "did y"}, sent: 3},
		"refused":      {batch: func(p *resp.Peer, _ string) { p.WriteError("ERR no") }, want: replies{"did x", "did y"}, sent: 3},
		"of no slot":   {batch: func(p *resp.Peer, _ string) { p.WriteError("CROSSSLOT Keys") }, want: replies{"did x", "did y"}, sent: 3, loose: true},
		"not answered": {batch: func(p *resp.Peer, _ string) { p.Close() }, want: replies{nil, nil}, sent: 1},
		"not known": {batch: func(p *resp.Peer, command string) {
			if command == "EVALSHA" {
				p.WriteError("NOSCRIPT No matching script")
				return
			}
			p.WriteLen(2)
			p.WriteInt(1)
			p.WriteInt(2)
		}, want: replies{int64(1), int64(2)}, sent: 2},
	} {
		t.Run(name, func(t *testing.T) {
			onFakeServer(t, Options{}, func(t *testing.T, s *fakeServer, c *Client) {
				for path, send := range bothPaths {
					c.apart.Store(false)
					first := true
					s.answer = func(p *resp.Peer, command, of string) {
						if first || command == "EVAL" {
							first = false
							test.batch(p, command)
							return
						}
						p.WriteLen(1)
						p.WriteInline("did " + of)
					}
					got := send(t.Context(), c, []Command{batchedOf("x"), batchedOf("y")})
					for i, want := range test.want {
						assert.Equal(t, want, got[i].Value, path)
						if want == nil {
							requireBroken(t, got[i].Err)
						} else {
							require.NoError(t, got[i].Err, path)
						}
					}
					assert.Len(t, s.scripts(), test.sent, path)
					assert.Equal(t, test.loose, c.apart.Load(), path)
				}
			})
		})
	}
}

// One command of many is refused: the others are done.
func TestClient_OneCommandOfACallIsRefused(t *testing.T) {
	onFakeServer(t, Options{}, func(t *testing.T, s *fakeServer, c *Client) {
		s.answer = func(p *resp.Peer, _, of string) {
			p.WriteLen(2)
			p.WriteError("WRONGTYPE it is")
			p.WriteInline("did " + of)
		}
		for path, send := range bothPaths {
			got := send(t.Context(), c, []Command{batchedOf("x"), batchedOf("y")})
			require.EqualError(t, got[0].Err, "WRONGTYPE it is", path)
			assert.Equal(t, Reply{"did y", nil}, got[1], path)
		}
		s.answer = func(p *resp.Peer, _, _ string) { p.WriteLen(1); p.WriteError("WRONGTYPE it is") }
		_, err := c.Do(t.Context(), batchedOf("x"))
		require.EqualError(t, err, "WRONGTYPE it is")
		s.answer = func(p *resp.Peer, _, _ string) { p.WriteLen(1); p.WriteNull() }
		_, err = c.Do(t.Context(), batchedOf("x"))
		require.ErrorContains(t, err, "unexpected reply")
	})
}

// Commands that share a write have replies of their own; one whose caller has left is not sent.
func TestClient_CommandsThatGoTogether(t *testing.T) {
	onFakeServer(t, Options{}, func(t *testing.T, s *fakeServer, c *Client) {
		s.answer = func(p *resp.Peer, command, of string) {
			if command == "EVALSHA" && of == "b" {
				p.WriteError("NOSCRIPT No matching script")
				return
			}
			p.WriteInline("did " + of)
		}
		for name, send := range bothPaths {
			got := send(t.Context(), c, []Command{of("a"), of("b"), of("c")})
			assert.Equal(t, []Reply{{"did a", nil}, {"did b", nil}, {"did c", nil}}, got, name)
			sent := s.scripts()
			assert.Equal(t, []string{"EVALSHA a", "EVALSHA b", "EVALSHA c"}, sent[:3], name)
			assert.Equal(t, "EVAL b", sent[len(sent)-1], name)
			assert.NotContains(t, sent[3:], "EVALSHA a", name)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		w := c.calls.newWaiter(ended, of("b"))
		c.calls.sendTogether([]*waiter{w})
		r := <-w.reply
		require.ErrorIs(t, r.Err, ErrNotSent)
		require.ErrorIs(t, r.Err, context.Canceled)
		assert.Empty(t, s.scripts())
		assert.Zero(t, c.calls.active)
		other := c.calls.newWaiter(t.Context(), of("c"))
		c.calls.sendTogether([]*waiter{c.calls.newWaiter(ended, of("a")), other})
		assert.Equal(t, Reply{"did c", nil}, <-other.reply)
	})
}

// A command is on its way to a Redis that does not answer: a deadline ends the call in time. A caller whose context
// is canceled leaves with the answer, or at the end of the attempt.
func TestClient_ACallerLeaves(t *testing.T) {
	const deadline = time.Millisecond
	for name, c := range map[string]struct {
		ends, canceled, answered, after time.Duration
		want                            error
	}{
		"its time is up":                          {ends: deadline, after: deadline, want: os.ErrDeadlineExceeded},
		"it is canceled, and Redis answers":       {canceled: deadline, answered: 300 * deadline, after: 300 * deadline},
		"it is canceled, and Redis is silent":     {canceled: deadline, after: time.Second, want: os.ErrDeadlineExceeded},
		"it is canceled, and its time is up then": {ends: 9 * deadline, canceled: deadline, after: 9 * deadline, want: os.ErrDeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			onFakeServer(t, Options{}, func(t *testing.T, s *fakeServer, conn *Client) {
				goOn := make(chan struct{})
				letGo := sync.OnceFunc(func() { close(goOn) })
				defer letGo()
				s.answer = func(p *resp.Peer, _, of string) { <-goOn; p.WriteInline("did " + of) }
				if c.answered > 0 {
					time.AfterFunc(c.answered, letGo)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.canceled > 0 {
					time.AfterFunc(c.canceled, cancel)
				}
				if c.ends > 0 {
					deadline, done := context.WithTimeout(ctx, c.ends)
					defer done()
					ctx = deadline
				}
				begun := time.Now()
				got, err := conn.Do(ctx, of("it"))
				assert.Equal(t, c.after, time.Since(begun))
				if c.want == nil {
					require.NoError(t, err)
					assert.Equal(t, "did it", got)
				} else {
					require.ErrorIs(t, err, c.want)
					require.ErrorContains(t, err, "server: ")
					require.NotErrorIs(t, err, ErrNotSent)
				}
				letGo()
				got, err = conn.Do(t.Context(), of("next"))
				require.NoError(t, err)
				assert.Equal(t, "did next", got)
				assert.Zero(t, conn.calls.active)
			})
		})
	}
}

// Nothing is sent, and nothing dialled, for a context that has ended.
func TestClient_AContextThatHasEnded(t *testing.T) {
	onFakeServer(t, Options{}, func(t *testing.T, s *fakeServer, c *Client) {
		ctx, end := context.WithCancel(t.Context())
		end()
		_, err := c.Do(ctx, of("it"))
		require.ErrorIs(t, err, ErrNotSent)
		require.ErrorIs(t, err, context.Canceled)
		assert.Zero(t, s.dials)
	})
}

// As many commands are on their way as may be, and Redis does not answer them. The next one waits in the queue until its
// deadline, or until its caller is canceled, and is not sent then.
func TestClient_ACommandInTheQueue(t *testing.T) {
	onFakeServer(t, Options{AttemptTimeout: time.Minute}, func(t *testing.T, s *fakeServer, c *Client) {
		goOn := make(chan struct{})
		s.answer = func(p *resp.Peer, _, of string) {
			if of == "slow" {
				<-goOn
			}
			p.WriteInline("did " + of)
		}
		var slow sync.WaitGroup
		for range inFlight {
			slow.Go(func() { _, _ = c.Do(t.Context(), of("slow")) })
			synctest.Wait()
		}
		ended, done := context.WithTimeout(t.Context(), time.Second)
		defer done()
		canceled, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		c.calls.timeout = time.Second // of a caller without a deadline
		for _, late := range []struct {
			ctx  context.Context
			want error
		}{{ended, context.DeadlineExceeded}, {canceled, context.Canceled}, {t.Context(), context.DeadlineExceeded}} {
			begun := time.Now()
			_, err := c.Do(late.ctx, of("late"))
			require.ErrorIs(t, err, late.want)
			require.ErrorIs(t, err, ErrNotSent)
			assert.LessOrEqual(t, time.Since(begun), time.Second)
		}
		next := make(chan any, 1)
		go func() {
			got, err := c.Do(t.Context(), of("next"))
			assert.NoError(t, err)
			next <- got
		}()
		synctest.Wait()
		close(goOn)
		assert.Equal(t, "did next", <-next)
		slow.Wait()
		synctest.Wait()
		assert.NotContains(t, s.scripts(), "EVALSHA late", "its caller has left")
		assert.Zero(t, c.calls.active)
	})
}

// What queued goes out in writes of no more than pipelineMost commands.
func TestClient_AWriteHasSoManyCommands(t *testing.T) {
	t.Parallel()
	c := &combiner{active: 1, queue: make([]*waiter, pipelineMost+1)}
	assert.Len(t, c.take(), pipelineMost)
	assert.Len(t, c.take(), 1)
	assert.Empty(t, c.take())
	assert.Zero(t, c.active)
}

func TestClient_ACallHasSoManyCommands(t *testing.T) {
	t.Parallel()
	which, cmds, one := make([]int, callMost+2), make([]*Command, callMost+2), NewScriptOfMany("return {}").With([]string{"k"})
	for i := range cmds {
		which[i], cmds[i] = i, &one
	}
	calls, parts := callsOf(cmds, which, false)
	require.Len(t, calls, 2)
	assert.Len(t, calls[0], callMost)
	assert.Equal(t, []int{callMost, callMost + 1}, parts[1])
	alone := NewScript("return {}").With([]string{"k"})
	calls, _ = callsOf([]*Command{&alone, &alone}, []int{0, 1}, false)
	assert.Len(t, calls, 2, "the script is for one command")
}

func TestClient_CloseEndsTheTasksAndReturnsErrors(t *testing.T) {
	t.Parallel()
	user := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer func() { require.NoError(t, user.Close()) }()
	c := Open(user, Options{AttemptTimeout: time.Second})
	require.NoError(t, c.calls.client.Close())
	require.ErrorIs(t, c.Close(), redis.ErrClosed)
	assert.False(t, c.tasks.Go(func() {}))
	require.NoError(t, c.Close())
}

// A command is on its way with others. Its caller gets the reply, though it is canceled, and leaves at its deadline.
func TestClient_ACallerLeavesACommonWrite(t *testing.T) {
	for name, test := range map[string]struct {
		ends time.Duration
		want any
		err  error
	}{
		"a reply comes":  {want: "did it"},
		"its time is up": {ends: time.Second / 2, err: context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			onFakeServer(t, Options{}, func(t *testing.T, s *fakeServer, c *Client) {
				goOn := make(chan struct{})
				letGo := sync.OnceFunc(func() { close(goOn) })
				defer letGo()
				s.answer = func(p *resp.Peer, _, of string) { <-goOn; p.WriteInline("did " + of) }
				if test.want != nil {
					time.AfterFunc(time.Second/2, letGo)
				}
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				if test.ends > 0 {
					deadline, done := context.WithTimeout(ctx, test.ends)
					defer done()
					ctx = deadline
				}
				time.AfterFunc(time.Second/4, leave)
				begun := time.Now()
				r := together(ctx, c, []Command{of("it")})[0]
				assert.Equal(t, test.want, r.Value)
				if test.err == nil {
					require.NoError(t, r.Err)
				} else {
					require.ErrorIs(t, r.Err, test.err)
					require.ErrorContains(t, r.Err, "server: ")
				}
				require.NotErrorIs(t, r.Err, ErrNotSent)
				assert.Equal(t, time.Second/2, time.Since(begun))
			})
		})
	}
}

// A caller leaves the queue at once, wherever it stands: its command is not sent.
func TestClient_ACallerLeavesTheQueue(t *testing.T) {
	onFakeServer(t, Options{}, func(t *testing.T, s *fakeServer, c *Client) {
		c.calls.active = inFlight
		canceled, cancel := context.WithCancelCause(t.Context())
		late, done := context.WithTimeout(t.Context(), time.Second/2)
		defer done()
		patient, end := context.WithTimeout(t.Context(), time.Hour)
		defer end()
		begun := time.Now()
		var callers sync.WaitGroup
		for _, caller := range []struct {
			ctx   context.Context
			why   error
			after time.Duration
		}{
			{t.Context(), context.DeadlineExceeded, time.Second}, // the time of an attempt
			{canceled, io.EOF, time.Millisecond},
			{late, context.DeadlineExceeded, time.Second / 2},
			{ctx: patient, after: time.Second},
		} {
			callers.Go(func() {
				got, err := c.Do(caller.ctx, of("it"))
				assert.Equal(t, caller.after, time.Since(begun))
				assert.ErrorIs(t, err, caller.why)
				assert.Equal(t, caller.why != nil, errors.Is(err, ErrNotSent))
				assert.Equal(t, caller.why == nil, got == "did it")
			})
			synctest.Wait()
		}
		time.AfterFunc(time.Millisecond, func() { cancel(io.EOF) })
		time.Sleep(time.Until(begun.Add(time.Second)))
		synctest.Wait()
		<-c.tasks.Close() // as when Close did not wait for callers
		c.calls.active = 1
		c.calls.exit()
		callers.Wait()
		assert.Equal(t, []string{"EVALSHA it"}, s.scripts())
		assert.Zero(t, c.calls.active)
	})
}

// A caller's command panics, as a hook of the user may: the write is counted out.
func TestClient_APanicOfAHookLeavesNothing(t *testing.T) {
	hook := func(client redis.UniversalClient) { client.AddHook(panics{}) }
	onFakeServer(t, Options{OnClient: hook}, func(t *testing.T, _ *fakeServer, c *Client) {
		assert.Panics(t, func() { _, _ = c.Do(t.Context(), of("it")) })
		assert.Zero(t, c.calls.active)
	})
}

type panics struct{}

func (panics) DialHook(next redis.DialHook) redis.DialHook { return next }
func (panics) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(context.Context, redis.Cmder) error { panic("a hook") }
}

func (panics) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A node of a cluster sends a client for one Redis elsewhere: the error says what to do.
func TestClient_ANodeOfAClusterNeedsAClusterClient(t *testing.T) {
	for name, send := range paths {
		onFakeServer(t, Options{}, func(t *testing.T, s *fakeServer, c *Client) {
			s.answer = func(p *resp.Peer, _, _ string) { p.WriteError("MOVED 15882 127.0.0.1:7001") }
			_, err := send(t.Context(), c)
			require.ErrorIs(t, err, ErrNeedsCluster, name)
			require.ErrorContains(t, err, "ClusterClient", name)
		})
	}
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	defer cluster.Close()
	require.NotErrorIs(t, (&link{client: cluster}).check(t.Context(), moved{}), ErrNeedsCluster, "it is one")
}

// moved is the answer of a node that does not serve a slot any more.
type moved struct{}

func (moved) Error() string { return "MOVED 15882 127.0.0.1:7001" }
func (moved) RedisError()   {}

// WAIT is sent along with the command, on its connection.
func TestClient_WaitsForReplicas(t *testing.T) {
	for name, test := range map[string]struct {
		wait func(p *resp.Peer)
		want string
		err  string
	}{
		"enough know": {func(p *resp.Peer) { p.WriteInt(2) }, "did it", ""},
		"too few":     {func(p *resp.Peer) { p.WriteInt(1) }, "did it", "1 of 2 replicas knew of the lock after 50ms"},
		"no number":   {func(p *resp.Peer) { p.WriteInline("many") }, "did it", "many of 2 replicas"},
		"refused":     {func(p *resp.Peer) { p.WriteError("ERR WAIT cannot be used") }, "did it", "waiting for replicas: ERR"},
	} {
		t.Run(name, func(t *testing.T) {
			onFakeServer(t, Options{}, func(t *testing.T, s *fakeServer, c *Client) {
				s.answer = func(p *resp.Peer, command, of string) {
					if command == "WAIT" {
						test.wait(p)
						return
					}
					p.WriteInline("did " + of)
				}
				got, err := c.Do(t.Context(), acked("it", AckWait{2, 50 * time.Millisecond}))
				assert.Equal(t, []string{"EVALSHA it", "WAIT 2 50"}, s.scripts())
				if test.err == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, test.err)
				}
				if test.want != "" {
					assert.Equal(t, test.want, got)
				}
			})
		})
	}
}

// A command after Close has a connection of its own, and no WAIT.
func TestClient_AfterClose(t *testing.T) {
	onFakeServer(t, Options{}, func(t *testing.T, s *fakeServer, c *Client) {
		for _, send := range []string{"alone", "pipeline", "acked"} {
			_, _ = paths[send](t.Context(), c)
		}
		require.NoError(t, c.Close())
		synctest.Wait()
		require.Zero(t, s.ClientsLen())
		s.scripts()
		for name, send := range map[string]func() (any, error){
			"a script": func() (any, error) { return c.Do(t.Context(), of("it")) },
			"acked":    func() (any, error) { return c.Do(t.Context(), acked("it", AckWait{N: 1})) },
			"a call":   func() (any, error) { return c.Call(t.Context(), "echo", "it") },
		} {
			got, err := send()
			require.NoError(t, err, name)
			assert.Equal(t, "did it", got, name)
			synctest.Wait()
			assert.Zero(t, s.ClientsLen(), name)
			assert.Len(t, s.scripts(), 1, name)
		}
	})
}

// The Guard's clients have the size of the user's pool, and tell the user of each of them.
func TestClient_OnClientSeesEachClient(t *testing.T) {
	var clients []redis.UniversalClient
	o := Options{OnClient: func(client redis.UniversalClient) { clients = append(clients, client) }}
	onFakeServer(t, o, func(t *testing.T, _ *fakeServer, c *Client) {
		_, _ = c.Call(t.Context(), "echo", "it")
		require.Len(t, clients, 2)
		for _, client := range clients {
			assert.Equal(t, 20, client.(*redis.Client).Options().PoolSize)
		}
		assert.True(t, c.SingleAddress())
		assert.Empty(t, c.Server(t.Context(), "key"))
		require.NoError(t, c.Close())
		_, err := c.Do(t.Context(), of("it"))
		require.NoError(t, err)
		assert.Len(t, clients, 3)
	})
}

// A cluster of which no node answers is an error, and so is a server. The error names it once.
func TestClient_OfAClusterThatCannotBeReached(t *testing.T) {
	user := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, MaxRedirects: -1})
	defer func() { require.NoError(t, user.Close()) }()
	c := Open(user, Options{AttemptTimeout: time.Second})
	defer func() { require.NoError(t, c.Close()) }()
	assert.True(t, c.apart.Load(), "commands share no calls")
	assert.False(t, c.SingleAddress())
	assert.Empty(t, c.Server(t.Context(), "key"), "it is not known yet")
	_, err := c.Do(t.Context(), of("it"))
	require.ErrorContains(t, err, "cluster: ")
	require.ErrorContains(t, err, "127.0.0.1:1")
	assert.Equal(t, 1, strings.Count(err.Error(), "127.0.0.1:1"), "the server is named once: %v", err)
	require.Error(t, c.Pipeline(t.Context(), []Command{of("it")})[0].Err)

	other := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	single := Open(other, Options{AttemptTimeout: time.Second})
	_, err = single.Do(t.Context(), of("it"))
	assert.Equal(t, 1, strings.Count(err.Error(), "127.0.0.1:1"), "%v", err)
	require.NoError(t, errors.Join(single.Close(), other.Close()))
}

// A pipeline that does not get through asks the cluster anew which node serves which slot: renewals may be all that is
// sent, and a replica may have taken over.
func TestClient_APipelineThatFailsAsksTheCluster(t *testing.T) {
	asked := make(chan struct{}, 100)
	user := redis.NewClusterClient(&redis.ClusterOptions{MaxRedirects: -1, ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
		asked <- struct{}{}
		return []redis.ClusterSlot{{End: 16383, Nodes: []redis.ClusterNode{{Addr: "127.0.0.1:1"}}}}, nil
	}})
	defer func() { require.NoError(t, user.Close()) }()
	c := Open(user, Options{AttemptTimeout: time.Second})
	defer func() { require.NoError(t, c.Close()) }()
	assert.Empty(t, c.Server(t.Context(), "key"))
	assert.Empty(t, asked, "a name is not worth a question")
	require.Error(t, c.Pipeline(t.Context(), []Command{of("it")})[0].Err)
	calls := c.nodes.combiner(t.Context(), of("it"))
	assert.Same(t, calls, c.nodes.combiner(t.Context(), of("it")), "commands for a node share its writes")
	for n := range 2 + 2 + 1 { // each of the two clients asked at first
		if n == 2+2 {
			c.NodeFailed(t.Context(), io.EOF)
		}
		select {
		case <-asked:
		case <-time.After(20 * time.Second):
			require.FailNow(t, "the cluster is not asked", "after %d times", n)
		}
	}
}
