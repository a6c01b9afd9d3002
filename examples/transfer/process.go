package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// How a transfer locks its accounts.
const (
	together    = "together"
	inCallOrder = "in call order"
	unlocked    = "unlocked"
)

// plan is what each process is to do. It travels in the environment, which other users of the
// machine cannot read: the URL may hold a password.
type plan struct {
	redis, run, mode             string
	accounts, callers, transfers int // transfers of each caller
	wait                         time.Duration
}

// tally is what a process did.
type tally struct {
	Done int // transfers
	Busy int // those that waited in vain
}

const (
	envRun       = "TRANSFER_RUN"
	envRedis     = "TRANSFER_REDIS"
	envMode      = "TRANSFER_MODE"
	envAccounts  = "TRANSFER_ACCOUNTS"
	envCallers   = "TRANSFER_CALLERS"
	envTransfers = "TRANSFER_TRANSFERS"
	envWait      = "TRANSFER_WAIT"
)

func planFromEnv() plan {
	number := func(name string) int {
		n, _ := strconv.Atoi(os.Getenv(name))
		return n
	}
	wait, _ := time.ParseDuration(os.Getenv(envWait))
	return plan{
		redis: os.Getenv(envRedis), run: os.Getenv(envRun), mode: os.Getenv(envMode),
		accounts: number(envAccounts), callers: number(envCallers), transfers: number(envTransfers),
		wait: wait,
	}
}

func (p plan) env() []string {
	return append(
		os.Environ(),
		envRun+"="+p.run,
		envRedis+"="+p.redis,
		envMode+"="+p.mode,
		envAccounts+"="+strconv.Itoa(p.accounts),
		envCallers+"="+strconv.Itoa(p.callers),
		envTransfers+"="+strconv.Itoa(p.transfers),
		envWait+"="+p.wait.String(),
	)
}

// workers runs this program n times more, and adds up what they did.
func (p plan) workers(ctx context.Context, n int) (sum tally, err error) {
	self, err := os.Executable()
	if err != nil {
		return sum, err
	}
	type result struct {
		tally
		err error
	}
	results := make(chan result, n)
	for range n {
		cmd := exec.CommandContext(ctx, self) // killed when ctx ends
		cmd.Env = p.env()
		cmd.Stderr = os.Stderr
		go func() {
			var r result
			out, err := cmd.Output()
			if r.err = err; err == nil {
				r.err = json.Unmarshal(out, &r.tally)
			}
			results <- r
		}()
	}
	for range n {
		r := <-results
		sum.Done, sum.Busy = sum.Done+r.Done, sum.Busy+r.Busy
		if r.err != nil {
			err = r.err
		}
	}
	return sum, err
}
