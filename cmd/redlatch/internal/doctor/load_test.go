package doctor_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/doctor"
	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/capacity"
	"github.com/redlatch/redlatch/internal/redistest"
)

// twice gives one answer to the first INFO, and another one to the next.
type twice struct {
	answers
	texts [2]string
	asked *atomic.Int32
}

func (h twice) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if info, ok := cmd.(*redis.StringCmd); ok && cmd.Name() == "info" {
			info.SetVal(h.texts[min(h.asked.Add(1), 2)-1])
		}
		return err
	}
}

func lines(all ...string) string { return strings.Join(all, "\r\n") + "\r\n" }

func TestLoad_IsWhatTheCoreSpentBetweenTwoAnswers(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	before := lines("server_time_usec:5000000", "used_cpu_user:900", "used_cpu_sys:900",
		"used_cpu_user_main_thread:10.0", "used_cpu_sys_main_thread:5.0",
		"cmdstat_eval:calls=5,usec=5,usec_per_call=1.00", "cmdstat_evalsha:calls=100,usec=1000,usec_per_call=10.00")
	for _, test := range []struct {
		user, sys float64
		level     doctor.Level
		says      string
		room      float64
	}{
		{10.6, 5.2, doctor.OK, "it spends 40 %% of its core, 31 %% in 12000 scripts a second; about %.0f more lock cycles a second fit", 0.4},
		{11.0, 5.8, doctor.Warn, "it spends 90 %% of its core, 31 %% in 12000 scripts a second; about %.0f more lock cycles a second fit", 0.9},
	} {
		client := s.Client(t)
		client.AddHook(twice{texts: [2]string{before, lines("server_time_usec:7000000", "used_cpu_user:990", "used_cpu_sys:990",
			fmt.Sprintf("used_cpu_user_main_thread:%f", test.user), fmt.Sprintf("used_cpu_sys_main_thread:%f", test.sys),
			"cmdstat_eval:calls=1005,usec=5", "cmdstat_evalsha:calls=23100,usec=621000,usec_per_call=10.00")}, asked: new(atomic.Int32)})
		f := examine(t, client)["load"]
		assert.Equal(t, test.level, f.Level)
		assert.Equal(t, fmt.Sprintf(test.says, capacity.Measured.Room(test.room)), f.Says)
	}
}

// A server that does not tell its time, or its main thread's, has a load all the same.
func TestLoad_OfAnOldServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := s.Client(t)
	client.AddHook(twice{texts: [2]string{lines("used_cpu_user:1", "used_cpu_sys:1"), lines("used_cpu_user:9", "used_cpu_sys:9")}, asked: new(atomic.Int32)})
	assert.Equal(t, doctor.Warn, examine(t, client)["load"].Level)

	client = s.Client(t)
	client.AddHook(answers{info: lines("redis_version:7.0.0")})
	assert.NotContains(t, examine(t, client), "load", "nothing is known of it")
}

func TestLoad_OfARealServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	g, err := guard.New(s.Client(t))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		var err error
		for err == nil && ctx.Err() == nil {
			err = g.WithLock(t.Context(), guard.Key("busy"), func(context.Context) error { return nil })
		}
		done <- err
	}()
	f := examine(t, s.Client(t))["load"]
	cancel()
	require.NoError(t, <-done)
	require.NoError(t, g.Close())
	assert.Regexp(t, `^it spends \d+ % of its core, \d+ % in [1-9]\d* scripts a second; about \d+ more lock cycles a second fit$`, f.Says)
}

func TestLoad_Connections(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for used, level := range map[int]doctor.Level{7000: doctor.OK, 9000: doctor.Warn} {
		client := s.Client(t)
		client.AddHook(answers{info: lines(fmt.Sprintf("connected_clients:%d", used), "maxclients:10000")})
		f := examine(t, client)["connections"]
		assert.Equal(t, level, f.Level)
		assert.Equal(t, fmt.Sprintf("%d of 10000 connections; about %d more processes fit", used, (10_000-used)/capacity.Measured.Connections), f.Says)
	}
}

func TestLoad_MemorySaysHowManyMoreLocksFit(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := s.Client(t)
	client.AddHook(answers{info: lines("maxmemory_policy:noeviction", "maxmemory:2000000", "used_memory:1000000")})
	assert.Equal(t, fmt.Sprintf("maxmemory-policy is noeviction, and about %d more held locks fit", 1_000_000/capacity.Measured.HeldBytes),
		examine(t, client)["memory"].Says)
}
