package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// job is what a worker is to do. It travels in the environment, which other users of the
// machine cannot read: the URLs may hold passwords.
type job struct {
	redis, database, id string
	naive               bool
}

const (
	envRedis    = "FENCING_REDIS"
	envDatabase = "FENCING_DATABASE"
	envID       = "FENCING_ID"
	envNaive    = "FENCING_NAIVE"
)

func jobFromEnv() job {
	return job{
		redis: os.Getenv(envRedis), database: os.Getenv(envDatabase), id: os.Getenv(envID),
		naive: os.Getenv(envNaive) != "",
	}
}

// process is this program once more, as a worker.
type process struct {
	name  string
	cmd   *exec.Cmd
	in    io.Writer
	lines *bufio.Scanner
	out   io.Writer
}

func (j job) start(ctx context.Context, name string, out io.Writer) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self) // killed when ctx ends
	cmd.Env = append(os.Environ(), envRedis+"="+j.redis, envDatabase+"="+j.database, envID+"="+j.id)
	if j.naive {
		cmd.Env = append(cmd.Env, envNaive+"=1")
	}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	lines, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &process{name, cmd, in, bufio.NewScanner(lines), out}, nil
}

// line is the next thing that the process says.
func (p *process) line() (string, error) {
	if !p.lines.Scan() {
		return "", errors.Join(fmt.Errorf("the %s process ended early", p.name), p.lines.Err())
	}
	_, _ = fmt.Fprintf(p.out, "%-7s %s\n", p.name, p.lines.Text())
	return p.lines.Text(), nil
}

func (p *process) await(what string) error {
	line, err := p.line()
	if err == nil && !strings.HasPrefix(line, what) {
		err = fmt.Errorf("the %s process %s", p.name, line)
	}
	return err
}

// sell resumes the process if it is stopped, lets it write, and returns whether it has sold.
func (p *process) sell() (bool, error) {
	if _, err := fmt.Fprintln(p.in); err != nil {
		return false, err
	}
	if err := p.resume(); err != nil {
		return false, err
	}
	line, err := p.line()
	switch {
	case err != nil:
		return false, err
	case strings.HasPrefix(line, hasSold):
		return true, nil
	case strings.HasPrefix(line, refused):
		return false, nil
	}
	return false, fmt.Errorf("the %s process %s", p.name, line)
}

// end ends the process, also a stopped one.
func (p *process) end() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}
