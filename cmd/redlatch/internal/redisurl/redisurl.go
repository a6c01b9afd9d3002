// Package redisurl makes a Redis client from a URL. None of its errors contains a part of the
// URL's password, however the URL is malformed: errors repeat only the names of parameters
// that go-redis knows.
package redisurl

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Forms lists the URLs that Open accepts, for a help text.
const Forms = `redis://[user:password@]host:port[/db]       one server
rediss://…                                   one server, over TLS
unix:///path/to/redis.sock[?db=1]            one server, on this machine
redis+sentinel://host:port[/db]?master_name=…&addr=host2:port2
redis+cluster://host:port?addr=host2:port2   any nodes of a cluster
rediss+sentinel://…, rediss+cluster://…      over TLS
`

var (
	errEncoding = errors.New("it is not a URL: in the user name and the password, write / ? # [ ] % @ : and spaces " +
		"percent-encoded, as %2F for /; a port is a number")
	errScheme    = errors.New("the scheme is none of redis, rediss and unix, or redis and rediss with +sentinel or +cluster")
	errHost      = errors.New("want a URL such as redis://host:6379")
	errUnix      = errors.New("write a socket as unix:///path, with only user:password@ before the path")
	errDatabase  = errors.New("the database, after the host, must be a number")
	errCluster   = errors.New("a cluster has the database 0 only")
	errMaster    = errors.New("a URL for Sentinel needs ?master_name=")
	errTwice     = errors.New("the URL has a password, too: give it once")
	errParameter = errors.New("its parameters do not go together")
)

// dialAttempts is how often a client dials for a command. A user, or a Guard, tries again.
const dialAttempts = 1

// Open makes a client from a URL. It sends nothing. If password is not empty, it is the password
// of Redis, and the URL must not have another.
//
// The schemes redis, rediss (TLS) and unix name one server; with +sentinel or +cluster, Sentinel
// or a cluster. valkey and valkeys mean redis and rediss. A query with a master_name means
// Sentinel, too. The rest is as in go-redis's ParseURL, ParseFailoverURL and ParseClusterURL. A
// client dials once for a command, not five times.
func Open(text, password string) (redis.UniversalClient, error) {
	u, kind, err := parse(text)
	if err != nil {
		return nil, err
	}
	switch kind {
	case "sentinel":
		return open(u, redis.ParseFailoverURL, redis.NewFailoverClient, func(o *redis.FailoverOptions) error {
			if o.MasterName == "" {
				return errMaster
			}
			o.DialerRetries, o.Dialer = dialAttempts, tlsDialer(o.TLSConfig, o.DialTimeout)
			return setPassword(&o.Password, password)
		})
	case "cluster":
		return open(u, redis.ParseClusterURL, redis.NewClusterClient, func(o *redis.ClusterOptions) error {
			o.DialerRetries, o.Dialer = dialAttempts, tlsDialer(o.TLSConfig, o.DialTimeout)
			return setPassword(&o.Password, password)
		})
	}
	return open(u, redis.ParseURL, redis.NewClient, func(o *redis.Options) error {
		o.DialerRetries, o.Dialer = dialAttempts, tlsDialer(o.TLSConfig, o.DialTimeout)
		return setPassword(&o.Password, password)
	})
}

// open parses u by a function of go-redis, adjusts the options, and makes the client.
func open[O any, C redis.UniversalClient](
	u *url.URL, parse func(string) (*O, error), client func(*O) C, adjust func(*O) error,
) (redis.UniversalClient, error) {
	o, err := parse(u.String())
	if err != nil {
		return nil, explain(u, func(text string) error { _, err := parse(text); return err })
	}
	if err := adjust(o); err != nil {
		return nil, err
	}
	return client(o), nil
}

// parse reads the parts that go-redis does not know, and refuses URLs in which a password that was
// not percent-encoded may look like a port, a path, a query or a fragment.
func parse(text string) (u *url.URL, kind string, err error) {
	u, err = url.Parse(text)
	switch {
	case !strings.Contains(text, ":/"): // host:6379
		return nil, "", errHost
	case err != nil, strings.Contains(text, "#"):
		return nil, "", errEncoding
	}
	if _, err := url.ParseQuery(u.RawQuery); err != nil {
		return nil, "", errEncoding
	}
	scheme, kind, _ := strings.Cut(u.Scheme, "+")
	switch scheme {
	case "valkey":
		scheme = "redis"
	case "valkeys":
		scheme = "rediss"
	}
	u.Scheme = scheme
	switch {
	case scheme == "unix" && kind == "":
		if u.Host != "" || !strings.HasPrefix(u.Path, "/") {
			return nil, "", errUnix
		}
		return u, "", nil
	case u.Host == "" && (u.Scheme == "" || u.Opaque != ""):
		return nil, "", errHost
	case scheme != "redis" && scheme != "rediss", kind != "" && kind != "sentinel" && kind != "cluster":
		return nil, "", errScheme
	case u.Hostname() == "":
		return nil, "", errHost
	case kind == "cluster" && strings.Trim(u.Path, "/0") != "":
		return nil, "", errCluster
	case strings.Contains(u.Path, "@"), u.User == nil && strings.Contains(u.RawQuery, "@") && !u.Query().Has("master_name"):
		return nil, "", errEncoding
	}
	if _, err := strconv.Atoi(strings.Trim(u.Path, "/")); err != nil && strings.Trim(u.Path, "/") != "" {
		return nil, "", errDatabase
	}
	if kind == "" && u.Query().Has("master_name") {
		kind = "sentinel"
	}
	return u, kind, nil
}

func setPassword(in *string, password string) error {
	switch {
	case password == "":
		return nil
	case *in != "":
		return errTwice
	}
	*in = password
	return nil
}

// explain returns which parameter go-redis refuses. It does not repeat the name of an unknown
// parameter, which may be a part of a password with an & in it.
func explain(u *url.URL, parses func(text string) error) error {
	base := u.Scheme + "://host?"
	if u.Scheme == "unix" {
		base = "unix:///path?"
	}
	for n, parameter := range strings.Split(u.RawQuery, "&") {
		if parses(base+parameter) == nil {
			continue
		}
		name, _, _ := strings.Cut(parameter, "=")
		if parses(base+name+"=1") == nil || parses(base+name+"=host:1") == nil {
			return fmt.Errorf("the value of %s is not valid", name)
		}
		return fmt.Errorf("parameter %d of the query is not known", n+1)
	}
	return errParameter
}
