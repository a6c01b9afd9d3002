package model

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/internal/model/replay"
)

// server runs scripts on a Redis.
type server struct{ *replay.Server }

// embedded starts a Redis with a clock that is set. Scripts are changed by alter, if there
// is one.
func embedded(t *testing.T, alter func(name, source string) string) *server {
	t.Helper()
	return &server{replay.Embedded(t, owners, alter)}
}

func (s *script) args() (name string, args []any) {
	prefix := "1c:"
	if s.anywhere {
		prefix = "0c:"
	}
	own, ms := s.name(0), ttl.Milliseconds()
	if !s.release {
		place := ""
		switch {
		case s.queue && s.place > 0:
			place = fmt.Sprint(s.placeOf(s.place))
		case s.queue:
			place = "0"
		}
		flags := ""
		if s.unsubscribed {
			flags = "u"
		}
		return "acquire", []any{own, ms, s.meta(0), s.text(s.floor), place, prefix, flags}
	}
	inDoubt, keep := 0, int64(0)
	if s.inDoubt {
		inDoubt = 1
	}
	if s.keep {
		keep = minHold.Milliseconds()
	}
	return "release", []any{own, ms, s.text(s.above), inDoubt, keep, prefix}
}

// run runs a call on a server, and says what is not as it should be.
func (s *server) run(t *testing.T, r *rules, c call, v *variant) string {
	t.Helper()
	ctx := t.Context()
	at, spread := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), 8*time.Microsecond
	if s.Embed == nil {
		now, err := s.Client.Time(ctx).Result()
		require.NoError(t, err)
		at, spread = now, 20*time.Second
	} else {
		s.Embed.SetTime(at)
	}
	w := write(r, c, v, at.UnixMicro(), spread.Microseconds())
	require.NoError(t, s.Put(ctx, w.before.Content))
	name, args := w.args()
	reply, err := s.Client.EvalSha(ctx, s.Scripts[name], replay.Keys, args...).Result()
	if err != nil {
		return fmt.Sprintf("%s %v: %v", name, args, err)
	}
	after, err := s.Look(ctx)
	require.NoError(t, err)
	heard := s.Messages(t)
	list, isList := reply.([]any)
	if !isList {
		list = []any{reply}
	}
	return w.differs(name, args, list, content{after}, heard, s.Embed == nil)
}

// differs compares what a script did with what the model says.
func (s *script) differs(name string, args, reply []any, after content, heard []string, moves bool) string {
	see := func(x any) string { return fmt.Sprintf("%+v", x) }
	if moves {
		see = s.still
		for _, p := range [][2]*time.Duration{
			{&after.LockTTL, &s.after.LockTTL},
			{&after.LastTTL, &s.after.LastTTL},
			{&after.QueueTTL, &s.after.QueueTTL},
			{&after.SeenTTL, &s.after.SeenTTL},
		} {
			if *p[0] <= *p[1] && *p[0] > *p[1]-slack {
				*p[0] = *p[1]
			}
		}
		if len(reply) >= 5 && len(s.reply) == len(reply) {
			if left, ok := reply[0].(int64); ok && left <= s.reply[0].(int64) && left > s.reply[0].(int64)-slack.Milliseconds() {
				reply[0] = s.reply[0]
			}
		}
		after.Last, s.after.Last = untilLast.ReplaceAllString(after.Last, "$1"), untilLast.ReplaceAllString(s.after.Last, "$1")
	}
	var wrong []string
	for _, c := range []struct {
		what      string
		want, got any
	}{
		{"reply", s.reply, reply},
		{"lock", s.after.Lock, after.Lock},
		{"its ttl", s.after.LockTTL, after.LockTTL},
		{"last", s.after.Last, after.Last},
		{"its ttl", s.after.LastTTL, after.LastTTL},
		{"queue", s.after.Queue, after.Queue},
		{"its ttl", s.after.QueueTTL, after.QueueTTL},
		{"seen", s.after.Seen, after.Seen},
		{"its ttl", s.after.SeenTTL, after.SeenTTL},
		{"messages", slices.Concat([]string{}, s.heard), slices.Concat([]string{}, heard)},
	} {
		if want, got := see(c.want), see(c.got); want != got {
			wrong = append(wrong, fmt.Sprintf("  %s: model %s\n    script %s", c.what, want, got))
		}
	}
	if len(wrong) == 0 {
		return ""
	}
	return fmt.Sprintf("%+v\n%s, found %+v\n%s %v\n%s", s.call, s.variant.name, s.before, name, args, strings.Join(wrong, "\n"))
}

// slack is how long a script and what is done before may take on a server whose clock goes on.
const slack = 4 * time.Second

// untilLast is what last says of its end.
var untilLast = regexp.MustCompile(`^(\d+ \S*) \d+$`)

var number = regexp.MustCompile(`\d{14,}|\d\.\d+e\+1\d`)

// still writes every time that may be that of the script as the same one.
func (s *script) still(x any) string {
	return number.ReplaceAllStringFunc(fmt.Sprintf("%+v", x), func(text string) string {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return text
		}
		n := int64(f)
		for _, at := range []int64{s.at, s.at + keeps.Microseconds()} {
			if n >= at && n < at+slack.Microseconds() {
				return fmt.Sprint("clock", cmp.Compare(at, s.at))
			}
		}
		return strconv.FormatInt(n, 10)
	})
}
