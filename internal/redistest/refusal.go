package redistest

import "github.com/redis/go-redis/v9"

// Refusal is an error that Redis replies, by its text, without a Redis.
type Refusal string

var _ redis.Error = Refusal("")

func (r Refusal) Error() string { return string(r) }

// RedisError implements redis.Error.
func (Refusal) RedisError() {}
