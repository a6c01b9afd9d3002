package readme

import (
	"maps"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
)

// counting wraps a script so that it returns how many commands it ran.
const counting = `local count, real = 0, redis
local redis = setmetatable({
  call = function(...) count = count + 1 return real.call(...) end,
  pcall = function(...) count = count + 1 return real.pcall(...) end,
}, {__index = redis})
local function body() %s end
body()
return count`

// counter runs scripts and notes what they cost.
type counter struct {
	t      *testing.T
	client *redis.Client
	costs  map[string]string // "| script | when |" -> commands
}

var include = regexp.MustCompile(`(?m)^ *-- include (\w+)\n`)

func (c *counter) source(name string) string {
	text, err := os.ReadFile("../../guard/internal/redisstore/lua/" + name + ".lua")
	if err != nil {
		text, err = os.ReadFile("../../guard/quorum/lua/" + name + ".lua")
	}
	require.NoError(c.t, err)
	return include.ReplaceAllStringFunc(string(text), func(line string) string {
		return c.source(include.FindStringSubmatch(line)[1])
	})
}

// run notes the cost under a row of the document; without one, it only runs the script.
func (c *counter) run(script, when string, keys []string, args ...any) {
	c.t.Helper()
	source := strings.Replace(counting, "%s", c.source(script)+"\n", 1)
	n, err := c.client.Eval(c.t.Context(), source, keys, args...).Int()
	require.NoError(c.t, err)
	if when != "" {
		c.costs["| "+script+" | "+when+" |"] = strconv.Itoa(n)
	}
}

var row = regexp.MustCompile(`(?m)^(\| \w+ \| [^|]+ \|) (\d+) \|$`)

// What the document says about the commands of scripts is what they run.
func TestProtocol_CostsInProtocolAreTrue(t *testing.T) {
	said := map[string]string{}
	for _, name := range []string{"protocol", "protocol-quorum"} {
		text, err := os.ReadFile("../../docs/" + name + ".md")
		require.NoError(t, err)
		for _, r := range row.FindAllStringSubmatch(string(text), -1) {
			said[r[1]] = r[2]
		}
	}
	var costs map[string]string
	for range 3 { // a script may do one step less if no millisecond ends between two others
		c := &counter{t: t, client: redistest.Start(t).Client(t), costs: map[string]string{}}
		c.oneServer()
		c.limits()
		c.quorum()
		if costs = c.costs; maps.Equal(costs, said) {
			return
		}
	}
	assert.Equal(t, costs, said)
}

func keysOf(tag string) []string {
	lock := "{" + tag + "}"
	return []string{lock, lock + ":queue", lock + ":last", lock + ":seen", lock + ":holders"}
}

func (c *counter) oneServer() {
	keys := keysOf("k")
	ttl := 20000
	acquire := func(when, owner, place string) {
		ttl++ // what is renewed has less than this left, however quick we are
		c.run("acquire", when, keys, owner, ttl, "", 0, place, "0channel:", "")
	}
	release := func(when, owner string) { c.run("release", when, keys, owner, 20000, 0, 0, 0, "0channel:") }
	renew := func(when string, args ...any) { c.run("renew", when, []string{keys[0], keys[4]}, args...) }
	acquire("free, nobody waits", "a-1", "0")
	acquire("the owner holds it already", "a-1", "0")
	fence := strings.Fields(c.client.HGet(c.t.Context(), keys[0], "a-1").Val())[1]
	renew("held", "a-1", fence, ttl+1, 1, "")
	renew("held, without a ttl", "a-1", fence, 0, 1, "")
	renew("the depth has changed", "a-1", fence, ttl+2, 2, "")
	renew("handed over since, with other metadata", "a-1", fence, ttl+3, 2, "b")
	renew("not held", "b-1", fence, 20000, 1, "")
	release("nobody waits", "a-1")
	release("released before", "a-1")
	c.run("acquire", "", keysOf("m"), "a-1", ttl, "", 0, "0", "0channel:", "")
	c.run("release", "nobody waits, its MinHold is not over", keysOf("m"), "a-1", 20000, 0, 0, 60000, "0channel:")
	acquire("the owner was released before", "a-1", "0")

	acquire("", "a-2", "0")
	acquire("busy, does not wait", "b-1", "")
	acquire("busy, enters the queue", "c-1", "0")
	acquire("busy, asks again", "c-1", "0")
	acquire("", "d-1", "0")
	acquire("", "e-1", "0")
	release("granted to one of three that wait", "a-2")

	two := []string{"{a}", "{a}:queue", "{a}:last", "{b}", "{b}:queue", "{b}:last"}
	c.run("acquire_batch", "two free ones", two, "g-1", 20000, "", "g-2", 20000, "")
	c.run("release_batch", "two", two, "g-1", 20000, 0, "g-2", 20000, 0)
	c.run("acquire_batch", "", two[:3], "g-3", 20000, "")
	c.run("acquire_batch", "one free, one not", two, "g-4", 20000, "", "g-5", 20000, "")
}

// limits is for owners that tolerate others.
func (c *counter) limits() {
	keys := keysOf("l")
	ttl := 20000
	acquire := func(when, owner, place string) {
		ttl++ // as above
		c.run("acquire", when, keys, owner, ttl, "", 0, place, "0channel:", "")
	}
	release := func(when, owner string) { c.run("release", when, keys, owner, 20000, 0, 0, 0, "0channel:") }
	acquire("", "a-0.1", "0")
	acquire("the second one inside", "b-0.1", "0")
	acquire("joins several", "c-0.1", "0")
	acquire("one of several asks again", "b-0.1", "0")
	fence := strings.Fields(c.client.HGet(c.t.Context(), keys[0], "b-0.1").Val())[1]
	c.run("renew", "one of several", []string{keys[0], keys[4]}, "b-0.1", fence, ttl+1, 1, "")
	release("others stay inside", "b-0.1")
	release("", "c-0.1")
	acquire("", "b-2.1", "0")
	acquire("full, does not wait", "c-2.1", "")
	acquire("full, enters the queue", "c-2.1", "0")
	acquire("full, asks again", "c-2.1", "0")
	release("lets in who waits", "a-0.1")
	release("", "c-2.1")
	release("the last of several", "b-2.1")
}

func (c *counter) quorum() {
	keys := keysOf("q")
	wake := []string{keys[0], keys[1], "{q}:wake"}
	acquire := func(owner string) {
		c.run("acquire", "", keys, owner, 30000, "", 0, "", "0channel:", "")
	}
	release := func(when, owner string) {
		c.run("release_and_notify", when, append(keysOf("q"), "{q}:wake"), owner, 20000, 0, 0, 0, "0channel:")
	}
	wait := func(when, owner string) { c.run("peek", when, wake, owner, 0) }
	acquire("a-1~1")
	release("held, nobody waits", "a-1~1")
	wait("enters the list", "b-1")
	wait("asks again", "b-1")
	wait("", "c-1")
	acquire("a-2~1")
	release("held, two wait", "a-2~1")

	c.run("rollback", "nothing there", wake, "a-3~1", 0, "")
	acquire("a-3~1")
	c.run("raise_fence", "held", []string{keys[0], keys[2]}, "a-3~1", 1<<52, 60000)
	c.run("rollback", "held, with a tombstone", wake, "a-3~1", 1, "")
}
