// Package rediskey says what keys and channels are called in Redis.
//
// It relies on nothing, asks nobody, and every key that it makes can be read back (Of).
package rediskey
