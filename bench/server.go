package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// server is the redis-server that everything is measured on: loopback, nothing is
// persisted, everything else as it comes.
type server struct {
	addr string
	dir  string
	cmd  *exec.Cmd
	gone chan struct{}
}

const startTimeout = 10 * time.Second

func startServer(ctx context.Context) (*server, error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("redis-server is not installed: %w", err)
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "redlatch-bench-")
	if err != nil {
		return nil, err
	}
	s := &server{addr: "127.0.0.1:" + strconv.Itoa(port), dir: dir, gone: make(chan struct{})}
	s.cmd = exec.Command(binary, "--port", strconv.Itoa(port), "--bind", "127.0.0.1",
		"--dir", dir, "--save", "", "--appendonly", "no")
	s.cmd.SysProcAttr = dieWithParent()
	started := make(chan error)
	go func() {
		// Linux kills the child when the thread that started it ends: keep that thread.
		runtime.LockOSThread()
		err := s.cmd.Start()
		started <- err
		if err == nil {
			_ = s.cmd.Wait()
		}
		close(s.gone)
	}()
	if err := <-started; err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := s.awaitReady(ctx); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

func (s *server) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		// go-redis would report each refused connection in its log.
		conn, err := net.Dial("tcp", s.addr)
		if err == nil {
			_ = conn.Close()
			client := redis.NewClient(&redis.Options{Addr: s.addr})
			defer func() { _ = client.Close() }()
			return client.Ping(ctx).Err()
		}
		select {
		case <-s.gone:
			return errors.New("redis-server ended before it was ready")
		case <-ctx.Done():
			return fmt.Errorf("redis-server is not ready: %w", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (s *server) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.gone:
	case <-time.After(2 * time.Second):
		_ = s.cmd.Process.Kill()
		<-s.gone
	}
	_ = os.RemoveAll(s.dir)
}
