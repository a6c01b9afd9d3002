// Package names says which formats of keys may name locks. Each name is a metric of its own, so
// they must stay few.
//
// It relies on nothing, and never looks at a key.
package names
