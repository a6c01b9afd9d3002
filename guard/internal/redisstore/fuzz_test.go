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
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/redisconn"
	"github.com/redlatch/redlatch/internal/redistest"
)

// FuzzScriptReplies has Redis answer every script with the same value, whatever it is.
// Replies are written as JSON, or as an error that begins with '-'. Nothing but the
// exact word for held, done and so on may count as that.
func FuzzScriptReplies(f *testing.F) {
	for _, reply := range []string{
		`"held 1790000000000000"`, `"held 1790000000000000 1780000000000000"`, `"held 9007199254740991 1"`, `"held 17 17 16"`,
		`"held 9007199254740992"`, `"held 0"`, `"held -1"`, `"held 01"`, `"held"`, `"held 17 x"`, `"held 17 17 1 1"`, `["held","17"]`, `"held 1e3"`, `"held +1"`,
		`"busy 30000 1790000000000000 3 1 0 worker 7"`, `"busy -1 0 0 0 1 "`, `"busy -2 0 0 1 0 "`, `"busy x 0 0 1 0 "`,
		`"busy 9223372036854775807 0 0 1 0 "`, `"busy 1 -1 0 1 0 "`, `"busy 1 1 0 1 0"`, `"busy"`,
		`"recorded done 17 1000 8 worker 742"`, `"recorded unkept 17 0 0 "`, `"recorded begun 17 0 2 me"`, `"recorded other 17 0 "`,
		`"recorded gone 17 0 0 "`, `"recorded done 17 0 9 worker 7"`, `"recorded done x 0 0 "`, `"recorded"`,
		`"ended"`, `"ended 1"`, `"released"`, `"kept"`, `"revoked"`, `"lost"`, `"lost 1"`, `"other"`, `[1]`, `[null]`, `[{}]`, `[]`,
		`1`, `0`, `1.0`, `"held"`, `"OK"`, `null`, `true`, `{"1":"17"}`, `18446744073709551617`,
		`-WRONGTYPE Operation against a key`, `-READONLY`, `-NOSCRIPT No matching script`, `-OOM`, `-`, `-1`,
	} {
		f.Add(reply)
	}
	conn := &fixedConn{} // no command reaches the network
	s := &Store{conn: conn, prefix: "guard", now: clock.Now}

	f.Fuzz(func(t *testing.T, text string) {
		reply, ok, refusal := parseReplyText(text)
		if !ok {
			return
		}
		conn.reply, conn.refusal = reply, refusal
		s.clocks = serverClocks{}
		checkAcquire(t, s, reply)
		checkRelease(t, s, reply)
		renewals := s.Renew(t.Context(), []guardstore.Grant{{Key: "k", Owner: "o"}, {Key: "l", Owner: "p"}})
		require.Len(t, renewals, 2)
		renewals = append(renewals, s.Renew(t.Context(), []guardstore.Grant{{Key: "k", Owner: "o"}})...)
		require.Len(t, renewals, 3)
		held, _ := reply.(string)
		clock, is := strings.CutPrefix(held, "held ")
		for _, r := range renewals {
			assert.Equal(t, is && isWhole(clock), r.Held)
			assert.Equal(t, reply == any("revoked"), r.Revoked)
			assert.Equal(t, r.Held || r.Revoked || reply == any("lost"), r.Err == nil)
		}
	})
}

// isWhole says whether a value is a number from 0 to 2^53 - 1, as text.
func isWhole(text string) bool {
	n, ok := new(big.Int).SetString(text, 10)
	return ok && decimal.MatchString(text) && n.BitLen() <= 53
}

var decimal = regexp.MustCompile(`^[0-9]+$`)

func checkAcquire(t *testing.T, s *Store, reply any) {
	got, err := s.Acquire(t.Context(), guardstore.Claim{Key: "k", Owner: "o", TTL: time.Second})
	if err != nil {
		assert.Equal(t, guardstore.ClaimReply{}, got, "an error tells nothing else")
		return
	}
	words := strings.Split(reply.(string), " ")
	switch words[0] {
	case "held":
		require.True(t, len(words) > 2 && len(words) < 5)
		for _, number := range words[1:] {
			require.True(t, isWhole(number))
		}
		assert.Equal(t, guardstore.ClaimHeld, got.Status)
		assert.NotZero(t, got.Fence)
	case "busy":
		assert.Equal(t, guardstore.ClaimBusy, got.Status)
	case "ended":
		assert.Equal(t, guardstore.ClaimReply{Status: guardstore.ClaimFinished}, got)
	default:
		require.Equal(t, "recorded", words[0])
		assert.Equal(t, guardstore.ClaimRecorded, got.Status)
		assert.Contains(t, []any{"done", "unkept", "begun", "other"}, words[1])
		assert.GreaterOrEqual(t, got.Record.Age, time.Duration(0))
		assert.Equal(t, words[1] != "done", got.Record.Result == nil)
	}
}

func checkRelease(t *testing.T, s *Store, reply any) {
	got, err := s.Release(t.Context(), guardstore.Release{Key: "k", Owner: "o", TTL: time.Second})
	if err != nil {
		assert.Zero(t, got, "an error tells nothing else")
		return
	}
	require.Contains(t, releases, reply)
	assert.Equal(t, releases[reply.(string)], got)
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

func (*fixedConn) Server(context.Context, string) string { return "" }

func (c *fixedConn) Do(context.Context, redisconn.Command) (any, error) { return c.reply, c.refusal }

func (c *fixedConn) Call(context.Context, ...any) (any, error) { return c.reply, c.refusal }

func (c *fixedConn) Pipeline(_ context.Context, cmds []redisconn.Command) []redisconn.Reply {
	return slices.Repeat([]redisconn.Reply{{Value: c.reply, Err: c.refusal}}, len(cmds))
}
