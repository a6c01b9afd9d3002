package readme

import (
	"fmt"
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
	ttl    int
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
	for _, name := range []string{"internal/docs/protocol.md", "internal/docs/protocol-quorum.md"} {
		for _, r := range row.FindAllStringSubmatch(read(t, name), -1) {
			said[r[1]] = r[2]
		}
	}
	var costs map[string]string
	for range 3 { // a script may do one step less if no millisecond ends between two others
		c := &counter{t: t, client: redistest.Start(t).Client(t), costs: map[string]string{}, ttl: 20000}
		c.oneServer()
		c.quorum()
		if costs = c.costs; maps.Equal(costs, said) {
			return
		}
	}
	assert.Equal(t, costs, said)
}

func keysOf(tag string) []string {
	lock := "{" + tag + "}"
	return []string{lock, lock + ":queue", lock + ":ended", lock + ":seen", lock + ":holders"}
}

func (c *counter) acquire(tag, when, owner, place string) {
	if strings.Contains(owner, ".") {
		place += " 0"
	}
	c.run("acquire", when, keysOf(tag), "0channel:", owner, c.ttl, "", place)
}

func (c *counter) release(tag, when, owner string, keep int) {
	how := ""
	if keep > 0 || strings.Contains(owner, ".") {
		how = fmt.Sprint("0 ", keep, " -")
	}
	c.run("release", when, keysOf(tag), "0channel:", owner, how)
}

func (c *counter) renew(tag, when, owner string, ttl, depth int, metadata string) {
	keys := keysOf(tag)
	holder := strings.Fields(c.client.HGet(c.t.Context(), keys[0], owner).Val())
	keys = []string{keys[0], keys[4]}
	if !strings.Contains(owner, ".") {
		keys = keys[:1]
	}
	c.run("renew", when, keys, owner, append(holder, "", "1")[1], ttl, depth, metadata)
}

func (c *counter) oneServer() {
	c.acquire("k", "free, no claim waits", "a-1", "0")
	c.acquire("k", "the owner holds it already", "a-1", "0")
	c.renew("k", "held", "a-1", c.ttl, 1, "")
	c.renew("k", "", "b-1", 20000, 1, "")
	c.release("k", "no claim waits", "a-1", 0)
	c.release("k", "not held", "a-1", 0)
	c.acquire("m", "", "a-1", "0")
	c.release("m", "no claim waits, its MinHold has not passed", "a-1", 60000)

	c.acquire("k", "", "a-2", "0")
	c.acquire("k", "", "b-1", "-")
	c.acquire("k", "busy, enters the queue", "c-1", "0")
	place := strconv.FormatFloat(c.client.ZScore(c.t.Context(), "{k}:queue", "c-1").Val(), 'f', 0, 64)
	c.acquire("k", "busy, asks again", "c-1", place+" 0")
	c.acquire("k", "busy, enters behind another", "d-1", "0")
	c.acquire("k", "", "e-1", "0")
	c.release("k", "granted to one of three that wait", "a-2", 0)
	c.acquire("k", "it was granted to the owner", "c-1", place+" 0")

	two := append(keysOf("a"), keysOf("b")...)
	c.run("acquire", "two free ones", two, "0channel:", "g-1", 20000, "", "0", "g-2", 20000, "", "0")
	c.run("release", "", two, "0channel:", "g-1", "", "g-2", "")
	c.run("release", "", keysOf("c"), "0channel:", "dead-1", "0 0 t")
	c.acquire("c", "free, but an owner ended in doubt", "g-3", "0")

	c.acquire("l", "the first of several", "a-0.1", "0") // owners that tolerate others
	c.acquire("l", "joins others", "b-0.1", "0")
	c.acquire("l", "", "c-0.1", "0")
	c.acquire("l", "one of several asks again", "b-0.1", "0")
	c.renew("l", "one of several", "b-0.1", c.ttl, 1, "")
	c.release("l", "others stay inside", "b-0.1", 0)
	c.release("l", "", "c-0.1", 0)
	c.acquire("l", "", "b-2.1", "0")
	c.acquire("l", "full, does not wait", "c-2.1", "-")
	c.acquire("l", "full, enters the queue", "c-2.1", "0")
	c.acquire("l", "", "c-2.1", "0")
	c.release("l", "lets in a waiting owner", "a-0.1", 0)
	c.release("l", "", "c-2.1", 0)
	c.release("l", "the last of several", "b-2.1", 0)
}

func (c *counter) quorum() {
	keys := keysOf("q")
	wake := []string{keys[0], keys[2], "{q}:wake"}
	release := func(when, owner string) {
		c.run("release_and_notify", when, append(keysOf("q"), "{q}:wake"), "0channel:", owner, "")
	}
	c.acquire("q", "", "a-1~1", "-")
	release("held, no claim waits", "a-1~1")
	c.run("peek", "enters the list", wake, "b-1", 0)
	c.run("peek", "asks again", wake, "b-1", 0)
	c.run("peek", "", wake, "c-1", 0)
	c.acquire("q", "", "a-2~1", "-")
	release("held, two wait", "a-2~1")

	c.run("rollback", "nothing there", wake, "a-3~1", 0, "")
	c.acquire("q", "", "a-3~1", "-")
	c.run("raise_fence", "held", []string{keys[0], keys[2]}, "a-3~1", 1<<52)
	c.run("rollback", "held, with a tombstone", wake, "a-3~1", 1, "")
}
