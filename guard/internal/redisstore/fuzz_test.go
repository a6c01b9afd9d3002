package redisstore

import (
	"context"
	"encoding/json"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/redisconn"
	"github.com/redlatch/redlatch/internal/redistest"
)

// FuzzScriptReplies has Redis answer every script with the same value, whatever it is.
// Replies are written as JSON, or as an error that begins with '-'. Nothing but the
// exact word for held, done and so on may count as that.
func FuzzScriptReplies(f *testing.F) {
	for _, reply := range []string{
		`"1790000000000000"`, `"-1790000000000000"`, `"9007199254740991"`, // held
		`"9007199254740992"`, `"0"`, `"-0"`, `"01"`, `"--1"`, `"+1"`, `"1e3"`, `"1.0"`, `"1_0"`, `""`, `"-"`, `17`, `["17"]`, `[1,"17"]`, `[]`,
		`[30000,"worker 7","1790000000000000",3,1,0]`, `[-1,"","0",0,0,1]`, `[-2,null,"0",0,1,0]`, `["1","","0",0,1,0]`, // busy
		`[9223372036854775807,"","0",0,1,0]`, `[1,"",1,0,1,0]`, `[1,"","-1",0,1,0]`, `[1,"","1","0",1,0]`, `[1,"","1",0,"1",0]`, `[1,"","1",0,1,"0"]`, `[1,"","1",0,1]`, `[0]`,
		`["1790000000000000","0"]`, `["-17","16"]`, `["0","0"]`, `["17",16]`, `["17","-1"]`, `[["17"],"0"]`, // held, with a record
		`["done","17","1000","8 worker 742"]`, `["done","17","0","0 "]`, `["unkept","17","0","0 "]`, `["begun","17","0","2 me"]`, `["other","17","0",""]`,
		`["gone","17","0","0 "]`, `["done","17","0","9 worker 7"]`, `["done","17","0","-1 "]`, `["done",17,"0","0 "]`, `["done","17","","0 "]`, `["done","17","0",0]`,
		`4`, `5`, // released
		`1`, `0`, `2`, `3`, `-1`, `1.0`, `"1"`, `"OK"`, `null`, `true`, `{"1":"17"}`, `[null]`, `[{}]`, `18446744073709551617`,
		`[30000,"worker 7","1790000000000000",0]`, `[0,"","1"]`, `[1,"1"]`, `[0,"17"]`,
		`-WRONGTYPE Operation against a key`, `-READONLY`, `-NOSCRIPT No matching script`, `-OOM`, `-`, `-1`,
	} {
		f.Add(reply)
	}
	conn := &fixedConn{} // no command reaches the network
	s := &Store{conn: conn, prefix: "redlatch"}

	f.Fuzz(func(t *testing.T, text string) {
		reply, ok, refusal := parseReplyText(text)
		if !ok {
			return
		}
		conn.reply, conn.refusal = reply, refusal
		checkAcquire(t, s, reply)
		checkOnce(t, s, reply)
		checkRelease(t, s, reply)
		wantHeld, wantKnown := reply == any(int64(1)), reply == any(int64(1)) || reply == any(int64(0))
		renewals := s.Renew(t.Context(), []guardstore.Grant{{Key: "k", Owner: "o"}, {Key: "l", Owner: "p"}})
		require.Len(t, renewals, 2)
		renewals = append(renewals, s.Renew(t.Context(), []guardstore.Grant{{Key: "k", Owner: "o"}})...)
		require.Len(t, renewals, 3)
		for _, r := range renewals {
			revoked := reply == any(replyRevoked)
			assert.Equal(t, wantHeld, r.Held)
			assert.Equal(t, revoked, r.Revoked)
			assert.Equal(t, wantKnown || revoked, r.Err == nil)
		}
	})
}

func checkAcquire(t *testing.T, s *Store, reply any) {
	got, err := s.Acquire(t.Context(), guardstore.Claim{Key: "k", Owner: "o", TTL: time.Second})
	if err != nil {
		assert.Equal(t, guardstore.ClaimReply{}, got, "an error tells nothing else")
	}
	fence, ahead, held := heldReply(reply)
	require.Equal(t, held, err == nil && got.Status == guardstore.ClaimHeld)
	if held {
		assert.Equal(t, guardstore.ClaimReply{Status: guardstore.ClaimHeld, Fence: fence, FenceAhead: ahead}, got)
		assert.NoError(t, err)
	}
	if err == nil && !held {
		want := guardstore.ClaimBusy
		if reply == any(int64(0)) {
			want = guardstore.ClaimFinished
		}
		assert.Equal(t, want, got.Status)
		assert.Zero(t, got.Fence)
	}
}

var decimal = regexp.MustCompile(`^-?[0-9]+$`)

// heldReply is what a script may answer to say that the lock is held: the fence as text, from 1 to
// 2^53 - 1, with a minus in front if it is ahead of the clock.
func heldReply(reply any) (fence uint64, ahead, ok bool) {
	text, _ := reply.(string)
	if !decimal.MatchString(text) {
		return 0, false, false
	}
	text, ahead = strings.CutPrefix(text, "-")
	n, _ := new(big.Int).SetString(text, 10)
	return n.Uint64(), ahead, n.Sign() > 0 && n.BitLen() <= 53
}

// checkOnce is about the replies to a claim that asks for a record.
func checkOnce(t *testing.T, s *Store, reply any) {
	got, err := s.Acquire(t.Context(), guardstore.Claim{Key: "k", Owner: "o", TTL: time.Second, Once: &guardstore.Once{Keep: time.Second}})
	if err != nil {
		assert.Equal(t, guardstore.ClaimReply{}, got, "an error tells nothing else")
		return
	}
	list, _ := reply.([]any)
	assert.Equal(t, len(list) == 2, got.Status == guardstore.ClaimHeld, "without the fence of who began before, nothing is held")
	assert.Equal(t, len(list) == 4, got.Status == guardstore.ClaimRecorded)
	assert.Equal(t, len(list) == 4, got.Record != nil)
	if got.Record != nil {
		assert.Contains(t, []any{"done", "unkept", "begun", "other"}, list[0])
		assert.GreaterOrEqual(t, got.Record.Age, time.Duration(0))
		assert.Equal(t, list[0] != "done", got.Record.Result == nil)
	}
}

func checkRelease(t *testing.T, s *Store, reply any) {
	got, err := s.Release(t.Context(), guardstore.Release{Key: "k", Owner: "o", TTL: time.Second})
	if err != nil {
		assert.Zero(t, got, "an error tells nothing else")
		return
	}
	want := map[any]guardstore.ReleaseStatus{
		int64(1): guardstore.ReleaseDone, int64(2): guardstore.ReleaseAlready, int64(0): guardstore.ReleaseLost,
		int64(3): guardstore.ReleaseRevoked, int64(4): guardstore.ReleaseDone,
	}
	require.Contains(t, want, reply)
	assert.Equal(t, want[reply], got.Status)
	assert.Equal(t, reply == any(int64(4)), got.HeldOver)
}

var integer = regexp.MustCompile(`^-?[0-9]+$`)

// parseReplyText gives the value that go-redis makes of a reply, or the error.
func parseReplyText(text string) (reply any, ok bool, refusal error) {
	if message, isError := strings.CutPrefix(text, "-"); isError && !integer.MatchString(text) {
		return nil, true, redistest.ReplyError(message)
	}
	if reply, ok = parseJSON(text); ok && reply == nil {
		return nil, true, redis.Nil
	}
	return reply, ok, nil
}

func parseJSON(text string) (v any, ok bool) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if decoder.Decode(&v) != nil || decoder.More() {
		return nil, false
	}
	return fromJSON(v), true
}

func fromJSON(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		if n, ok := new(big.Int).SetString(v.String(), 10); ok {
			return n
		}
		n, _ := v.Float64()
		return n
	case []any:
		for i := range v {
			v[i] = fromJSON(v[i])
		}
	case map[string]any:
		m := make(map[any]any, len(v))
		for key, value := range v {
			m[key] = fromJSON(value)
		}
		return m
	}
	return v
}

// fixedConn answers every command itself.
type fixedConn struct {
	conn
	reply   any
	refusal error
}

func (c *fixedConn) Do(context.Context, redisconn.Command) (any, error) { return c.reply, c.refusal }

func (c *fixedConn) Call(context.Context, ...any) (any, error) { return c.reply, c.refusal }

func (c *fixedConn) Pipeline(_ context.Context, cmds []redisconn.Command) []redisconn.Reply {
	return slices.Repeat([]redisconn.Reply{{Value: c.reply, Err: c.refusal}}, len(cmds))
}
