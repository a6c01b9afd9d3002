// Package redisurl makes a Redis client of a URL.
package redisurl

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Forms are the URLs that Open takes, for a help text.
const Forms = `redis://[user:password@]host:port[/db]       one server
rediss://…                                   one server, over TLS
unix:///path/to/redis.sock[?db=1]            one server, on this machine
redis+sentinel://host:port[/db]?master_name=…&addr=host2:port2
redis+cluster://host:port?addr=host2:port2   any nodes of a cluster
rediss+sentinel://…, rediss+cluster://…      over TLS
`

// Open makes a client of a URL. It sends nothing. Its errors never have the password.
//
// The scheme says what is there: redis, rediss (TLS) and unix are one server, with +sentinel
// or +cluster behind it what it says. valkey and valkeys do for redis and rediss. A query
// with a master_name is for Sentinel, too. All else is as in go-redis's ParseURL,
// ParseFailoverURL and ParseClusterURL.
func Open(text string) (redis.UniversalClient, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, withoutURL(err)
	}
	scheme, kind, _ := strings.Cut(u.Scheme, "+")
	switch scheme {
	case "valkey":
		scheme = "redis"
	case "valkeys":
		scheme = "rediss"
	}
	u.Scheme = scheme
	if kind == "" && scheme != "unix" && u.Query().Has("master_name") {
		kind = "sentinel"
	}
	if u.Host == "" && scheme != "unix" {
		return nil, fmt.Errorf("there is no host in it; it is to look like redis://host:6379")
	}
	switch kind {
	case "":
		o, err := redis.ParseURL(u.String())
		if err != nil {
			return nil, withoutURL(err)
		}
		return redis.NewClient(o), nil
	case "sentinel":
		o, err := redis.ParseFailoverURL(u.String())
		switch {
		case err != nil:
			return nil, withoutURL(err)
		case o.MasterName == "":
			return nil, errors.New("a URL for Sentinel needs ?master_name=")
		}
		return redis.NewFailoverClient(o), nil
	case "cluster":
		o, err := redis.ParseClusterURL(u.String())
		if err != nil {
			return nil, withoutURL(err)
		}
		return redis.NewClusterClient(o), nil
	}
	return nil, fmt.Errorf("the scheme ends with +%s; known are +sentinel and +cluster", kind)
}

// withoutURL keeps the password in the URL out of the message.
func withoutURL(err error) error {
	var parse *url.Error
	if errors.As(err, &parse) {
		return parse.Err
	}
	return err
}
