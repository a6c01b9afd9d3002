// Package drain admits work until it is closed, and knows when no work is inside any more.
//
// A [Group] closes in two steps: while it drains, it admits only work that belongs to work inside;
// after Close it admits none. Work inside goes on until it notices its stop.
//
// It never ends work, starts no goroutine, and does not know what the work is.
package drain
