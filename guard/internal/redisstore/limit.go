package redisstore

import (
	_ "embed"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/redisconn"
)

// The scripts of those who tolerate others, see guardstore.Claim.Limit.
var (
	//go:embed lua/holders.lua
	holdersLua string
	//go:embed lua/admit.lua
	admitLua string
	//go:embed lua/serve.lua
	serveLua string
	//go:embed lua/share.lua
	shareLua string
	//go:embed lua/unshare.lua
	unshareLua string
	//go:embed lua/renew_shared.lua
	renewSharedLua string

	shareScript       = redisconn.NewScript(include(shareLua))
	unshareScript     = redisconn.NewScript(include(unshareLua))
	renewSharedScript = redisconn.NewScript(renewSharedLua)
)

// among gives the script that fits a limit.
func among(limit guardstore.Limit, alone, beside *redisconn.Script) *redisconn.Script {
	if limit == guardstore.Exclusive {
		return alone
	}
	return beside
}

// renewal renews a grant.
func (s *Store) renewal(g *guardstore.Grant) redisconn.Command {
	on, ttl := []string{s.lockKey(g.Key)}, g.TTL.Milliseconds()
	if g.Limit == guardstore.Exclusive {
		return renewScript.With(on, &g.Owner, &g.Fence, &ttl, g.Depth, &g.Metadata)
	}
	return renewSharedScript.With(on, &g.Owner, &g.Fence, &ttl)
}
