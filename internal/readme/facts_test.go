package readme

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A fact that a page states, and the line of code that makes it true: in a file, or in the Go files below a directory.
// Who changes the code finds the page here.
var facts = []struct{ page, says, where, code string }{
	{`docs/guides/shell.md`, `TERM comes 21.8 s after the last confirmed renewal, and KILL at 26.8 s`, `cmd/redlatch`, `r.reserve = min(max(ttl/50, 5*time.Millisecond), 200*time.Millisecond) r.grace = min(ttl/6, 5*time.Second)`},
	{`docs/guides/cron.md`, "`gocron:` and the job's name", `middleware/gocron`, `guard.JoinKey("gocron", job)`},
	{`docs/reference/errors.md`, "fails after `StoreTimeout` (2 s)", `guard`, `defaultStoreTimeout = 2 * time.Second`},
	{`docs/reference/errors.md`, `which returns after 250 ms`, `guard`, `250 * time.Millisecond`},
	{`docs/reference/errors.md`, `the first two in the queue once per second, the next six every 3 to 4 s, the others every 10 to 14 s`, `guard`, `pollFirst = time.Second pollNear = 3 * time.Second // to 4.2 s nearMost = 8 // claims, with the first two pollQueued = 10 * time.Second // to 14 s`},
	{`docs/guides/idempotency-keys.md`, `exceed 256 KiB`, `middleware/internal`, `= 256 << 10`},
	{`docs/guides/idempotency-keys.md`, `The body limit is 1 MiB`, `middleware/internal`, `axBody = 1 << 20`},
	{`docs/guides/watermill.md`, `busy (after 20 s)`, `middleware/watermill`, `20*time.Second`},
	{`docs/guides/asynq.md`, `busy (after 1 s in its worker)`, `middleware/asynq`, `time.Second`},
	{`docs/guides/river.md`, `busy (after 1 s)`, `middleware/river`, `time.Second`},
	{`docs/guides/grpc.md`, `A call waits 2 s for a busy lock`, `middleware/grpc`, `defaultWait = 2 * time.Second`},
	{`docs/operate/capacity.md`, `| a free lock is taken and released; 100 processes do so | 48.6 |`, `bench/RESULTS.md`, `| many | CPU of redis-server per acquisition, µs | 48.6 |`},
	{`docs/operate/capacity.md`, `512 callers of one process share connections | 6.9 |`, `bench/RESULTS.md`, `| distinct | CPU of redis-server per acquisition, µs, goroutines: 512 | 6.9 |`},
	{`docs/operate/capacity.md`, `1,000 callers wait for it | 136.1 |`, `bench/RESULTS.md`, `| big | 1000 waiting: Redis time per hand-over, µs | 136.1 |`},
	{`docs/reference/options.md`, "`TTL(d)` | 30 s | 100 ms to 24 h", `guard`, `DefaultTTL = 30 * time.Second`},
	{`docs/reference/options.md`, "`TTL(d)` | 30 s | 100 ms to 24 h", `guard`, `minTTL = 100 * time.Millisecond maxTTL = 24 * time.Hour`},
	{`docs/reference/options.md`, "`Metadata(text)` | none | 256 bytes of UTF-8", `guard`, `maxMetadataLength = 256`},
	{`docs/reference/options.md`, "`StoreTimeout(d)` | 2 s | 10 ms or more", `guard`, `defaultStoreTimeout = 2 * time.Second`},
	{`docs/reference/options.md`, "`StoreTimeout(d)` | 2 s | 10 ms or more", `guard`, `d < 10*time.Millisecond`},
	{`docs/reference/options.md`, "`HandoverWindow(d)` | 5 ms | 0 to 1 min", `guard`, `defaultHandoverWindow = 5 * time.Millisecond`},
	{`docs/reference/options.md`, "`HandoverWindow(d)` | 5 ms | 0 to 1 min", `guard`, `d > time.Minute`},
	{`docs/reference/options.md`, "`Prefix(text)` | \"redlatch\"", `guard`, `DefaultPrefix = "redlatch"`},
	{`docs/reference/options.md`, "`Limit(n)` | exclusive | 1 to 10,000", `guard`, `maxLimit = 10_000`},
	{`docs/reference/options.md`, "`Instance(text)` | host and process id | 128 bytes", `guard`, `maxInstanceLength = 128`},
	{`docs/reference/options.md`, `1 ms to 366 days`, `guard`, `minKeep = time.Millisecond maxKeep = 366 * 24 * time.Hour`},
	{`docs/reference/options.md`, "`MaxResult(bytes)` | 64 KiB; answers of HTTP routes 256 KiB | 1 byte to 1 MiB", `guard`, `defaultMaxResult = 64 << 10 // bytes maxMaxResult = 1 << 20`},
	{`docs/reference/options.md`, `For the next 30 s, or until Redis answers`, `guard`, `outageMemory = 30 * time.Second`},
	{`docs/reference/options.md`, `a duration between 0 and 1 ms`, `guard`, `d > 0 && d < time.Millisecond`},
	{`docs/reference/options.md`, `HTTP and gRPC: 2 s`, `middleware/internal`, `defaultWait = 2 * time.Second`},
	{`docs/reference/options.md`, `HTTP and gRPC: 2 s`, `middleware/grpc`, `defaultWait = 2 * time.Second`},
	{`docs/explain/guarantees.md`, `minus a tenth of the ttl and 2 ms`, `guard`, `ttl - ttl/10 - 2*time.Millisecond`},
	{`docs/explain/guarantees.md`, `A lock is renewed every third of the ttl (10 s)`, `guard`, `sent.Add(c.TTL / 3)`},
	{`docs/reference/keys-and-ttl.md`, `pipelines of up to 500`, `guard`, `batchSize = 500`},
	{`docs/reference/keys-and-ttl.md`, `UTF-8 of 1 to 512 bytes`, `guard`, `MaxKeyLength = 512`},
	{`docs/guides/several-keys.md`, `The maximum is 64 keys`, `internal/guardhook`, `MaxLocks = 64`},
	{`docs/guides/several-keys.md`, `n locks (1 to 65,536)`, `guard`, `maxStripes = 65536`},
	{`docs/guides/limits.md`, `n is at most 10,000`, `guard`, `maxLimit = 10_000`},
	{`docs/operate/inspect.md`, `While it holds or wants a lock, a Guard writes its`, `guard`, `heartbeatInterval = 20 * time.Second`},
	{`docs/operate/inspect.md`, `at most 10,000 locks, shows 1,000 rows, and takes at most 30 s`, `guard`, `maxKept = 10_000`},
	{`docs/operate/inspect.md`, `shows 1,000 rows`, `guard`, `maxRows = 1000`},
	{`docs/operate/inspect.md`, `at most 5 % of Redis's time`, `guard`, `listShare = 20`},
	{`docs/operate/inspect.md`, `yellow after 10 minutes`, `guard`, `longHeld = 10 * time.Minute`},
	{`docs/operate/redis.md`, "| commands | 4; with `Replicas`", `guard`, `inFlight = 4`},
	{`docs/operate/redis.md`, "at most 1 s plus the `Replicas` timeout", `guard`, `min(c.storeTimeout/2, time.Second+c.replicas.timeout)`},
	{`docs/operate/deploy.md`, `It gives pending commands 0.5 s`, `guard`, `closeGrace = 500 * time.Millisecond`},
	{`docs/operate/observe.md`, `at most once per 10 s`, `guard`, `every: 10 * time.Second`},
	{`docs/operate/observe.md`, `Beyond 1,000 names`, `tracing`, `mostNames = 1000`},
	{`docs/reference/compatibility.md`, `| go-redis | v9.22 |`, `go.mod`, `github.com/redis/go-redis/v9 v9.22.0`},
	{`docs/reference/compatibility.md`, "`guard` and net/http | 1.25", `go.mod`, `go 1.25.0`},
	{`docs/reference/compatibility.md`, `River, tracing and the command | 1.26`, `cmd/redlatch/go.mod`, `go 1.26.0`},
	{`docs/reference/compatibility.md`, `guardsql and the other adapters | 1.25`, `middleware/echo/go.mod`, `go 1.25.0`},
	{`docs/reference/compatibility.md`, `6.2, 7.4, the newest 8`, `.github/workflows/ci.yml`, `redis:7.4-bookworm`},
	{`docs/reference/compatibility.md`, `8.1, the newest 9`, `.github/workflows/ci.yml`, `valkey/valkey:8.1`},
	{`docs/reference/compatibility.md`, `gin v1.12`, `middleware/gin/go.mod`, `github.com/gin-gonic/gin v1.12`},
	{`docs/reference/compatibility.md`, `grpc-go v1.83`, `middleware/grpc/go.mod`, `google.golang.org/grpc v1.83`},
	{`docs/reference/compatibility.md`, `asynq v0.26`, `middleware/asynq/go.mod`, `github.com/hibiken/asynq v0.26`},
	{`docs/reference/compatibility.md`, `River v0.51`, `middleware/river/go.mod`, `github.com/riverqueue/river v0.51`},
	{`docs/reference/compatibility.md`, `watermill v1.5`, `middleware/watermill/go.mod`, `github.com/ThreeDotsLabs/watermill v1.5`},
	{`README.md`, `Go 1.25 (River, tracing: 1.26), go-redis 9.22`, `go.mod`, `go 1.25.0`},
	{`docs/guides/leader.md`, `random, growing pause (10 s at most)`, `guard`, `longest = 10 * time.Second`},
}

// A number in a page is the number in the code.
func TestFacts_AreThoseOfTheCode(t *testing.T) {
	sources := map[string]string{}
	for _, f := range facts {
		if !strings.Contains(spaced(read(t, f.page)), f.says) { // a whole page in a message would be no help
			t.Errorf("%s does not say %q", f.page, f.says)
		}
		code, known := sources[f.where]
		if !known {
			code = spaced(source(t, f.where))
			sources[f.where] = code
		}
		if !strings.Contains(code, f.code) {
			t.Errorf("%s says %q: %s has no %q", f.page, f.says, f.where, f.code)
		}
	}
}

// source returns a file, or the Go files below a directory, without tests.
func source(t *testing.T, where string) string {
	t.Helper()
	var all strings.Builder
	require.NoError(t, fs.WalkDir(os.DirFS(root), where, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && (name == where && !entry.IsDir() || path.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go")) {
			all.WriteString(read(t, name) + "\n")
		}
		return err
	}))
	return all.String()
}

// spaced returns text with one space in place of each white space.
func spaced(text string) string { return strings.Join(strings.Fields(text), " ") }

// How long work continues without Redis is calculated from the deadline (guard/internal/watchdog/grant.go) and the
// time of a renewal, which is due after a third of the ttl.
func TestFacts_WorkWithoutRedis(t *testing.T) {
	text := read(t, "docs/reference/keys-and-ttl.md")
	for label, ttl := range map[string]time.Duration{"3 s": 3 * time.Second, "10 s": 10 * time.Second, "30 s": 30 * time.Second, "2 min": 2 * time.Minute} {
		left := (ttl - ttl/10 - 2*time.Millisecond - ttl/3).Seconds()
		said := strings.TrimSuffix(fmt.Sprintf("%.1f", left), ".0")
		assert.Regexp(t, `(?m)^\| `+label+`[^|]*\| `+label+` \| `+said+` s \|`, text)
	}
	assert.Contains(t, spaced(read(t, "docs/explain/guarantees.md")), "26.998 s with the default ttl of 30 s")
}

var (
	optionFunc = regexp.MustCompile(`(?m)^func (\w+)\(.*\) (?:Option|LockOption|OnceOption)$`)
	optionRow  = regexp.MustCompile("(?m)^\\| `(\\w+)\\(")
)

// Each option of package guard has a row.
func TestFacts_AllOptions(t *testing.T) {
	assert.ElementsMatch(t,
		names(optionFunc, read(t, "internal/api/testdata/guard.txt")), names(optionRow, read(t, "docs/reference/options.md")))
}

var (
	metric    = regexp.MustCompile(`(?:Float64|Int64)\w+\("(redlatch\.[\w.]+)"`)
	metricRow = regexp.MustCompile("(?m)^\\| `(redlatch\\.[\\w.]+)` \\|")
	attribute = regexp.MustCompile(`"(redlatch\.lock\.[\w.]+)"`)
)

// Each metric has a row, and each attribute is named.
func TestFacts_AllMetrics(t *testing.T) {
	page := read(t, "docs/reference/metrics.md")
	files, err := filepath.Glob(filepath.Join(root, "tracing", "*.go"))
	require.NoError(t, err)
	var metrics, attributes []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		metrics = append(metrics, names(metric, string(text))...)
		attributes = append(attributes, names(attribute, string(text))...)
	}
	assert.ElementsMatch(t, metrics, names(metricRow, page))
	require.Greater(t, len(attributes), 10)
	for _, name := range attributes {
		assert.Contains(t, page, "`"+name+"`")
	}
}

func names(pattern *regexp.Regexp, text string) (all []string) {
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

var (
	qualified = regexp.MustCompile(`\b(guard\w*|embedded|storetest|inspect|quorum|tracing)\.([A-Z]\w*)`)
	apiOf     = map[string]string{
		"embedded": "guard-embedded", "storetest": "guard-guardstore-storetest", "inspect": "guard-inspect", "quorum": "guard-quorum",
		"guardstore": "guard-guardstore", "guardtest": "guard-guardtest", "guardslog": "guard-guardslog", "guardweb": "guard-inspect-guardweb",
		"guardhttp": "middleware-nethttp",
	}
)

// A name that a page mentions is exported.
func TestFacts_NamesAreExported(t *testing.T) {
	all := pages(t, "docs")
	all["README.md"], all["README.zh.md"] = read(t, "README.md"), read(t, "README.zh.md")
	for name, text := range all {
		for _, q := range qualified.FindAllStringSubmatch(text, -1) {
			api, listed := apiOf[q[1]]
			if !listed {
				api = strings.Replace(q[1], "guard", "middleware-", 1)
				if q[1] == "guard" || q[1] == "guardsql" || q[1] == "tracing" {
					api = q[1]
				}
			}
			exported := regexp.MustCompile(`\b` + q[2] + `\b`).MatchString(read(t, "internal/api/testdata/"+api+".txt"))
			assert.True(t, exported, "%s: %s", name, q[0])
		}
	}
}

var wish = regexp.MustCompile(`\[([^\]]{20,})\]\((docs/[^)]+\.md)\)`)

// What a user clicks in the README is the heading of the page.
func TestFacts_WishesAreHeadings(t *testing.T) {
	_, text, found := strings.Cut(read(t, "README.md"), "## I want to")
	require.True(t, found)
	text, _, _ = strings.Cut(text, "\n## ")
	wishes := wish.FindAllStringSubmatch(text, -1)
	require.Greater(t, len(wishes), 10)
	for _, w := range wishes {
		heading, _, _ := strings.Cut(read(t, w[2]), "\n")
		assert.True(t, strings.HasPrefix(strings.ToLower(heading), "# "+strings.ToLower(w[1])), "%s begins with %q, not with %q", w[2], heading, w[1])
	}
}

// cells are those of a row of a table.
func cells(row string) (all []string) {
	for cell := range strings.SplitSeq(strings.Trim(row, "| "), "|") {
		all = append(all, strings.TrimSpace(cell))
	}
	return all
}

// The README's table of faults is taken from the large one: a cell begins with how long two are at work. Its last row
// says which error the caller of a release is told.
func TestFacts_FaultsOfTheREADME(t *testing.T) {
	large := strings.Split(read(t, "internal/docs/faults-table.md"), "\n")
	_, table, found := strings.Cut(read(t, "README.md"), "| fault | redlatch | redsync | redislock | rueidislock |\n|---|---|---|---|---|\n")
	require.True(t, found)
	rows := strings.Split(strings.SplitN(table, "\n\n", 2)[0], "\n")
	require.Len(t, rows, 5)
	for i, row := range rows {
		said := cells(row)
		at := slices.IndexFunc(large, func(line string) bool { return strings.HasPrefix(line, "| "+said[0]+" | redlatch |") })
		require.NotEqual(t, -1, at, said[0])
		for j, says := range said[1:] {
			measured := cells(large[at+j]) // the fault or nothing, the library, two at work, …, what callers are told
			two, _, _ := strings.Cut(says, ";")
			if i == 4 {
				assert.Equal(t, strings.HasPrefix(measured[len(measured)-1], "no error"), two == "no error", "%s: %s", said[0], large[at+j])
				continue
			}
			assert.Equal(t, measured[len(measured)-5], two, "%s: %s", said[0], large[at+j])
		}
	}
}
