package readme

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

// A page says what another file of the repository decides: the versions of a go.mod, the results of bench.
var facts = []struct{ page, says, file, line string }{
	{`docs/operate/capacity.md`, `| a free lock is taken and released; 100 processes do so | 48.6 |`, `bench/RESULTS.md`, `| many | CPU of redis-server per acquisition, µs | 48.6 |`},
	{`docs/operate/capacity.md`, `512 callers of one process share connections | 6.9 |`, `bench/RESULTS.md`, `| distinct | CPU of redis-server per acquisition, µs, goroutines: 512 | 6.9 |`},
	{`docs/operate/capacity.md`, `1,000 callers wait for it | 136.1 |`, `bench/RESULTS.md`, `| big | 1000 waiting: Redis time per hand-over, µs | 136.1 |`},
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
}

func TestFacts_VersionsAndResults(t *testing.T) {
	for _, f := range facts {
		says(t, f.page, f.says)
		says(t, f.file, f.line)
	}
}

// says checks that a file has a text, whatever the space between its words. A whole page in a message would be no help.
func says(t *testing.T, file, text string) {
	t.Helper()
	if !strings.Contains(strings.Join(strings.Fields(read(t, file)), " "), text) {
		t.Errorf("%s does not say %q", file, text)
	}
}

// What is within the bounds of a page works, and what is outside is refused.
func TestFacts_Bounds(t *testing.T) {
	ctx, nothing := t.Context(), func(context.Context) error { return nil }
	g := guardtest.NewMemoryGuard(t)
	locked := func(key guard.KeyFunc, opts ...guard.LockOption) error { return g.WithLock(ctx, key, nothing, opts...) }
	lock := func(opt guard.LockOption) error { return locked(guard.Key("k"), opt) }
	made := func(opt guard.Option) error {
		other, err := guard.NewWithStore(guardtest.NewStore(), opt)
		if err == nil {
			err = other.Close()
		}
		return err
	}
	ran := func(keep time.Duration, opts ...guard.OnceOption) error {
		_, _, err := guard.Once(ctx, g, guard.Key("once"), keep, func(context.Context) (int, error) { return 1, nil }, opts...)
		return err
	}
	several := func(n int) error {
		keys := make([]guard.KeyFunc, n)
		for i := range keys {
			keys[i] = guard.Key(strconv.Itoa(i))
		}
		return g.WithLocks(ctx, keys, nothing)
	}
	const ms, day, options = time.Millisecond, 24 * time.Hour, "docs/reference/options.md"
	for _, row := range []struct {
		page, says      string
		within, outside error
	}{
		{options, "`TTL(d)` | 30 s | 100 ms to 24 h", lock(guard.TTL(100 * ms)), lock(guard.TTL(99 * ms))},
		{options, "`TTL(d)` | 30 s | 100 ms to 24 h", lock(guard.TTL(day)), lock(guard.TTL(day + ms))},
		{options, "`Metadata(text)` | none | 256 bytes of UTF-8", lock(guard.Metadata(long(256))), lock(guard.Metadata(long(257)))},
		{options, "`Limit(n)` | exclusive | 1 to 10,000", lock(guard.Limit(10_000)), lock(guard.Limit(10_001))},
		{options, "a duration between 0 and 1 ms", lock(guard.Wait(ms)), lock(guard.Wait(ms - 1))},
		{options, "`StoreTimeout(d)` | 2 s | 10 ms or more", made(guard.StoreTimeout(10 * ms)), made(guard.StoreTimeout(9 * ms))},
		{options, "`HandoverWindow(d)` | 5 ms | 0 to 1 min", made(guard.HandoverWindow(time.Minute)), made(guard.HandoverWindow(time.Minute + 1))},
		{options, "`Instance(text)` | host and process id | 128 bytes", made(guard.Instance(long(128))), made(guard.Instance(long(129)))},
		{options, "1 ms to 366 days", ran(366 * day), ran(366*day + ms)},
		{options, "1 byte to 1 MiB", ran(day, guard.MaxResult(1<<20)), ran(day, guard.MaxResult(1<<20+1))},
		{"docs/reference/keys-and-ttl.md", "UTF-8 of 1 to 512 bytes", locked(guard.Key(long(512))), locked(guard.Key(long(513)))},
		{"docs/guides/several-keys.md", "n locks (1 to 65,536)", locked(guard.Stripe(65_536, guard.Key("k"))), locked(guard.Stripe(65_537, guard.Key("k")))},
		{"docs/guides/several-keys.md", "The maximum is 64 keys", several(64), several(65)},
	} {
		says(t, row.page, row.says)
		assert.NoError(t, row.within, row.says)
		assert.Error(t, row.outside, row.says)
	}
	assert.Equal(t, 30*time.Second, guard.DefaultTTL)
	says(t, options, "`Prefix(text)` | \""+guard.DefaultPrefix+"\"")
}

func long(n int) string { return strings.Repeat("x", n) }

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
