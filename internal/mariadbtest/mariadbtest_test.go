//go:build unix

package mariadbtest_test

import (
	"net"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/internal/mariadbtest"
)

func TestMariaDB_SharedIsOneServerUntilStop(t *testing.T) {
	t.Setenv("MYSQL_DSN", "")
	first := mariadbtest.Shared(t)
	if second := mariadbtest.Shared(t); second != first {
		t.Errorf("two servers: %q, %q", first, second)
	}
	socket, _, _ := strings.Cut(strings.TrimPrefix(first, "root@unix("), ")")
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	mariadbtest.Stop()
	if _, err := net.Dial("unix", socket); err == nil {
		t.Error("it still runs")
	}
}

func TestMariaDB_StartRunsAServerOfTheTest(t *testing.T) {
	t.Setenv("MYSQL_DSN", "me@tcp(elsewhere)/test")
	if got := mariadbtest.Shared(t); got != "me@tcp(elsewhere)/test" {
		t.Errorf("it uses %q", got)
	}
}
