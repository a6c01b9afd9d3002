package main

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"

	"github.com/redis/go-redis/v9"
)

const opening = 1000 // what is on each account at first

// bank keeps the accounts of one run in a hash.
type bank struct {
	rdb *redis.Client
	run string
}

func newRun() string { return rand.Text()[:8] }

func openBank(redisURL, run string) (*bank, error) {
	opt, err := redis.ParseURL(redisURL)
	if err != nil {
		return nil, errors.New("REDIS_URL is not one") // the text of err may hold a password
	}
	return &bank{redis.NewClient(opt), run}, nil
}

func (b *bank) close() { _ = b.rdb.Close() }

func (b *bank) hash() string { return "example:transfer:" + b.run }

// open makes accounts 0 to n-1 and gives their sum.
func (b *bank) open(ctx context.Context, n int) (sum int, err error) {
	for account := range n {
		if err := b.rdb.HSet(ctx, b.hash(), strconv.Itoa(account), opening).Err(); err != nil {
			return 0, err
		}
	}
	return n * opening, nil
}

// move reads both balances and then writes both: right only if nobody else writes them
// meanwhile.
func (b *bank) move(ctx context.Context, from, to, amount int) error {
	fromField, toField := strconv.Itoa(from), strconv.Itoa(to)
	has, err := b.rdb.HGet(ctx, b.hash(), fromField).Int()
	if err != nil {
		return err
	}
	gets, err := b.rdb.HGet(ctx, b.hash(), toField).Int()
	if err != nil {
		return err
	}
	return b.rdb.HSet(ctx, b.hash(), fromField, has-amount, toField, gets+amount).Err()
}

func (b *bank) sum(ctx context.Context) (sum int, err error) {
	balances, err := b.rdb.HVals(ctx, b.hash()).Result()
	for _, balance := range balances {
		n, _ := strconv.Atoi(balance)
		sum += n
	}
	return sum, err
}

func (b *bank) remove(ctx context.Context) error { return b.rdb.Del(ctx, b.hash()).Err() }
