//go:build unix

package postgrestest_test

import (
	"net"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/internal/postgrestest"
)

func TestPostgres_SharedIsOneServerUntilStop(t *testing.T) {
	t.Setenv("DATABASE_URL", "")
	first := postgrestest.Shared(t)
	if second := postgrestest.Shared(t); second != first {
		t.Errorf("two servers: %q, %q", first, second)
	}
	socket := strings.TrimPrefix(strings.Fields(first)[0], "host=") + "/.s.PGSQL.5432"
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	postgrestest.Stop()
	if _, err := net.Dial("unix", socket); err == nil {
		t.Error("it still runs")
	}
}

func TestPostgres_StartRunsAServerOfTheTest(t *testing.T) {
	t.Setenv("DATABASE_URL", "postgres://elsewhere")
	if got := postgrestest.Start(t); got != "postgres://elsewhere" {
		t.Errorf("it uses %q", got)
	}
	if got := postgrestest.Shared(t); got != "postgres://elsewhere" {
		t.Errorf("it uses %q", got)
	}
}
