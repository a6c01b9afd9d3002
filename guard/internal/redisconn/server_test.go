package redisconn_test

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

func TestServer_AnErrorOfAConnectionNamesTheServer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		accept func(net.Conn) // nil = no server listens
		want   error
	}{
		"refused": {nil, syscall.ECONNREFUSED},
		"closed":  {func(c net.Conn) { _ = c.Close() }, io.EOF},
		"silent":  {func(c net.Conn) {}, os.ErrDeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			defer func() { _ = l.Close() }()
			accepting := make(chan struct{})
			if c.accept == nil {
				close(accepting)
				_ = l.Close()
			} else {
				go func() {
					defer close(accepting)
					for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
						defer func() { _ = conn.Close() }()
						c.accept(conn)
					}
				}()
			}
			rdb := redis.NewClient(&redis.Options{Addr: l.Addr().String()})
			defer func() { _ = rdb.Close() }()
			g := testenv.GuardOn(t, rdb, guard.StoreTimeout(300*time.Millisecond))
			testenv.Eventually(t, func() bool { // the last attempt may have had no time left
				err = g.WithLock(t.Context(), guard.Key("k"), testenv.Nothing)
				require.ErrorIs(t, err, guard.ErrStore)
				return errors.Is(err, c.want) && strings.Count(err.Error(), l.Addr().String()) == 1
			}, "no error says what it was, and names the server once")
			_ = l.Close()
			<-accepting
		})
	}
}
