// Package embedded runs a Redis in the process of a program that has none: a demonstration, or a
// first try of package guard. It is miniredis (github.com/alicebob/miniredis) with keys that
// expire as those of a Redis server do. For production, use a Redis server.
package embedded
