package redisstore

import (
	"embed"
	"regexp"

	"github.com/redlatch/redlatch/guard/internal/redisconn"
)

//go:embed lua
var lua embed.FS

var (
	acquireScript = redisconn.NewScriptOfMany(source(lua, "acquire"))
	releaseScript = redisconn.NewScriptOfMany(source(lua, "release"))
	renewScript   = redisconn.NewScriptOfMany(source(lua, "renew"))
	forgetScript  = Load(lua, "forget")
)

// Folder has a folder lua with scripts.
type Folder interface {
	ReadFile(name string) ([]byte, error)
}

// Load makes a script of a file in a folder. It includes files of that folder, else of this package.
func Load(from Folder, name string) *redisconn.Script {
	return redisconn.NewScript(source(from, name))
}

var include = regexp.MustCompile(`(?m)^ *-- include (\w+)\n`)

// source returns the text of a file, with the files that it includes.
func source(from Folder, name string) string {
	text, err := from.ReadFile("lua/" + name + ".lua")
	if err != nil {
		text, err = lua.ReadFile("lua/" + name + ".lua")
	}
	if err != nil {
		panic(err) // it is not in the program
	}
	return include.ReplaceAllStringFunc(string(text), func(line string) string {
		return source(from, include.FindStringSubmatch(line)[1])
	})
}
