package redisstore

import (
	"embed"
	"regexp"

	"github.com/redlatch/redlatch/guard/internal/redisconn"
)

//go:embed lua
var lua embed.FS

var (
	acquireScript      = load("acquire")
	releaseScript      = load("release")
	renewScript        = load("renew")
	acquireBatchScript = load("acquire_batch")
	releaseBatchScript = load("release_batch")
	forgetScript       = load("forget")

	peekScript       = load("peek")
	notifyScript     = load("notify")
	rollbackScript   = load("rollback")
	raiseFenceScript = load("raise_fence")
)

// Scripts are what is sent to Redis, by name. It says how the scripts of one server are
// loaded beforehand.
func Scripts() map[string]string {
	all := make(map[string]string)
	for name, s := range map[string]*redisconn.Script{
		"acquire": acquireScript, "release": releaseScript, "renew": renewScript,
		"acquire_batch": acquireBatchScript, "release_batch": releaseBatchScript, "forget": forgetScript,
		"peek": peekScript, "notify": notifyScript, "rollback": rollbackScript, "raise_fence": raiseFenceScript,
	} {
		all[name] = s.Source
	}
	return all
}

func load(name string) *redisconn.Script { return redisconn.NewScript(source(name)) }

var include = regexp.MustCompile(`(?m)^ *-- include (\w+)\n`)

// source is the text of a file in lua, with the parts that it includes.
func source(name string) string {
	text, err := lua.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // it is not in the program
	}
	return Include(string(text))
}

// Include puts the shared parts of lua where a script says so.
func Include(script string) string {
	return include.ReplaceAllStringFunc(script, func(line string) string {
		return source(include.FindStringSubmatch(line)[1])
	})
}
