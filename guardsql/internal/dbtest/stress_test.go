//go:build unix

package dbtest

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guardsql"
	"github.com/redlatch/redlatch/internal/redistest"
)

// The stress: processes that are stopped at random add one to rows, each under the lock of its row. The
// work ignores that its lock is lost, so only the database can refuse it. REDLATCH_FENCING_FOR=1m is for
// how long.
const (
	stressEnv   = "REDLATCH_FENCING_FOR"
	stressTime  = 4 * time.Second
	stressTTL   = 200 * time.Millisecond
	workers     = 8
	rows        = 4
	busyPause   = 5 * time.Millisecond
	stopped     = 3               // at a time
	workerEnv   = "DBTEST_WORKER" // fenced or naive
	redisEnv    = "DBTEST_REDIS"
	driverEnv   = "DBTEST_DRIVER"
	databaseEnv = "DBTEST_DATABASE"
	rowsEnv     = "DBTEST_ROWS"
)

func TestStress_StoppedProcessesLoseNoUpdate(t *testing.T) {
	stressFor := stressTime
	if value := os.Getenv(stressEnv); value != "" {
		var err error
		stressFor, err = time.ParseDuration(value)
		require.NoError(t, err, stressEnv)
	}
	for _, s := range []setup{setups[0], setups[2]} {
		t.Run(s.name, func(t *testing.T) {
			r := stress(t, s.open(t), "fenced", stressFor)
			t.Logf("fenced: %d updates, %d stops, sum %d; %d refused as stale", r.updates, r.stops, r.sum, r.stale)
			assert.Equal(t, r.updates, r.sum)

			r = stress(t, s.open(t), "naive", stressFor) // else the test above would prove nothing
			t.Logf("naive: %d updates, %d stops, sum %d", r.updates, r.stops, r.sum)
			assert.Less(t, r.sum, r.updates)
		})
	}
}

type stressResult struct{ updates, stale, stops, sum int }

func stress(t *testing.T, d *db, kind string, stressFor time.Duration) (r stressResult) {
	t.Helper()
	id := newKey()
	for row := range rows {
		_, err := d.Exec(d.q(`INSERT INTO stock (id, amount) VALUES ($1, 0)`), rowID(id, row))
		require.NoError(t, err)
	}
	all := make([]*worker, workers)
	for i := range all {
		all[i] = startWorker(t, workerEnv+"="+kind, redisEnv+"="+redistest.Shared(t).URL(),
			driverEnv+"="+d.driver, databaseEnv+"="+d.source(t), rowsEnv+"="+id)
	}
	for end := time.Now().Add(stressFor); time.Now().Before(end); r.stops += stopped {
		victims := rand.Perm(workers)[:stopped]
		for _, i := range victims {
			require.NoError(t, all[i].cmd.Process.Signal(syscall.SIGSTOP))
		}
		// Longer than the ttl, or shorter; then time to get new locks.
		time.Sleep(time.Duration(float64(stressTTL) * 4 * rand.Float64()))
		for _, i := range victims {
			require.NoError(t, all[i].cmd.Process.Signal(syscall.SIGCONT))
		}
		time.Sleep(stressTTL / 2)
	}
	for _, w := range all {
		updates, stale := w.end(t)
		r.updates, r.stale = r.updates+updates, r.stale+stale
	}
	for row := range rows {
		var amount int
		require.NoError(t, d.QueryRow(d.q(`SELECT amount FROM stock WHERE id = $1`), rowID(id, row)).Scan(&amount))
		r.sum += amount
	}
	return r
}

func rowID(id string, row int) string { return fmt.Sprintf("%s:%d", id, row) }

// worker is a process of this test binary.
type worker struct {
	cmd *exec.Cmd
	in  io.Closer
	out *bufio.Reader
}

func startWorker(t *testing.T, env ...string) *worker {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), env...), os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &worker{cmd, in, bufio.NewReader(out)}
}

// end has the worker finish its update, and returns how many it has made.
func (w *worker) end(t *testing.T) (updates, stale int) {
	t.Helper()
	require.NoError(t, w.in.Close())
	line, err := w.out.ReadString('\n')
	require.NoError(t, err)
	_, err = fmt.Sscan(line, &updates, &stale)
	require.NoError(t, err, line)
	return updates, stale
}

func isWorker() bool { return os.Getenv(workerEnv) != "" }

// work adds to rows until in is closed, and then prints how many updates it made, and how many were refused.
func work(in io.Reader, out io.Writer) (code int) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	updates, stale, err := update(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		return 1
	}
	_, _ = fmt.Fprintln(out, updates, stale)
	return 0
}

func update(ctx context.Context) (updates, stale int, err error) {
	opts, err := redis.ParseURL(os.Getenv(redisEnv))
	if err != nil {
		return 0, 0, err
	}
	rdb := redis.NewClient(opts)
	defer rdb.Close()
	g, err := guard.New(rdb, guard.TTL(stressTTL))
	if err != nil {
		return 0, 0, err
	}
	defer g.Close()
	pool, err := sql.Open(os.Getenv(driverEnv), os.Getenv(databaseEnv))
	if err != nil {
		return 0, 0, err
	}
	defer pool.Close()
	d := &db{pool, setup{driver: os.Getenv(driverEnv), dialect: guardsql.Postgres}}
	if d.driver == "mysql" {
		d.dialect = guardsql.MySQL
	}
	add := d.addNaively
	if os.Getenv(workerEnv) == "fenced" {
		add = d.addFenced
	}
	for ctx.Err() == nil {
		id := rowID(os.Getenv(rowsEnv), rand.IntN(rows))
		var failure error
		err := g.WithLock(ctx, guard.Key(id), func(ctx context.Context) error {
			failure = add(context.WithoutCancel(ctx), id)
			switch {
			case failure == nil:
				updates++
			case errors.Is(failure, guardsql.ErrStale):
				stale, failure = stale+1, nil
			}
			return nil
		}, guard.NoWait())
		switch {
		case failure != nil:
			return 0, 0, failure
		case errors.Is(err, guard.ErrBusy): // another row may be free
			time.Sleep(busyPause)
		}
	}
	return updates, stale, nil
}

// think is the time between a read and the write that follows from it: most stops fall into it.
func think() { time.Sleep(time.Duration(rand.Int64N(int64(100 * time.Millisecond)))) }

// addNaively is read, think, write.
func (d *db) addNaively(ctx context.Context, id string) error {
	var amount int
	if err := d.QueryRowContext(ctx, d.q(`SELECT amount FROM stock WHERE id = $1`), id).Scan(&amount); err != nil {
		return err
	}
	think()
	_, err := d.ExecContext(ctx, d.q(`UPDATE stock SET amount = $1 WHERE id = $2`), amount+1, id)
	return err
}

// addFenced is the same in fenced transactions: one for both, or one each.
func (d *db) addFenced(ctx context.Context, id string) error {
	var amount int
	read := func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, d.q(`SELECT amount FROM stock WHERE id = $1`), id).Scan(&amount)
	}
	write := func(ctx context.Context, tx *sql.Tx) error {
		think()
		_, err := tx.ExecContext(ctx, d.q(`UPDATE stock SET amount = $1 WHERE id = $2`), amount+1, id)
		return err
	}
	if strings.HasSuffix(id, "0") {
		return guardsql.InTx(ctx, d.DB, func(ctx context.Context, tx *sql.Tx) error {
			if err := read(ctx, tx); err != nil {
				return err
			}
			return write(ctx, tx)
		}, d.dialect)
	}
	if err := guardsql.InTx(ctx, d.DB, read, d.dialect); err != nil {
		return err
	}
	think()
	return guardsql.InTx(ctx, d.DB, write, d.dialect)
}
