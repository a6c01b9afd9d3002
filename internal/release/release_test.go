package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	root    = "../.."
	version = "v0.1.0"
)

// tags are those of the modules that programs require. A new adapter has one, too.
var tags = []string{
	"middleware/asynq/v0.1.0", "middleware/cron/v0.1.0", "middleware/echo/v0.1.0", "middleware/echov5/v0.1.0", "middleware/gin/v0.1.0",
	"middleware/gocron/v0.1.0", "middleware/grpc/v0.1.0", "middleware/river/v0.1.0", "middleware/watermill/v0.1.0", "tracing/v0.1.0", "v0.1.0",
}

func TestAReleaseIsOneVersionAndATagForEachModule(t *testing.T) {
	if out, err := exec.Command("go", "mod", "download", "github.com/redis/go-redis/v9@v9.20.0").CombinedOutput(); err != nil {
		if os.Getenv("REDLATCH_REQUIRE_PROXY") != "" {
			require.NoError(t, err, "%s", out)
		}
		t.Skipf("no module proxy (REDLATCH_REQUIRE_PROXY=1 insists): %v\n%s", err, out)
	}
	c := newCopy(t)

	c.refuses(t, "the version is vX.Y.Z", "0.1.0")
	c.refuses(t, "/v2", "v2.0.0")
	c.refuses(t, "tracing.Version is not 0.9.0", "v0.9.0")
	c.refuses(t, "first", version, "tag")

	said := c.run(t, "scripts/release.sh", version)
	for _, tag := range tags {
		assert.Contains(t, said, "tag  "+tag+"\n")
	}
	assert.Empty(t, c.run(t, "git", "status", "--porcelain"), "a look changes nothing")

	c.run(t, "scripts/release.sh", version, "commit")
	assert.Contains(t, c.read(t, "middleware/asynq/go.mod"), "github.com/redlatch/redlatch "+version+"\n")
	assert.Contains(t, c.read(t, "examples/go.mod"), "github.com/redlatch/redlatch/middleware/asynq "+version+"\n")
	assert.NotContains(t, c.read(t, "go.mod"), "replace")
	assert.Empty(t, c.run(t, "git", "tag"), "tags are for the next step")

	c.run(t, "scripts/release.sh", version, "tag")
	assert.Equal(t, tags, strings.Fields(c.run(t, "git", "tag", "--points-at", "HEAD")))
	c.refuses(t, "there is a tag", version, "tag")

	require.NoError(t, os.WriteFile(filepath.Join(c.dir, "new"), nil, 0o600))
	c.refuses(t, "not clean", version)
}

// treeCopy is a repository of what is in this one.
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
	require.NoError(t, os.WriteFile(changes, []byte(c.read(t, "CHANGELOG.md")+"\n## "+version[1:]+"\n"), 0o600))
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

func (c *treeCopy) command(args ...string) *exec.Cmd {
	cmd := exec.Command(args[0], args[1:]...) // a relative path is one below Dir
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=test", "GIT_AUTHOR_EMAIL=test@example.com", "GIT_COMMITTER_NAME=test", "GIT_COMMITTER_EMAIL=test@example.com")
	return cmd
}

func (c *treeCopy) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.command(args...).CombinedOutput()
	require.NoError(t, err, "%s: %s", args, out)
	return string(out)
}

// refuses has a release fail, and say why.
func (c *treeCopy) refuses(t *testing.T, why string, args ...string) {
	t.Helper()
	out, err := c.command(append([]string{"scripts/release.sh"}, args...)...).CombinedOutput()
	require.Error(t, err, "%s", out)
	assert.Contains(t, string(out), why)
}
