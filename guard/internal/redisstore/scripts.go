package redisstore

import (
	_ "embed"
	"strings"

	"github.com/redlatch/redlatch/guard/internal/redisconn"
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
	//go:embed lua/renew.lua
	renewLua string
	//go:embed lua/release.lua
	releaseLua string
	//go:embed lua/acquire_batch.lua
	acquireBatchLua string
	//go:embed lua/release_batch.lua
	releaseBatchLua string

	//go:embed lua/peek.lua
	peekLua string
	//go:embed lua/notify.lua
	notifyLua string
	//go:embed lua/rollback.lua
	rollbackLua string
	//go:embed lua/raise_fence.lua
	raiseFenceLua string

	acquireScript    = redisconn.NewScript(include(acquireLua))
	renewScript      = redisconn.NewScript(renewLua)
	releaseScript    = redisconn.NewScript(include(releaseLua))
	peekScript       = redisconn.NewScript(include(peekLua))
	notifyScript     = redisconn.NewScript(include(notifyLua))
	rollbackScript   = redisconn.NewScript(include(rollbackLua))
	raiseFenceScript = redisconn.NewScript(include(raiseFenceLua))

	acquireBatchScript = redisconn.NewScript(include(acquireBatchLua))
	releaseBatchScript = redisconn.NewScript(include(releaseBatchLua))
)

// Scripts are what is sent to Redis, by name. It says how the scripts of one server are
// loaded beforehand.
func Scripts() map[string]string {
	all := make(map[string]string)
	for name, s := range map[string]*redisconn.Script{
		"acquire": acquireScript, "release": releaseScript, "renew": renewScript,
		"acquire_batch": acquireBatchScript, "release_batch": releaseBatchScript,
		"share": shareScript, "unshare": unshareScript, "renew_shared": renewSharedScript,
		"peek": peekScript, "notify": notifyScript, "rollback": rollbackScript, "raise_fence": raiseFenceScript,
	} {
		all[name] = s.Source
	}
	return all
}

// include puts the shared parts where a script says so.
func include(source string) string {
	return strings.NewReplacer(
		"-- include clock\n", clockLua, "-- include expire\n", expireLua,
		"-- include take\n", takeLua, "-- include queue\n", queueLua,
		"-- include holders\n", holdersLua, "-- include admit\n", admitLua, "-- include serve\n", serveLua,
	).Replace(source)
}
