//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/doctor"
	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/internal/guardhook"
)

// guard makes a Guard in this process.
func (r *env) guard(opts ...guard.Option) *guard.Guard {
	r.Helper()
	g, err := guard.New(r.rdb, opts...)
	require.NoError(r, err)
	r.Cleanup(func() { assert.NoError(r, g.Close()) })
	return g
}

// holds takes a key in this process, until the test ends.
func (r *env) holds(key string, opts ...guard.LockOption) *guard.Lease {
	r.Helper()
	lease, err := r.guard().Acquire(r.Context(), guard.Key(key), opts...)
	require.NoError(r, err)
	r.Cleanup(func() { _ = lease.Release(context.Background()) }) // it may be lost
	return lease
}

// rows returns the lines of an output.
func rows(got says) []string { return strings.Split(strings.TrimSpace(got.stdout), "\n") }

func decoded[T any](t *testing.T, text string) (v T) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &v))
	return v
}

func TestShow_Free(t *testing.T) {
	r := own(t)
	assert.Equal(t, says{0, "nothing is held\n", ""}, r.do(0, "ls"))
	assert.Equal(t, says{0, "no lock is held whose key matches order\n", ""}, r.do(0, "ls", "order"))
	assert.Equal(t, says{0, "order:1 is free\nno process waits\n", ""}, r.do(0, "show", "order:1"))
	assert.Contains(t, r.do(0, "show", "--json", "order:1").stdout, `"holders":[],"waiting":[]`)
	for _, args := range [][]string{{"revoke"}, {"break", "--yes"}, {"break", "--yes", "--json"}} {
		r.fails(1, "order:1 is free", append(args, "order:1")...)
	}
}

// ls and show have each holder, and the waiting processes. revoke ends one holder.
func TestShow_HoldersAndWaiting(t *testing.T) {
	r := own(t)
	first, second := r.holds("export", guard.Limit(2), guard.Metadata("first")), r.holds("export", guard.Limit(2), guard.Metadata("\x1b[2J"))
	r.holds("user:1")
	third := r.start("run", "--limit", "2", "export", "--", "true")
	r.waits("export", 1)
	list := rows(r.do(0, "ls", "ex*"))
	require.Len(t, list, 3)
	assert.Regexp(t, `^KEY +HELD BY +FOR +LEFT +WAITING +FENCE +WHAT$`, list[0])
	assert.Regexp(t, fmt.Sprintf(`^export +\S+ +\S+s +\S+s +1 for \S+ +%d +first \(limit 2\)$`, first.Fence()), list[1])
	assert.Regexp(t, fmt.Sprintf(`^export .*%d +"\\x1b\[2J" \(limit 2\)$`, second.Fence()), list[2])
	assert.Len(t, rows(r.do(0, "ls", "--json")), 2)
	got := r.do(0, "show", "export").stdout
	assert.Equal(t, 2, strings.Count(got, "export is held by "), got)
	assert.NotContains(t, got, "is free")
	assert.Regexp(t, `(?m)^  1\. +\S+ +for \S+ \(limit 2\)$`, got)
	assert.Regexp(t, fmt.Sprintf(`(?m)^  fence +%d\n  left +\S+s\n  calls +1\n  what +first`, first.Fence()), got)
	assert.Contains(t, got, "\n1 waiting\n")
	assert.NotContains(t, got, guardhook.Owner(first), "owners are secrets")
	assert.Contains(t, r.do(0, "show", "user:1").stdout, "\nno other process waits\n", "Redis does not know the callers in the holder's process")
	lock := decoded[lockJSON](t, r.do(0, "show", "--json", "export").stdout)
	require.Len(t, lock.Holders, 2)
	require.Len(t, lock.Waiting, 1)
	holder := lock.Holders[0]
	assert.Equal(t, []any{first.Fence(), "first", 2, 2}, []any{holder.Fence, holder.Metadata, holder.Limit, lock.Waiting[0].Limit})
	assert.InDelta(t, 20, holder.Left, 10, "it is renewed every 10 s")

	fence := strconv.FormatUint(second.Fence(), 10)
	r.fails(64, fmt.Sprintf("export has 2 holders: name one by --fence %d or %s;", first.Fence(), fence), "revoke", "export")
	r.fails(1, "no hold with the fence 7 any more: nothing was done", "revoke", "--fence", "7", "export")
	revoked := decoded[doneJSON](t, r.do(0, "revoke", "--json", "--fence", fence, "export").stdout)
	assert.Equal(t, doneJSON{Key: "export", Done: "revoke", Instance: holder.Instance, Fence: second.Fence()}, revoked)
	<-second.Context().Done()
	require.ErrorIs(t, second.Release(t.Context()), guard.ErrRevoked)
	third.ends(0)
	require.NoError(t, first.Release(t.Context()))
}

// The Redis user of an application may not read locks. Revoke and break work on its jobs all the same, and on a stopped
// process, which gets TERM when it continues, and not before.
func TestRun_RevokedWithTheRightsOfAGuard(t *testing.T) {
	r, p := own(t), newPipe(t)
	guide, err := os.ReadFile("../../docs/operate/redis.md")
	require.NoError(t, err)
	rights := regexp.MustCompile(`(?m)^ACL SETUSER redlatch (.*)$`).FindSubmatch(guide)
	require.NotNil(t, rights)
	words := []any{"acl", "setuser", "redlatch"}
	for _, word := range strings.Fields(string(rights[1])) {
		words = append(words, word)
	}
	require.NoError(t, r.rdb.Do(t.Context(), words...).Err())
	user, file := r.at("redlatch:PASSWORD@"+r.addr), r.file()

	polite := user.start("run", "politely", "--", "sh", "-c",
		`trap 'sleep 0.5; echo done >>"$0"; exit 3' TERM; echo $$ >>"$0"; kill -STOP $$; while :; do sleep 0.02; done`, file)
	r.awaits(file, 1)
	r.eventually("it is stopped", func() bool {
		state, _ := exec.Command("ps", "-o", "stat=", "-p", lines(file)[0]).Output()
		return strings.HasPrefix(string(state), "T")
	})
	r.do(0, "revoke", "politely")
	assert.Contains(t, polite.ends(70).stderr, "it was revoked")
	assert.Contains(t, lines(file), "done")

	rude := user.start("run", "--ttl", "60s", "rudely", "--", "sh", "-c", stubborn, p.path)
	p.works()
	begun := time.Now()
	r.do(0, "break", "-y", "rudely")
	p.gone()
	assert.Less(t, time.Since(begun), 5*time.Second, "it was given the time of a revoked command")
	rude.ends(70)
}

func TestShow_Break(t *testing.T) {
	r := shared(t)
	lease := r.holds("broken")
	r.fails(64, "--yes", "break", "broken")
	r.do(1, "break", "--yes", "--fence", strconv.FormatUint(lease.Fence()+1, 10), "broken")
	for _, verb := range [][]string{{"break", "--yes"}, {"revoke"}} { // 0 does not mean any hold
		r.fails(1, "no hold with the fence 0 any more: nothing was done", append(verb, "--fence", "0", "broken")...)
	}
	require.NoError(t, lease.Check(t.Context()))
	instance := decoded[lockJSON](t, r.do(0, "show", "--json", "broken").stdout).Holders[0].Instance
	assert.Equal(t, "broken was taken from "+instance+"\n", r.do(0, "break", "--yes", "broken").stdout)
	r.free("broken")
	fence := r.holds("broken").Fence()
	broken := decoded[doneJSON](t, r.do(0, "break", "--yes", "--json", "broken").stdout)
	assert.NotEmpty(t, broken.Instance)
	assert.Equal(t, doneJSON{Key: "broken", Done: "break", Instance: broken.Instance, Fence: fence}, broken)
}

// A user may have the right to look, or the right to change, and not both.
func TestShow_UsersWithoutTheRights(t *testing.T) {
	r := own(t)
	r.holds("k")
	r.unfinished("k")
	for user, without := range map[string]string{"blind": "-evalsha_ro", "reader": "-evalsha"} {
		require.NoError(t, r.rdb.Do(t.Context(), "acl", "setuser", user, "on", ">secret", "~*", "&*", "+@all", without).Err())
		for _, args := range [][]string{{"revoke"}, {"break", "-y"}, {"forget", "-y"}} {
			r.at(user+":secret@"+r.addr).fails(69, "Redis refuses: NOPERM", append(args, "k")...)
		}
	}
}

func TestShow_OtherValuesAreNoLocks(t *testing.T) {
	r := own(t)
	require.NoError(t, r.rdb.HSet(t.Context(), "redlatch:{by hand}", "a", "b").Err())
	require.NoError(t, r.rdb.Set(t.Context(), "redlatch:{text}", "x", time.Minute).Err())
	r.holds("good")
	for _, args := range [][]string{{"show", "by hand"}, {"revoke", "by hand"}, {"break", "--yes", "text"}} {
		r.fails(65, "not a lock", args...)
	}
	for _, key := range []string{"d", "b", "a", "e", "c"} {
		r.holds(key)
	}
	got := r.do(65, "ls")
	assert.Regexp(t, `(?s)\na .*\nb .*\nc .*\nd .*\ne .*\ngood `, got.stdout)
	assert.Contains(t, got.stderr, "by hand")
	assert.Equal(t, "b", r.rdb.HGet(t.Context(), "redlatch:{by hand}", "a").Val())
}

// A line that the terminal wraps is hard to read.
func TestShow_ListFitsTheColumns(t *testing.T) {
	r := own(t)
	long := "order:" + strings.Repeat("payment-", 12) + "end"
	r.holds(long, guard.Metadata(strings.Repeat("what it does ", 10)))
	r.holds("short")
	assert.Contains(t, r.do(0, "ls").stdout, long, "in a pipe")
	within := func(columns string) []string {
		c := r.prepare("ls")
		c.cmd.Env = append(c.cmd.Env, "COLUMNS="+columns)
		return strings.Split(strings.TrimSuffix(c.start().ends(0).stdout, "\n"), "\n")
	}
	for _, columns := range []int{70, 100, 150} {
		list := within(strconv.Itoa(columns))
		require.Len(t, list, 3)
		for _, row := range list {
			assert.LessOrEqual(t, utf8.RuneCountInString(row), columns, row)
		}
		assert.Regexp(t, `^ord.*….*end `, list[1], "both ends of a key say which it is")
		assert.Regexp(t, `^short `, list[2])
		assert.Greater(t, utf8.RuneCountInString(list[1]), columns-3, "no more than needed")
	}
	for _, columns := range []string{"", "0", "-1", "wide", "20"} {
		assert.Regexp(t, `^short `, within(columns)[2], columns)
	}
}

func TestShow_Doctor(t *testing.T) {
	r := own(t)
	good := r.do(0, "doctor").stdout
	assert.Regexp(t, `(?m)^ok    version \(`+r.addr+`\): (Redis|Valkey) \d`, good)
	assert.NotContains(t, good, `"says":`)
	require.NoError(t, r.rdb.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
	require.NoError(t, r.rdb.ConfigSet(t.Context(), "maxmemory", "100mb").Err())
	assert.Regexp(t, `(?m)^bad   memory \(`+r.addr+`\): .*\n      fix: CONFIG SET`, r.do(1, "doctor").stdout)
	assert.Contains(t, decoded[[]doctor.Finding](t, r.do(1, "doctor", "--json").stdout), doctor.Finding{
		Server: r.addr, Check: "memory", Level: doctor.Bad,
		Says: "maxmemory-policy is allkeys-lru: a full Redis drops locks that are held",
		Fix:  "CONFIG SET maxmemory-policy noeviction",
	})
	r.do(64, "doctor", "who")
	r.fails(69, "no TLS with "+r.addr, "doctor", "--redis", "rediss://"+r.addr+"?dial_timeout=300ms")
}

// unfinished writes the record of a process that crashed at its work under the fence 7.
func (r *env) unfinished(key string) {
	r.Helper()
	record := "1 begun 7 0 0123456789abcdef-1 - 1700000000000000 9 request 7"
	require.NoError(r, r.rdb.Set(r.Context(), "redlatch:{"+key+"}:once", record, time.Hour).Err())
}

// once runs work with a secret result.
func (r *env) once(key string, work func()) {
	r.Helper()
	g := r.guard(guard.Metadata("request 7"))
	_, _, err := guard.Once(r.Context(), g, guard.Key(key), time.Hour, func(context.Context) (string, error) { work(); return "secret", nil })
	require.NoError(r, err)
}

func TestForget_ShowShowsTheRecord(t *testing.T) {
	r := own(t)
	r.once("done", func() {})
	r.unfinished("unfinished")
	for key, text := range map[string]string{
		"done":       `^done is free\nrecord: done \S+ ago by \S+\n  fence +\d+\n  left +(1h0m0s|59m\d+s)\n  result +8 bytes\n  what +request 7\n`,
		"unfinished": `^unfinished is free\nrecord: unfinished \S+ ago by 01234567\n  fence +7\n  left +\S+\n  what +request 7\n`,
	} {
		shown, written := r.do(0, "show", key).stdout, r.do(0, "show", "--json", key).stdout
		assert.Regexp(t, text, shown)
		assert.NotContains(t, shown+written, "secret")
		record := decoded[lockJSON](t, written).Record
		require.NotNil(t, record, key)
		assert.Equal(t, []any{inspect.RecordState(key), "request 7", map[bool]int{true: 8}[key == "done"]}, []any{record.State, record.Metadata, record.Size})
		assert.InDelta(t, 3600, record.Left, patience.Seconds())
	}
	assert.NotContains(t, r.do(0, "show", "none").stdout, "record")
	assert.NotContains(t, r.do(0, "show", "--json", "none").stdout, "record")
}

func TestForget_DeletesTheRecord(t *testing.T) {
	r := own(t)
	r.once("done", func() {})
	assert.Equal(t, "the record of done was deleted\n", r.do(0, "forget", "--yes", "done").stdout)
	assert.Equal(t, "redlatch: done has no record\n", r.do(1, "forget", "--yes", "done").stderr)
	r.fails(1, "none has no record", "forget", "none")
	r.unfinished("k")
	r.fails(64, "there is no terminal to ask on: give --yes", "forget", "k")
	assert.Equal(t, says{0, `{"key":"k","done":"forget","state":"unfinished","fence":7}` + "\n", ""}, r.do(0, "forget", "--json", "-y", "k"))
	require.NoError(t, r.rdb.Set(t.Context(), "redlatch:{text}:once", "secret", 0).Err())
	assert.NotContains(t, fmt.Sprint(r.do(65, "show", "text")), "secret")
	r.do(65, "run", "--once", "1h", "text", "true")
	assert.Equal(t, says{0, "the record of text was deleted\n", "record: damaged\n"}, r.do(0, "forget", "-y", "text"))
	assert.Zero(t, r.rdb.Exists(t.Context(), "redlatch:{text}:once").Val())
	r.once("working", func() {
		assert.Contains(t, r.do(0, "show", "working").stdout, "record: in progress for ")
		r.fails(75, "the work of this record is in progress", "forget", "-y", "working")
	})
	assert.EqualValues(t, 1, r.rdb.Exists(t.Context(), "redlatch:{working}:once").Val())
}

func TestShow_AllOfALock(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	before := func(d time.Duration) time.Time { return now.Add(-d) }
	full := inspect.Info{
		Key: "k", Now: now, Queued: 5, LastFence: 9,
		Holders: []inspect.Holder{
			{Instance: "a:1", Metadata: "me", Since: before(90 * time.Second), Left: 20 * time.Second, Fence: 7, Depth: 2, Limit: 3, Revoked: true},
			{Instance: "b:22", Since: before(1500 * time.Millisecond), Fence: 812, Limit: 1},
		},
		Waiting: []inspect.Waiter{{Instance: "c:3", Since: before(5 * time.Second), Asked: now, Limit: 3, Front: true}, {Instance: "long:44", Since: before(time.Second)}},
		Record: &inspect.Record{
			State: inspect.RecordDone, Instance: "a:1", Metadata: "request 7", Since: before(time.Hour), Left: time.Minute, Fence: 5, Size: 10,
		},
	}
	small := inspect.Info{
		Key: "s", Now: now, Holders: []inspect.Holder{{Instance: "a:1", Since: now, Left: time.Second, Fence: 8, Depth: 1, Limit: 1}},
		Record: &inspect.Record{State: inspect.RecordInProgress, Since: before(time.Second), Fence: 5},
	}
	var out strings.Builder
	wrote := func(write func()) string { out.Reset(); write(); return out.String() }
	assert.Equal(t, `k is held by a:1 for 1m30s
  fence  7
  left   20s
  calls  2
  what   me (limit 3) (revoked)
k is held by b:22 for 1.5s
  fence  812
  left   no end
  calls  0
  what   (done, its MinHold has not ended)
record: done 1h0m0s ago by a:1
  fence   5
  left    1m0s
  result  10 bytes
  what    request 7
last fence  9
5 waiting
  1.  c:3      for 5s (limit 3)
  2.  long:44  for 1s (shared)
      and 3 more
`, wrote(func() { writeLock(&out, full) }))
	assert.Equal(t, `s is held by a:1 for 0s
  fence  8
  left   1s
  calls  1
record: in progress for 1s
  fence  5
  left   no end
no other process waits
`, wrote(func() { writeLock(&out, small) }))
	assert.Equal(t, "record: damaged\n", wrote(func() { writeRecord(&out, inspect.Info{Record: &inspect.Record{State: damaged}}) }))

	table := func(columns int) string {
		return wrote(func() { writeTable(&out, []inspect.Info{full, small}, "", columns) })
	}
	all := `KEY  HELD BY  FOR    LEFT    WAITING   FENCE  WHAT
k    a:1      1m30s  20s     5 for 5s  7      me (limit 3) (revoked)
k    b:22     1.5s   no end            812    (done, its MinHold has not ended)
s    a:1      0s     1s      0         8      
`
	widest := len("k    b:22     1.5s   no end            812    (done, its MinHold has not ended)")
	assert.Equal(t, []string{all, all}, []string{table(0), table(widest)})
	assert.Equal(t, strings.Replace(all, "(done, its MinHold has not ended)", "(done, its MinHo… has not ended)", 1), table(widest-1))
	assert.Equal(t, strings.NewReplacer("(done, its MinHold has not ended)", "(don…ed)", "me (limit 3) (revoked)", "me (…ed)").Replace(all), table(20))

	text, err := json.Marshal(toJSON(full))
	require.NoError(t, err)
	assert.JSONEq(t, `{"key":"k","holders":[`+
		`{"instance":"a:1","metadata":"me","since":"2023-11-14T22:11:50Z","left":20,"fence":7,"depth":2,"limit":3,"revoked":true},`+
		`{"instance":"b:22","metadata":"","since":"2023-11-14T22:13:18.5Z","left":0,"fence":812,"depth":0,"limit":1,"revoked":false}],`+
		`"waiting":[{"instance":"c:3","since":"2023-11-14T22:13:15Z","asked":"2023-11-14T22:13:20Z","limit":3,"front":true},`+
		`{"instance":"long:44","since":"2023-11-14T22:13:19Z","limit":0,"front":false}],"queued":5,`+
		`"record":{"state":"done","instance":"a:1","metadata":"request 7","since":"2023-11-14T21:13:20Z","left":60,"fence":5,"size":10},`+
		`"last_fence":9,"now":"2023-11-14T22:13:20Z"}`, string(text))
}
