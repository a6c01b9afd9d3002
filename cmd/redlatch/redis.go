package main

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/pflag"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/redisurl"
)

// duration is a flag: a Go duration, or seconds as in flock(1).
type duration time.Duration

func (d *duration) Set(text string) error {
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		text += "s"
	}
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return errors.New("want a duration such as 250ms, 1m30s or 20h, or seconds")
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

// open makes a client of Redis. There is no default: a host that used its own Redis by mistake
// would exclude no other host.
func (p *program) open(flags *pflag.FlagSet) (redis.UniversalClient, error) {
	url, from := os.Getenv("REDIS_URL"), "REDIS_URL"
	if flags.Changed("redis") {
		url, from = p.redis, "--redis"
	}
	switch {
	case url == "" && from == "--redis":
		return nil, usagef("--redis is empty") // from a variable that is not set, for example: REDIS_URL may be another Redis
	case url == "":
		return nil, usagef("which Redis? give --redis URL, or set REDIS_URL")
	}
	password, err := p.password(flags)
	if err != nil {
		return nil, err
	}
	client, err := redisurl.Open(url, password)
	if err != nil {
		return nil, usagef("%s: %w", from, err)
	}
	return client, nil
}

// maxPassword is longer than any password, in bytes.
const maxPassword = 4096

// password returns the content of the password file, or "" without a file. Its errors have neither the name of
// the file nor its content: a user may give the password in place of the name.
func (p *program) password(flags *pflag.FlagSet) (string, error) {
	name, from := os.Getenv("REDIS_PASSWORD_FILE"), "REDIS_PASSWORD_FILE"
	if flags.Changed("redis-password-file") {
		name, from = p.passwordFile, "--redis-password-file"
	}
	switch {
	case name == "" && from == "--redis-password-file":
		return "", usagef("%s is empty", from)
	case name == "":
		return "", nil
	}
	text, err := readFile(name)
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	text = bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
	switch {
	case err != nil:
		return "", usagef("%s: %w", from, err)
	case len(text) > maxPassword:
		return "", usagef("%s: the file is longer than %d bytes", from, maxPassword)
	case len(text) == 0:
		return "", usagef("%s: the file is empty", from)
	case bytes.ContainsAny(text, "\r\n"):
		return "", usagef("%s: the file has more than one line", from)
	}
	return string(text), nil
}

// readFile reads just enough of a file to find out that it is too long.
func readFile(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return io.ReadAll(io.LimitReader(file, maxPassword+3))
}
