package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/redisurl"
)

const urlForms = redisurl.Forms

// duration is a flag: Go's spelling, or seconds as flock(1) takes them.
type duration time.Duration

func (d *duration) Set(text string) error {
	parsed, err := time.ParseDuration(text)
	if err != nil {
		seconds, notNumber := strconv.ParseFloat(text, 64)
		if notNumber != nil || math.IsNaN(seconds) || math.Abs(seconds) > math.MaxInt64/float64(time.Second)/2 {
			return errors.New("want a duration as 30s, 1m30s or 250ms, or seconds")
		}
		parsed = time.Duration(seconds * float64(time.Second))
	}
	*d = duration(parsed)
	return nil
}

func (d *duration) String() string {
	if *d == 0 {
		return ""
	}
	return time.Duration(*d).String()
}

func (d *duration) Type() string { return "duration" }

// open makes a client of the Redis that is meant. There is no default: a host that locks on
// a Redis of its own by mistake locks nobody out.
func (p *program) open() (redis.UniversalClient, error) {
	url, from := p.redis, "--redis"
	if url == "" {
		url, from = p.getenv("REDIS_URL"), "REDIS_URL"
	}
	if url == "" {
		return nil, usagef("which Redis? give --redis URL, or set REDIS_URL")
	}
	client, err := redisurl.Open(url)
	if err != nil {
		return nil, usagef("%s: %w", from, err)
	}
	return client, nil
}

// between checks an integer flag.
func between(flag string, value, least, most int) error {
	if value < least || value > most {
		return fmt.Errorf("%s %d is outside %d to %d", flag, value, least, most)
	}
	return nil
}
