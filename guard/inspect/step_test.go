package inspect

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestStep_RepliesThatAreNone(t *testing.T) {
	t.Parallel()
	for _, reply := range []any{"x", []any{}, []any{int64(0), one}, []any{int64(1)}, []any{int64(2), one}} {
		for op, step := range stepsOf {
			if op == "forget" {
				continue
			}
			did, err := step(New(newScripted(t, says(reply))), t.Context(), "k")
			assert.Equal(t, &FormatError{Key: "k", Reason: "its hash has no owner"}, err, "%s %v", op, reply)
			assert.False(t, did)
		}
	}
}

// published answers a script with owners and each message with its receivers, and notes messages and their times.
func published(owners []any, receivers func(try int) any) (answer func(redis.Cmder) any, messages *[]string) {
	messages = new([]string)
	begun := time.Now()
	return func(cmd redis.Cmder) any {
		if cmd.Name() != "publish" {
			return append([]any{int64(1)}, owners...)
		}
		*messages = append(*messages, fmt.Sprint(time.Since(begun).Milliseconds(), cmd.Args()[1:]))
		return receivers(len(*messages))
	}, messages
}

func TestBreak_NotifiesTheNextOnesAndTheHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer, messages := published([]any{one, two, "abc-3"}, func(int) any { return int64(0) })
		did, err := New(newScripted(t, answer)).Break(t.Context(), "k", 7)
		require.NoError(t, err)
		assert.True(t, did)
		assert.Equal(t, []string{
			"0 [redlatch:grant:fedcba9876543210 fedcba9876543210-2]", "0 [redlatch:grant:abc abc-3]", "0 [redlatch:grant:" + oneID + " !" + one + "]",
		}, *messages)
	})
}

// The message is repeated until it is received, if the server says so, and not for long.
func TestRevoke_IsRepeatedUntilItIsReceived(t *testing.T) {
	none := func(int) any { return int64(0) }
	for name, c := range map[string]struct {
		alone     bool // one server: it counts the receivers
		receivers func(try int) any
		times     []int
	}{
		"received":                {true, func(int) any { return int64(1) }, []int{0}},
		"received later":          {true, func(try int) any { return int64(try / 3) }, []int{0, 25, 75}},
		"never received":          {true, none, []int{0, 25, 75, 125, 175, 225, 275, 325}},
		"down, and received":      {true, func(try int) any { return map[bool]any{true: errDown, false: int64(1)}[try == 1] }, []int{0, 25}},
		"a cluster":               {false, none, []int{0, 25, 75}},
		"a cluster, and received": {false, func(int) any { return int64(1) }, []int{0, 25, 75}},
	} {
		synctest.Test(t, func(t *testing.T) {
			answer, messages := published([]any{one}, c.receivers)
			client := newScripted(t, answer)
			i := New(client)
			if c.alone {
				i = New(client.Client)
			}
			did, err := i.Revoke(t.Context(), "k", 7)
			require.NoError(t, err)
			assert.True(t, did)
			var want []string
			for _, at := range c.times {
				want = append(want, fmt.Sprintf("%d [redlatch:grant:%s !%s]", at, oneID, one))
			}
			assert.Equal(t, want, *messages, name)
		})
	}
}

func TestRevoke_StopsWhenItsContextEnds(t *testing.T) {
	for name, during := range map[string]bool{"during a message": true, "between two": false} {
		synctest.Test(t, func(t *testing.T) {
			block := make(chan struct{})
			ctx, cancel := context.WithCancel(t.Context())
			answer, messages := published([]any{one}, func(int) any {
				if during {
					cancel()
					<-block
				}
				time.AfterFunc(time.Millisecond, cancel)
				return int64(0)
			})
			did, err := New(newScripted(t, answer)).Revoke(ctx, "k", 7)
			require.NoError(t, err)
			assert.True(t, did, name)
			assert.Len(t, *messages, 1, name)
			close(block)
		})
	}
}
