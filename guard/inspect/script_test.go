package inspect

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/redistest"
)

var errDown = errors.New("down")

// scripted is a client whose commands a test answers: with an error, a reply, or nothing.
type scripted struct {
	*redis.Client

	answer func(cmd redis.Cmder) any

	mu     sync.Mutex // a call whose context has ended is still under way
	asked  []string   // "evalsha_ro", a text for each command
	sizes  []int      // of the pipelines
	once   []bool     // which commands go-redis may not repeat
	failed error      // what each pipeline returns
}

func newScripted(t *testing.T, answer func(cmd redis.Cmder) any) *scripted {
	t.Helper()
	s := &scripted{Client: redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), answer: answer}
	s.AddHook(s)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

func (*scripted) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *scripted) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		s.reply(cmd)
		return cmd.Err()
	}
}

func (s *scripted) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		s.mu.Lock()
		s.sizes = append(s.sizes, len(cmds))
		s.mu.Unlock()
		for _, cmd := range cmds {
			s.reply(cmd)
		}
		return s.failed
	}
}

func (s *scripted) reply(cmd redis.Cmder) {
	s.mu.Lock()
	s.asked, s.once = append(s.asked, cmd.Name()), append(s.once, cmd.NoRetry())
	s.mu.Unlock()
	switch reply := s.answer(cmd).(type) {
	case error:
		cmd.SetErr(reply)
	case []string:
		cmd.(*redis.ScanCmd).SetVal(reply, 0)
	case nil:
	default:
		switch cmd := cmd.(type) {
		case *redis.StringCmd:
			cmd.SetVal(reply.(string))
		case *redis.IntCmd:
			cmd.SetVal(reply.(int64))
		default:
			cmd.(interface{ SetVal(v any) }).SetVal(reply)
		}
	}
}

// says answers each command with the same.
func says(reply any) func(redis.Cmder) any { return func(redis.Cmder) any { return reply } }

func TestScript_IsSentAsTheServerKnowsIt(t *testing.T) {
	t.Parallel()
	const noScript, unknown, writes = redistest.ReplyError("NOSCRIPT No matching script"), redistest.ReplyError("ERR unknown command 'X'"), redistest.ReplyError("ERR Write commands are not allowed in read-only scripts.")
	for name, c := range map[string]struct {
		script *script
		knows  map[string]error // all others are answered
		asked  string
	}{
		"known":                         {lookScript, nil, "evalsha_ro evalsha_ro"},
		"not known":                     {lookScript, map[string]error{"evalsha_ro": noScript}, "evalsha_ro evalsha_ro eval_ro eval_ro"},
		"before Redis 7":                {lookScript, map[string]error{"evalsha_ro": unknown}, "evalsha_ro evalsha_ro evalsha evalsha"},
		"before Redis 7, and not known": {lookScript, map[string]error{"evalsha_ro": unknown, "evalsha": noScript}, "evalsha_ro evalsha_ro evalsha evalsha eval eval"},
		"takes TIME for a write":        {lookScript, map[string]error{"evalsha_ro": noScript, "eval_ro": writes}, "evalsha_ro evalsha_ro eval_ro eval_ro eval eval"},
		"never known":                   {lookScript, map[string]error{"evalsha_ro": noScript, "eval_ro": noScript}, "evalsha_ro evalsha_ro eval_ro eval_ro eval_ro eval_ro"},
		"fails":                         {lookScript, map[string]error{"evalsha_ro": redistest.ReplyError("ERR x")}, "evalsha_ro evalsha_ro"},
		"writes":                        {breakScript, map[string]error{"evalsha": noScript}, "evalsha evalsha eval eval"},
		"writes, and may not":           {breakScript, map[string]error{"evalsha": unknown}, "evalsha evalsha"},
	} {
		client := newScripted(t, func(cmd redis.Cmder) any {
			if err := c.knows[cmd.Name()]; err != nil {
				return err
			}
			return "yes"
		})
		calls := []*call{{keys: []string{"{k}"}}, {keys: []string{"{l}"}}}
		require.NoError(t, c.script.run(t.Context(), client, calls))
		assert.Equal(t, c.asked, strings.Join(client.asked, " "), name)
		for _, once := range client.once {
			assert.Equal(t, !c.script.reads, once, "what writes is not repeated by go-redis")
		}
	}
}

func TestScript_EachCallHasItsOwnError(t *testing.T) {
	t.Parallel()
	client := newScripted(t, func(cmd redis.Cmder) any { return fmt.Errorf("no %v", cmd.Args()[3]) })
	client.failed = errDown
	calls := []*call{{keys: []string{"a"}}, {keys: []string{"b"}}}
	require.NoError(t, lookScript.run(t.Context(), client, calls))
	require.EqualError(t, calls[0].err, "no a")
	require.EqualError(t, calls[1].err, "no b")
	client.answer = says(nil)
	_, err := New(client).Get(t.Context(), "k")
	require.ErrorIs(t, err, errDown, "there was no connection, and only the pipeline knows why")
	client.answer = says(look{kind: "none"}.reply())
	_, err = New(client).Get(t.Context(), "k")
	require.NoError(t, err)
}

// stepsOf are the methods that return whether there was something to change.
var stepsOf = map[string]func(i *Inspector, ctx context.Context, key string) (bool, error){
	"forget": (*Inspector).Forget,
	"revoke": func(i *Inspector, ctx context.Context, key string) (bool, error) { return i.Revoke(ctx, key, 7) },
	"break":  func(i *Inspector, ctx context.Context, key string) (bool, error) { return i.Break(ctx, key, 7) },
}

// An error has its key. Get names the key in its Info, too, and a step changed nothing.
func TestCalls_Fail(t *testing.T) {
	t.Parallel()
	ctx, long := t.Context(), strings.Repeat("k", guard.MaxKeyLength+1)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	block := make(chan struct{})
	defer close(block)
	on := func(answer func(redis.Cmder) any) *Inspector { return New(newScripted(t, answer), nil) }
	good := on(says(int64(1)))
	const wrongType = redistest.ReplyError("WRONGTYPE")
	for name, c := range map[string]struct {
		i    *Inspector
		ctx  context.Context
		key  string
		want error // a StoreError has no Op yet
	}{
		"no Inspector":   {nil, ctx, "k", errNotMade},
		"zero Inspector": {new(Inspector), ctx, "k", errNotMade},
		"no client":      {New(nil), ctx, "k", errNoClient},
		"no ctx":         {good, nil, "k", &guard.OptionError{Option: "ctx", Reason: "is nil"}},
		"no key":         {good, ctx, "", &guard.KeyError{Reason: "empty"}},
		"not UTF-8":      {good, ctx, "\xff", &guard.KeyError{Key: "\xff", Reason: "not UTF-8"}},
		"a long key":     {good, ctx, long, &guard.KeyError{Key: long, Reason: fmt.Sprintf("513 bytes, the longest is %d", guard.MaxKeyLength)}},
		"down":           {on(says(errDown)), ctx, "k", &guard.StoreError{Key: "k", Err: errDown}},
		"ended":          {on(func(redis.Cmder) any { <-block; return nil }), ended, "k", &guard.StoreError{Key: "k", Err: context.Canceled}},
		"no lock":        {on(says(wrongType)), ctx, "k", &FormatError{Key: "k", Reason: "a Redis key of it is of another type", Err: wrongType}},
	} {
		in := func(op string) error {
			if store := (*guard.StoreError)(nil); errors.As(c.want, &store) {
				return &guard.StoreError{Op: op, Key: store.Key, Err: store.Err}
			}
			return c.want
		}
		for op, step := range stepsOf {
			did, err := step(c.i, c.ctx, c.key)
			assert.Equal(t, in(op), err, "%s, %s", op, name)
			assert.False(t, did, "%s, %s", op, name)
		}
		info, err := c.i.Get(c.ctx, c.key)
		assert.Equal(t, in("inspect"), err, name)
		assert.Equal(t, Info{Key: c.key}, info, name)
	}
}

func TestForget_DeletesNothing(t *testing.T) {
	t.Parallel()
	record := []any{"begun", "7"}
	unexpected := func(reply any) error {
		return &FormatError{Key: "k", Reason: fmt.Sprintf("unexpected reply of type %T", reply)}
	}
	for _, c := range []struct {
		seen, reply any // which record is there, and what became of it
		err         error
	}{
		{record, int64(0), nil}, // it was deleted meanwhile
		{record, "x", unexpected("x")},
		{record, errDown, &guard.StoreError{Op: "forget", Key: "k", Err: errDown}},
		{[]any{"begun"}, nil, unexpected(record)},
		{"x", nil, unexpected("x")},
	} {
		did, err := New(newScripted(t, func(cmd redis.Cmder) any {
			if len(cmd.Args()) == 5 {
				return c.seen
			}
			assert.Equal(t, record, cmd.Args()[5:])
			return c.reply
		})).Forget(t.Context(), "k")
		assert.Equal(t, c.err, err)
		assert.False(t, did)
	}
}
