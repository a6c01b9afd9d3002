package inspect

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
)

// run runs a script on the keys of k, whose names are its arguments.
func run(t *testing.T, rdb *redis.Client, s *script, suffixes []string, args ...any) ([]any, error) {
	t.Helper()
	keys := make([]string, len(suffixes))
	for i, suffix := range suffixes {
		keys[i] = "redlatch:{k}" + suffix
	}
	return rdb.Eval(t.Context(), s.source, keys, args...).Slice()
}

// What break and revoke reply, and leave.
func TestLua_OneHoldOfSeveral(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	const lock = "redlatch:{k}"
	keys := []string{"", ":queue", ":ended", ":wake", ":holders"}
	breaks := func(fence int) ([]any, error) { return run(t, rdb, breakScript, keys, fence) }
	revokes := func(fence int) ([]any, error) { return run(t, rdb, revokeScript, keys[:1], fence) }
	says := func(want ...any) func(got []any, err error) {
		return func(got []any, err error) {
			t.Helper()
			require.NoError(t, err)
			assert.Equal(t, want, got)
		}
	}
	says(int64(0))(breaks(7))
	says(int64(0))(revokes(7))
	require.NoError(t, rdb.HSet(t.Context(), lock, "a-2.1", "1 7 60000 - ", "b-2.1", "1 8 60000 - ", "@fence", 8).Err())
	says(int64(0))(breaks(9))
	says(int64(0))(revokes(9))
	var waiting []any
	for i := range 9 {
		queued, waked := "q"+strconv.Itoa(i), "w"+strconv.Itoa(i)
		require.NoError(t, rdb.ZAdd(t.Context(), lock+":queue", redis.Z{Score: float64(i), Member: queued}).Err())
		require.NoError(t, rdb.ZAdd(t.Context(), lock+":wake", redis.Z{Score: float64(i), Member: waked}).Err())
		waiting = append(waiting, queued, waked)
	}
	for range 2 {
		says(int64(1), "a-2.1")(revokes(7))
		assert.Equal(t, map[string]string{"a-2.1": "1 7 60000 r ", "b-2.1": "1 8 60000 - ", "@fence": "8"}, rdb.HGetAll(t.Context(), lock).Val())
	}
	require.NoError(t, rdb.Set(t.Context(), lock+":ended", "not ours", 0).Err())
	_, err := breaks(7)
	require.ErrorContains(t, err, "WRONGTYPE")
	require.True(t, rdb.HExists(t.Context(), lock, "a-2.1").Val(), "nothing was done")
	require.NoError(t, rdb.Del(t.Context(), lock+":ended").Err())
	got, err := breaks(7)
	require.NoError(t, err)
	assert.Equal(t, []any{int64(1), "a-2.1"}, got[:2])
	assert.ElementsMatch(t, waiting[:16], got[2:], "eight of each list")
	assert.False(t, rdb.HExists(t.Context(), lock, "a-2.1").Val())
	require.NoError(t, rdb.HSet(t.Context(), lock, "c", "what?").Err())
	says(int64(-1))(breaks(9))
	says(int64(-1))(revokes(9))
	assert.Equal(t, map[string]string{"b-2.1": "1 8 60000 - ", "@fence": "8", "c": "what?"}, rdb.HGetAll(t.Context(), lock).Val())
}

// What look replies.
func TestLua_Look(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	const lock = "redlatch:{k}"
	looks := func() []any {
		t.Helper()
		got, err := run(t, rdb, lookScript, []string{"", ":queue", ":ended", ":seen", ":wake", ":once"}, 2)
		require.NoError(t, err)
		return got[2:] // without the time
	}
	assert.Equal(t, []any{"none", int64(-2), []any{}, "", int64(0), []any{}, []any{}}, looks())
	require.NoError(t, rdb.Set(t.Context(), lock, "not ours", time.Minute).Err())
	require.NoError(t, rdb.Set(t.Context(), lock+":once", "1 begun 7 0 a-1 - 17 2 me", 0).Err())
	assert.Equal(t, []any{"string", int64(-2), []any{}, "", int64(0), []any{}, []any{"begun", "7", "a-1", "17", "me", int64(0), int64(-1), int64(0)}}, looks())
	require.NoError(t, rdb.Del(t.Context(), lock).Err())
	require.NoError(t, rdb.HSet(t.Context(), lock, "a-1", "1 7 60000 - ").Err())
	require.NoError(t, rdb.ZAdd(t.Context(), lock+":queue", redis.Z{Score: 1, Member: "b-1"}, redis.Z{Score: 2, Member: "c-1"}, redis.Z{Score: 3, Member: "d-1"}).Err())
	require.NoError(t, rdb.ZAdd(t.Context(), lock+":wake", redis.Z{Score: 4, Member: "e-1"}).Err())
	require.NoError(t, rdb.HSet(t.Context(), lock+":seen", "b-1", 17, "c-1", 18, "e-1", 19).Err())
	require.NoError(t, rdb.ZAdd(t.Context(), lock+":ended", redis.Z{Score: 1e17, Member: "@fence"}).Err())
	waiting := []any{"b-1", "1", "17", "c-1", "2", "18", "e-1", "4", ""}
	hold := []any{"a-1", "1 7 60000 - "}
	assert.Equal(t, []any{"hash", int64(-1), hold, "100000000000000000", int64(4), waiting, []any{"begun", "7", "a-1", "17", "me", int64(0), int64(-1), int64(1)}}, looks())
	once := lock + ":once"
	for text, record := range map[string][]any{
		"1 done 7 0 a-1 - 17 2 meresult": {"done", "7", "a-1", "17", "me", int64(6), int64(-1), int64(0)},
		"1 begun 7 0 b-1 - 17 0 ":        {"begun", "7", "b-1", "17", "", int64(0), int64(-1), int64(0)},
		"1 begun 7 0 a-1 - 17 9 me":      {""},
		"2 done 7 0 a-1 - 17 2 meresult": {""},
		"what?":                          {""},
	} {
		require.NoError(t, rdb.Set(t.Context(), once, text, 0).Err())
		assert.Equal(t, record, looks()[6], text)
	}
	// A MinHold keeps the key: no work runs.
	require.NoError(t, rdb.HSet(t.Context(), lock, "a-1", "0 7 60000 - ").Err())
	require.NoError(t, rdb.Set(t.Context(), once, "1 begun 7 0 a-1 - 17 0 ", 0).Err())
	assert.Equal(t, []any{"begun", "7", "a-1", "17", "", int64(0), int64(-1), int64(0)}, looks()[6])
}
