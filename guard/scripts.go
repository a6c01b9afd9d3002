package guard

import (
	_ "embed"
	"strings"
)

var (
	//go:embed lua/clock.lua
	clockLua string
	//go:embed lua/expire.lua
	expireLua string
	//go:embed lua/take.lua
	takeLua string
	//go:embed lua/queue.lua
	queueLua string
	//go:embed lua/acquire.lua
	acquireLua string
	//go:embed lua/depth.lua
	depthLua string
	//go:embed lua/renew.lua
	renewLua string
	//go:embed lua/release.lua
	releaseLua string
	//go:embed lua/acquire_many.lua
	acquireManyLua string
	//go:embed lua/release_many.lua
	releaseManyLua string

	//go:embed lua/wait.lua
	waitLua string
	//go:embed lua/wake.lua
	wakeLua string
	//go:embed lua/undo.lua
	undoLua string
	//go:embed lua/raise.lua
	raiseLua string

	acquireScript = newScript(include(acquireLua))
	depthScript   = newScript(depthLua)
	renewScript   = newScript(renewLua)
	releaseScript = newScript(include(releaseLua))
	waitScript    = newScript(include(waitLua))
	wakeScript    = newScript(include(wakeLua))
	undoScript    = newScript(include(undoLua))
	raiseScript   = newScript(include(raiseLua))

	acquireManyScript = newScript(include(acquireManyLua))
	releaseManyScript = newScript(include(releaseManyLua))
)

// include puts the shared parts where a script says so.
func include(source string) string {
	return strings.NewReplacer(
		"-- include clock\n", clockLua, "-- include expire\n", expireLua,
		"-- include take\n", takeLua, "-- include queue\n", queueLua,
	).Replace(source)
}
