package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// number is a version.
type number struct{ major, minor, patch int }

func (n number) String() string { return fmt.Sprintf("%d.%d.%d", n.major, n.minor, n.patch) }

func (n number) compare(other number) int {
	return slices.Compare([]int{n.major, n.minor, n.patch}, []int{other.major, other.minor, other.patch})
}

// luaHoles are those by which a script runs code of its own on the server, and the first version without in
// each line that was mended. What is newer than the last of them never had the hole.
var luaHoles = []struct {
	cve    string
	mended map[string][]number
}{
	{"CVE-2024-46981", map[string][]number{
		"Redis":  {{6, 2, 17}, {7, 2, 7}, {7, 4, 2}},
		"Valkey": {{7, 2, 8}, {8, 0, 2}},
	}},
	{"CVE-2025-49844", map[string][]number{
		"Redis":  {{6, 2, 20}, {7, 2, 11}, {7, 4, 6}, {8, 0, 4}, {8, 2, 2}},
		"Valkey": {{7, 2, 11}, {8, 0, 6}, {8, 1, 4}},
	}},
}

// has says whether a version is none of those that were mended, nor a later one.
func has(is number, mended []number) bool {
	for _, first := range mended {
		if first.major == is.major && first.minor == is.minor {
			return is.patch < first.patch
		}
	}
	return is.compare(mended[len(mended)-1]) < 0
}

// lua looks at what runs the scripts. name is that of the server's kind.
func (s *server) lua(name string, is number) {
	if _, known := s.info["engines_count"]; known && !s.runsLua() {
		s.say("lua", Bad, noLuaFix, "it has no Lua, by which locks are taken and released")
		return
	}
	var known []string
	for _, hole := range luaHoles {
		if has(is, hole.mended[name]) {
			known = append(known, hole.cve)
		}
	}
	if len(known) == 0 {
		return
	}
	mended := luaHoles[len(luaHoles)-1].mended[name]
	s.say("lua", Warn, fmt.Sprintf("run one of %v or later. Packages of a distribution may be mended without a new number: ask it. "+
		"Until then, let nobody EVAL whom you do not trust", mended),
		"%s %v has a known hole in Lua (%s): whoever may run a script may run code on the server", name, is, strings.Join(known, ", "))
}

// runsLua looks for Lua among the engines that Valkey 9.1 and later list.
func (s *server) runsLua() bool {
	for field, value := range s.info {
		if strings.HasPrefix(field, "engine_") && slices.ContainsFunc(strings.Split(value, ","), func(part string) bool {
			return strings.EqualFold(part, "name=lua")
		}) {
			return true
		}
	}
	return false
}

const noLuaFix = "load the module lua (since Valkey 9.1, Lua is one), or run a server that has it"

// hasNoLua distinguishes a server without Lua from one that refuses this user.
func hasNoLua(err error) bool {
	text := strings.ToLower(err.Error())
	return strings.Contains(text, "scripting engine") || strings.Contains(text, "unknown command")
}
