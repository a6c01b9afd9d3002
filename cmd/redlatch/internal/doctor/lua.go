package doctor

import (
	"slices"
	"strings"
)

// lua reports a server that lists its script engines, as Valkey 9.1 and later do, and has no Lua.
func (s *server) lua() {
	if _, known := s.info["engines_count"]; !known {
		return
	}
	for field, value := range s.info {
		if strings.HasPrefix(field, "engine_") && slices.ContainsFunc(strings.Split(value, ","), func(part string) bool {
			return strings.EqualFold(part, "name=lua")
		}) {
			return
		}
	}
	s.say("lua", Bad, noLuaFix, "it has no Lua, which takes and releases locks")
}

const noLuaFix = "load the module lua (since Valkey 9.1, Lua is one), or run a server that has it"

// hasNoLua distinguishes a server without Lua from one that refuses this user.
func hasNoLua(err error) bool {
	text := strings.ToLower(err.Error())
	return strings.Contains(text, "scripting engine") || strings.Contains(text, "unknown command")
}
