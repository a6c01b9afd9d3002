package release

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/version"
)

const (
	root = "../.."
	tag  = "v" + version.Number
)

// tagged are the modules that programs require. A new adapter is one, too.
var tagged = []string{
	"cmd/redlatch/", "guardsql/", "middleware/asynq/", "middleware/cron/", "middleware/echo/", "middleware/echov5/", "middleware/gin/", "middleware/gocron/",
	"middleware/grpc/", "middleware/river/", "middleware/watermill/", "tracing/", "",
}

func TestRelease_OneVersionAndATagForEachModule(t *testing.T) {
	if out, err := exec.Command("go", "mod", "download", "github.com/redis/go-redis/v9@v9.20.0").CombinedOutput(); err != nil {
		if os.Getenv("REDLATCH_REQUIRE_PROXY") != "" {
			require.NoError(t, err, "%s", out)
		}
		t.Skipf("no module proxy (REDLATCH_REQUIRE_PROXY=1 insists): %v\n%s", err, out)
	}
	c := newCopy(t)

	c.refuses(t, "the version is vX.Y.Z", "0.1.0")
	c.refuses(t, "/v2", "v2.0.0")
	c.refuses(t, "internal/version is not 0.9.0", "v0.9.0")
	c.refuses(t, "first", tag, "tag")

	said := c.run(t, "scripts/release.sh", tag)
	tags := make([]string, len(tagged))
	for i, module := range tagged {
		tags[i] = module + tag
		assert.Contains(t, said, "tag  "+tags[i]+"\n")
	}
	assert.Empty(t, c.run(t, "git", "status", "--porcelain"), "a look changes nothing")

	c.run(t, "scripts/release.sh", tag, "commit")
	assert.Contains(t, c.read(t, "middleware/asynq/go.mod"), "github.com/redlatch/redlatch "+tag+"\n")
	assert.Contains(t, c.read(t, "examples/go.mod"), "github.com/redlatch/redlatch/middleware/asynq "+tag+"\n")
	program := c.read(t, "cmd/redlatch/go.mod")
	assert.NotContains(t, program, "replace", "go install refuses it")
	assert.Contains(t, program, "github.com/redlatch/redlatch "+tag+"\n")
	assert.Contains(t, c.read(t, "cmd/redlatch/go.sum"), "github.com/redlatch/redlatch "+tag+" h1:")
	assert.Empty(t, c.run(t, "git", "tag"), "tags are for the next step")

	c.run(t, "scripts/release.sh", tag, "tag")
	assert.Equal(t, tags, strings.Fields(c.run(t, "git", "tag", "--points-at", "HEAD~")))
	assert.Contains(t, c.read(t, "cmd/redlatch/go.mod"), "replace github.com/redlatch/redlatch => ../..\n", "work continues")
	c.refuses(t, "there is a tag", tag, "tag")
	c.installs(t)

	require.NoError(t, os.WriteFile(filepath.Join(c.dir, "new"), nil, 0o600))
	c.refuses(t, "not clean", tag)
}

// A version without a tag has no users that a change could surprise.
func TestRelease_ChangelogBeginsWithTheNextVersion(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	require.NoError(t, err)
	_, text, _ = bytes.Cut(text, []byte("\n## "))
	section, _, _ := bytes.Cut(text, []byte("\n## "))
	title, section, _ := bytes.Cut(section, []byte("\n"))
	number, rest, _ := strings.Cut(string(title), " ")
	assert.Equal(t, tag, number)
	if rest == "(not tagged yet)" {
		assert.NotContains(t, string(section), "### Changed")
	}
}

// treeCopy is a repository with the files of this one.
type treeCopy struct{ dir string }

func newCopy(t *testing.T) *treeCopy {
	t.Helper()
	c := &treeCopy{t.TempDir()}
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	out, err := list.Output()
	require.NoError(t, err)
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // deleted, and not yet committed
		}
		require.NoError(t, err)
		to := filepath.Join(c.dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o700))
		require.NoError(t, os.WriteFile(to, text, 0o700))
	}
	changes := filepath.Join(c.dir, "CHANGELOG.md")
	require.NoError(t, os.WriteFile(changes, []byte(c.read(t, "CHANGELOG.md")+"\n## "+tag[1:]+"\n"), 0o600))
	c.run(t, "git", "init", "-q")
	c.run(t, "git", "add", ".")
	c.run(t, "git", "commit", "-q", "-m", "a copy")
	return c
}

func (c *treeCopy) read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, name))
	require.NoError(t, err)
	return string(text)
}

func (c *treeCopy) command(args ...string) ([]byte, error) {
	cmd := exec.Command(args[0], args[1:]...) // a relative path is one below Dir
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=test", "GIT_AUTHOR_EMAIL=test@example.com", "GIT_COMMITTER_NAME=test", "GIT_COMMITTER_EMAIL=test@example.com")
	return cmd.CombinedOutput()
}

func (c *treeCopy) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.command(args...)
	require.NoError(t, err, "%s: %s", args, out)
	return string(out)
}

// installs resolves the command from the tags as go install does for a user. With -n it compiles nothing: a module cache of
// its own would compile all dependencies again.
func (c *treeCopy) installs(t *testing.T) {
	t.Helper()
	dir, cache := t.TempDir(), strings.TrimSpace(c.run(t, "go", "env", "GOMODCACHE"))
	install := exec.Command("go", "install", "-n", "-modcacherw", "github.com/redlatch/redlatch/cmd/redlatch@"+tag)
	install.Dir = dir
	install.Env = append(os.Environ(), "GOMODCACHE="+filepath.Join(dir, "mod"), "GOPRIVATE=github.com/redlatch/redlatch",
		"GOPROXY=file://"+cache+"/cache/download,"+strings.TrimSpace(c.run(t, "go", "env", "GOPROXY")), "GIT_CONFIG_COUNT=1",
		"GIT_CONFIG_KEY_0=url.file://"+c.dir+".insteadOf", "GIT_CONFIG_VALUE_0=https://github.com/redlatch/redlatch")
	out, err := install.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), "github.com/redlatch/redlatch@"+tag)
}

// refuses has a release fail, and say why.
func (c *treeCopy) refuses(t *testing.T, why string, args ...string) {
	t.Helper()
	out, err := c.command(append([]string{"scripts/release.sh"}, args...)...)
	require.Error(t, err, "%s", out)
	assert.Contains(t, string(out), why)
}
