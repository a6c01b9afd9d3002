package chaos_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// leftoverTimeout is how long after the end a lock may stay: that of a worker that was
// killed late, or closed while Redis did not answer. Clocks may have been set back meanwhile.
const leftoverTimeout = 2*longestTTL + 2*farClock + 5*time.Second

// leftovers says what workers that ended in good order left, and what stays for
// ever. Places in a queue of those that were killed stay for a minute.
func (n *network) leftovers(t *testing.T, instances []string) (left []string) {
	t.Helper()
	for begun := time.Now(); ; rest(50*time.Millisecond, nil) {
		left = nil
		for i, admin := range n.admins {
			for range admin.PubSubChannels(t.Context(), "redlatch:*").Val() {
				left = append(left, "a subscription")
			}
			if n.isPrimary(i) { // else it has what another has, too
				left = append(left, leftoversOf(t, admin, instances)...)
				left = append(left, n.clocks.rememberedFor(i, admin)...)
			}
		}
		if len(left) == 0 || time.Since(begun) > leftoverTimeout {
			return left
		}
	}
}

func leftoversOf(t *testing.T, admin *redis.Client, instances []string) (left []string) {
	t.Helper()
	names, err := admin.Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	for _, name := range names {
		ttl, err := admin.PTTL(t.Context(), name).Result()
		require.NoError(t, err)
		if ttl == -1 {
			left = append(left, fmt.Sprintf("%q has no ttl", name))
		}
		if strings.HasSuffix(name, "}") && ttl != -2 {
			left = append(left, fmt.Sprintf("%q is locked for %v", name, ttl))
		}
		for _, owner := range waiting(t.Context(), admin, name) {
			if instance, _, _ := strings.Cut(owner, "-"); slices.Contains(instances, instance) {
				left = append(left, fmt.Sprintf("%q holds a place of a worker that ended in good order", name))
			}
		}
	}
	return left
}

// waiting returns the owners that wait according to a key.
func waiting(ctx context.Context, admin *redis.Client, name string) []string {
	switch {
	case strings.HasSuffix(name, "}:queue"), strings.HasSuffix(name, "}:wake"):
		return admin.ZRange(ctx, name, 0, -1).Val()
	case strings.HasSuffix(name, "}:seen"):
		return admin.HKeys(ctx, name).Val()
	}
	return nil
}
