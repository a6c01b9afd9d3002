package inspect

import (
	"context"
	"fmt"
	"iter"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect/internal/glob"
	"github.com/redlatch/redlatch/guard/inspect/internal/meter"
	"github.com/redlatch/redlatch/internal/redistest"
)

// locks answers SCAN with keys, each look by its key, and each name with web-1. What has no look is held.
func locks(looks map[string]any, keys ...string) func(cmd redis.Cmder) any {
	return func(cmd redis.Cmder) any {
		switch cmd.Name() {
		case "scan":
			var found []string
			for _, key := range keys {
				found = append(found, "redlatch:{"+key+"}")
			}
			return append(found, "redlatch:{x}:queue")
		case "get":
			return "web-1"
		}
		key := strings.TrimSuffix(strings.TrimPrefix(fmt.Sprint(cmd.Args()[3]), "redlatch:{"), "}")
		if reply, ok := looks[key]; ok {
			return reply
		}
		return hash(one, minimal).reply()
	}
}

type shown struct {
	key, instance string
	err           error
}

func newShown(info Info, err error) shown {
	s := shown{key: info.Key, err: err}
	if len(info.Holders) > 0 {
		s.instance = info.Holders[0].Instance
	}
	return s
}

func all(ctx context.Context, client redis.UniversalClient) (list []shown) {
	for info, err := range New(client).All(ctx, "") {
		list = append(list, newShown(info, err))
	}
	return list
}

func TestAll_ShowsEachLockOnceAndByName(t *testing.T) {
	t.Parallel()
	client := newScripted(t, locks(map[string]any{
		"free":   look{kind: "none"}.reply(),
		"broken": look{kind: "hash"}.reply(),
	}, "a", "free", "broken", "b", "a"))
	assert.Equal(t, []shown{
		{"a", "web-1", nil},
		{"broken", "", &FormatError{Key: "broken", Reason: "its hash has no owner"}},
		{"b", "web-1", nil},
	}, all(t.Context(), client))
	assert.Equal(t, []int{4, 1}, client.sizes, "each name is asked for once")
}

func TestAll_LooksAtAHundredLocksAtATime(t *testing.T) {
	t.Parallel()
	var keys []string
	for n := range 250 {
		keys = append(keys, fmt.Sprint(n))
	}
	client := newScripted(t, locks(nil, keys...))
	answers := 0
	ctx := meter.With(t.Context(), func(time.Duration) { answers++ })
	assert.Len(t, all(ctx, client), 250)
	assert.Equal(t, []int{100, 1, 100, 50}, client.sizes)
	assert.Equal(t, 4, answers, "SCAN, and three times some locks")
	_, err := New(client).Get(ctx, "k")
	require.NoError(t, err)
	assert.Equal(t, 5, answers)
	client.answer = says(errDown)
	_, err = New(client).Get(ctx, "k")
	require.Error(t, err)
	assert.Equal(t, 5, answers, "that was no answer")
	client.answer = says(redistest.ReplyError("NOPERM"))
	_, err = New(client).Get(ctx, "k")
	require.Error(t, err)
	assert.Equal(t, 6, answers, "a refusal is one")
}

func TestAll_BadInput(t *testing.T) {
	t.Parallel()
	good := New(newScripted(t, says(nil)))
	for want, all := range map[error]iter.Seq2[Info, error]{
		errNoClient: New(nil).All(t.Context(), ""),
		&guard.OptionError{Option: "ctx", Reason: "is nil"}:                              good.All(nil, ""), //nolint:staticcheck // it is an error
		&guard.OptionError{Option: "match", Reason: "has 513 bytes, the longest is 512"}: good.All(t.Context(), strings.Repeat("*", 513)),
	} {
		var got []error
		for info, err := range all {
			assert.Empty(t, info)
			got = append(got, err)
		}
		assert.Equal(t, []error{want}, got)
	}
}

// After an error that is not of one lock, or when the caller stops, there is no next server.
func TestAll_EndsAtAnError(t *testing.T) {
	t.Parallel()
	block := make(chan struct{})
	defer close(block)
	whole, err := glob.New("")
	require.NoError(t, err)
	store := func(key string, err error) error { return &guard.StoreError{Op: "inspect", Key: key, Err: err} }
	var cancel context.CancelFunc
	endsDuring := func(name string) func(cmd redis.Cmder) any {
		return func(cmd redis.Cmder) any {
			if cmd.Name() == name {
				cancel()
				<-block
			}
			return locks(nil, "a")(cmd)
		}
	}
	for name, c := range map[string]struct {
		answer func(cmd redis.Cmder) any
		most   int // that the caller takes
		want   []shown
	}{
		"SCAN fails":          {says(errDown), 9, []shown{{err: store("", errDown)}}},
		"a look fails":        {locks(map[string]any{"b": errDown}, "a", "b", "c"), 9, []shown{{"a", "web-1", nil}, {"b", "", store("b", errDown)}}},
		"the caller stops":    {locks(nil, "a", "b"), 1, []shown{{"a", "web-1", nil}}},
		"ended during SCAN":   {endsDuring("scan"), 9, []shown{{err: store("", context.Canceled)}}},
		"ended during a look": {endsDuring("evalsha_ro"), 9, []shown{{err: store("", context.Canceled)}}},
		"to the end":          {locks(nil, "a"), 9, []shown{{"a", "web-1", nil}}},
	} {
		ctx, end := context.WithCancel(t.Context())
		defer end()
		cancel = end
		client := newScripted(t, c.answer)
		i := New(client)
		var got []shown
		s := scan{i: i, match: whole, names: i.newNames(), shown: make(map[string]struct{})}
		next := s.node(ctx, client, func(info Info, err error) bool {
			got = append(got, newShown(info, err))
			return len(got) < c.most
		})
		assert.Equal(t, c.want, got, name)
		assert.Equal(t, name == "to the end", next, name)
	}
}

func TestAll_WithoutTheMastersOfACluster(t *testing.T) {
	t.Parallel()
	cluster := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{"127.0.0.1:1"}, MaxRedirects: -1, MaxRetries: -1,
		Dialer: func(context.Context, string, string) (net.Conn, error) { return nil, errDown },
	})
	defer cluster.Close()
	list := all(t.Context(), cluster)
	require.Len(t, list, 1)
	require.ErrorIs(t, list[0].err, errDown)
	require.ErrorAs(t, list[0].err, new(*guard.StoreError))
}

// What comes after ctx ended is not read: go-redis may be about to write it.
func TestNames_AreNotReadAfterTheEndOfCtx(t *testing.T) {
	t.Parallel()
	block := make(chan struct{})
	defer close(block)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	client := newScripted(t, func(cmd redis.Cmder) any {
		if get, ok := cmd.(*redis.StringCmd); ok {
			get.SetVal("late")
			cancel()
			<-block
			return nil
		}
		return hash(one, minimal).reply()
	})
	info, err := New(client).Get(ctx, "k")
	require.NoError(t, err)
	assert.Equal(t, oneID[:shortID], info.Holders[0].Instance)
}
