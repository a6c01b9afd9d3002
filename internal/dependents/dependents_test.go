package dependents

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/redlatch/redlatch"

// A user's program imports guard only. go mod tidy then changes go-redis, and what go-redis
// and guard's own tests require; nothing that the program uses besides.
func TestDependents_ImportOfGuardBringsGoRedisOnly(t *testing.T) {
	u := newUser(t)
	before := u.required(t)
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	u.copy(t, "testdata/lock.go.txt", "lock.go")
	u.run(t, "mod", "edit", "-require="+module+"@v0.0.0", "-replace="+module+"="+root)
	u.run(t, "mod", "tidy")
	after := u.required(t)

	changed := map[string]string{}
	for name, version := range after {
		if version != before[name] {
			changed[name] = before[name] + " → " + version
		}
	}
	assert.Equal(t, map[string]string{
		module:                         " → v0.0.0",
		"github.com/redis/go-redis/v9": "v9.7.0 → v9.22.0",
		// What go-redis requires of those.
		"github.com/cespare/xxhash/v2": "v2.2.0 → v2.3.0", "golang.org/x/sys": "v0.13.0 → v0.30.0", "go.uber.org/atomic": " → v1.11.0",
	}, changed)
	gone := slices.DeleteFunc(slices.Collect(maps.Keys(before)), func(name string) bool { return after[name] != "" })
	assert.Equal(t, []string{"github.com/dgryski/go-rendezvous"}, gone, "go-redis does not need it any more")
}

// user is a program in a directory of its own.
type user struct{ dir string }

func newUser(t *testing.T) *user {
	t.Helper()
	u := &user{t.TempDir()}
	u.copy(t, "testdata/user/main.go", "main.go")
	u.copy(t, "testdata/user/go.mod.txt", "go.mod")
	if out, err := u.command("mod", "tidy").CombinedOutput(); err != nil {
		if os.Getenv("REDLATCH_REQUIRE_PROXY") != "" {
			require.NoError(t, err, "%s", out)
		}
		t.Skipf("no module proxy (REDLATCH_REQUIRE_PROXY=1 insists): %v\n%s", err, out)
	}
	return u
}

// required returns the versions that the go.mod names.
func (u *user) required(t *testing.T) map[string]string {
	t.Helper()
	var mod struct {
		Require []struct{ Path, Version string }
	}
	require.NoError(t, json.Unmarshal(u.run(t, "mod", "edit", "-json"), &mod))
	versions := map[string]string{}
	for _, r := range mod.Require {
		versions[r.Path] = r.Version
	}
	return versions
}

func (u *user) run(t *testing.T, args ...string) []byte {
	t.Helper()
	out, err := u.command(args...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		t.Fatalf("go %v: %s", args, exit.Stderr)
	}
	require.NoError(t, err)
	return out
}

func (u *user) command(args ...string) *exec.Cmd {
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = u.dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	return cmd
}

func (u *user) copy(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(u.dir, to), text, 0o600))
}
