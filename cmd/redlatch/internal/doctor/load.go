package doctor

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/internal/capacity"
)

// watchTime is how long the use of the core is watched.
const watchTime = time.Second

// load says how much of its core the server spends, and how much more fits. begun is when s.info was asked for.
func (s *server) load(ctx context.Context, client redis.UniversalClient, begun time.Time) error {
	if _, known := s.info["used_cpu_user"]; !known {
		return nil
	}
	select {
	case <-time.After(time.Until(begun.Add(watchTime))):
	case <-ctx.Done():
		return ctx.Err()
	}
	asked := time.Now()
	text, err := client.Info(ctx, "everything").Result()
	if err != nil {
		return err
	}
	before, after := usageOf(s.info), usageOf(parse(text))
	took := after.at - before.at
	if before.at == 0 || took <= 0 { // an old server, or its clock was set
		took = asked.Sub(begun)
	}
	share := func(was, now time.Duration) float64 { return max(0, (now-was).Seconds()/took.Seconds()) }
	core, scripts := share(before.core, after.core), share(before.scripts, after.scripts)
	room := capacity.Measured.Room(core)
	level, fix := OK, ""
	if room == 0 {
		level, fix = Warn, "spread the keys on more servers, see docs/capacity.md; callers wait, and after a failover renewals come late"
	}
	s.say("load", level, fix, "it spends %.0f %% of its core, %.0f %% in %.0f scripts a second; about %.0f more lock cycles a second fit",
		100*core, 100*scripts, float64(max(0, after.calls-before.calls))/took.Seconds(), room)
	return nil
}

// usage is what a server has spent since it began.
type usage struct {
	at      time.Duration // by its clock
	core    time.Duration // of its main thread
	scripts time.Duration
	calls   int64 // of scripts
}

func usageOf(info map[string]string) (u usage) {
	micros, _ := strconv.ParseInt(info["server_time_usec"], 10, 64)
	u.at = time.Duration(micros) * time.Microsecond
	for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
		text, known := info[name+"_main_thread"]
		if !known {
			text = info[name]
		}
		seconds, _ := strconv.ParseFloat(text, 64)
		u.core += time.Duration(seconds * float64(time.Second))
	}
	for _, name := range []string{"eval", "evalsha"} {
		for field := range strings.SplitSeq(info["cmdstat_"+name], ",") {
			key, value, _ := strings.Cut(field, "=")
			n, _ := strconv.ParseInt(value, 10, 64)
			switch key {
			case "calls":
				u.calls += n
			case "usec":
				u.scripts += time.Duration(n) * time.Microsecond
			}
		}
	}
	return u
}

// connections says whether many more processes can connect.
func (s *server) connections() {
	now, most := s.number("connected_clients"), s.number("maxclients")
	if most == 0 {
		return
	}
	level, fix := OK, ""
	if now > most/10*8 {
		level, fix = Warn, "raise maxclients, or spread the processes on several servers, see docs/capacity.md"
	}
	s.say("connections", level, fix, "%d of %d connections; about %d more processes fit", now, most, capacity.Measured.Processes(int(most-now)))
}
