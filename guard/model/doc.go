// Package model documents the protocol by which instances pass a lock on.
package model
