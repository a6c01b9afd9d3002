package redistest

import "github.com/redis/go-redis/v9"

// ReplyError is an error that Redis replies, by its text, without a Redis.
type ReplyError string

var _ redis.Error = ReplyError("")

func (r ReplyError) Error() string { return string(r) }

// RedisError implements redis.Error.
func (ReplyError) RedisError() {}
