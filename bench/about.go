package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// aboutRun says what this was measured with, a line for each thing.
func aboutRun(ctx context.Context, b *bench) ([]string, error) {
	info, err := b.client.Info(ctx, "server").Result()
	if err != nil {
		return nil, err
	}
	about := []string{
		time.Now().UTC().Format(time.DateOnly),
		strings.TrimSpace(fmt.Sprintf("%s/%s, %d CPUs %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), cpuModel())),
		"redis-server " + field(info, "redis_version:") + " on " + field(info, "os:") + ", over loopback",
		runtime.Version(),
	}
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, d := range build.Deps {
			for _, name := range []string{"go-redis/v9", "redsync/v4", "redislock", "rueidis"} {
				if strings.HasSuffix(d.Path, "/"+name) {
					about = append(about, d.Path+" "+d.Version)
				}
			}
		}
	}
	if load := fileText("/proc/loadavg"); load != "" {
		about = append(about, "load average before: "+strings.Join(strings.Fields(load)[:3], " "))
	}
	about = append(about, fmt.Sprintf("rounds: %d", b.rounds))
	return about, nil
}

// cpuModel is empty where it cannot be told.
func cpuModel() string {
	return strings.TrimSpace(strings.TrimLeft(field(fileText("/proc/cpuinfo"), "model name"), "\t :"))
}

func fileText(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(text)
}

// field is what follows a prefix in the first line that has it.
func field(text, prefix string) string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, prefix); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
