//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/internal/redistest"
)

// unfinished is the record that a process leaves which crashed at its work under the fence 7.
func unfinished(t *testing.T, client redis.UniversalClient, key string) {
	t.Helper()
	record := "1 begun 7 0 0123456789abcdef-1 - 1700000000000000 9 request 7"
	require.NoError(t, client.Set(t.Context(), "guard:{"+key+"}:once", record, time.Hour).Err())
}

// once runs work that has a secret result.
func once(t *testing.T, s *redistest.Server, key string, opts ...guard.OnceOption) {
	t.Helper()
	g, err := guard.New(s.Client(t), guard.Instance("web-1"), guard.Metadata("request 7"))
	require.NoError(t, err)
	defer func() { assert.NoError(t, g.Close()) }()
	_, _, err = guard.Once(t.Context(), g, guard.Key(key), time.Hour, func(context.Context) (string, error) { return "secret", nil }, opts...)
	require.NoError(t, err)
}

func TestForget_ShowShowsTheRecord(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := s.Client(t)
	once(t, s, "done")
	once(t, s, "not kept", guard.MaxResult(1))
	unfinished(t, client, "unfinished")
	for key, text := range map[string]string{
		"done":       `^done is free\nits record: done since \S+ ago, by \S+\n  fence +\d+\n  left +(1h0m0s|59m\d+s)\n  result +8 bytes\n  what +request 7\n`,
		"not kept":   `^not kept is free\nits record: not kept since \S+ ago, by \S+\n  fence +\d+\n  left +\S+\n  what +request 7\n`,
		"unfinished": `^unfinished is free\nits record: unfinished since \S+ ago, by 01234567\n  fence +7\n`,
	} {
		got := do(t, s.Addr(), "show", key)
		assert.Zero(t, got.code, got.stderr)
		assert.Regexp(t, text, got.stdout)
		assert.NotContains(t, got.stdout, "secret")

		got = do(t, s.Addr(), "show", "--json", key)
		assert.NotContains(t, got.stdout, "secret")
		var lock lockJSON
		require.NoError(t, json.Unmarshal([]byte(got.stdout), &lock))
		require.NotNil(t, lock.Record, key)
		assert.Equal(t, inspect.RecordState(key), lock.Record.State)
		assert.Equal(t, "request 7", lock.Record.Metadata)
		assert.InDelta(t, 3600, lock.Record.Left, patience.Seconds())
		if key == "done" {
			assert.Equal(t, 8, lock.Record.Size)
		}
	}
	assert.NotContains(t, do(t, s.Addr(), "show", "none").stdout, "record")
	assert.NotContains(t, do(t, s.Addr(), "show", "--json", "none").stdout, "record")
}

func TestForget(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := s.Client(t)
	once(t, s, "done")
	assert.Equal(t, says{0, "the record of done was deleted\n", ""}, plain(do(t, s.Addr(), "forget", "--yes", "done")))
	assert.Equal(t, says{1, "", "redlatch: done has no record\n"}, do(t, s.Addr(), "forget", "--yes", "done"))
	unfinished(t, client, "k")
	got := do(t, s.Addr(), "forget", "k")
	assert.Equal(t, 64, got.code)
	assert.Contains(t, got.stderr, "there is no terminal to ask on: give --yes")
	assert.Equal(t, says{0, `{"key":"k","done":"forget","state":"unfinished","fence":7}` + "\n", ""}, do(t, s.Addr(), "forget", "--json", "-y", "k"))

	require.NoError(t, client.Set(t.Context(), "guard:{text}:once", "secret", 0).Err())
	got = do(t, s.Addr(), "forget", "-y", "text")
	assert.Equal(t, 65, got.code)
	assert.NotContains(t, fmt.Sprint(got), "secret")
}

// plain leaves out what was said of the record.
func plain(got says) says { got.stderr = ""; return got }

func TestForget_WorkInProgressIsNotForgotten(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	g, err := guard.New(s.Client(t))
	require.NoError(t, err)
	defer func() { assert.NoError(t, g.Close()) }()
	failed := errors.New("failed")
	_, _, err = guard.Once(t.Context(), g, guard.Key("k"), time.Hour, func(context.Context) (int, error) {
		assert.Contains(t, do(t, s.Addr(), "show", "k").stdout, "its record: in progress since ")
		got := do(t, s.Addr(), "forget", "-y", "k")
		assert.Equal(t, 75, got.code)
		assert.Contains(t, got.stderr, "the work of this record is in progress")
		assert.EqualValues(t, 1, s.Client(t).Exists(t.Context(), "guard:{k}:once").Val())
		return 0, failed
	})
	require.ErrorIs(t, err, failed)
}
