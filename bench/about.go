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
func aboutRun(ctx context.Context, b *bench) (server string, about []string, err error) {
	info, err := b.client.Info(ctx, "server").Result()
	if err != nil {
		return "", nil, err
	}
	server = "Redis " + field(info, "redis_version:")
	if version := field(info, "valkey_version:"); version != "" {
		server = "Valkey " + version
	}
	about = []string{
		time.Now().UTC().Format(time.DateOnly),
		strings.TrimSpace(fmt.Sprintf("%s/%s, %d CPUs %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), cpuModel())),
		server + " on " + field(info, "os:") + ", over loopback",
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
	return server, about, nil
}

// loadAverage is how many tasks ran, or were ready to, on average over 1, 5 and 15 minutes.
func loadAverage() string {
	if load := strings.Fields(fileText("/proc/loadavg")); len(load) > 2 {
		return strings.Join(load[:3], " ")
	}
	return "not known"
}

// cpuModel is empty where it is unknown.
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
