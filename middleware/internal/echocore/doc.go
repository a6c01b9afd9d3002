// Package echocore is what guardecho does alike for echo v4 and for echo v5. C is the
// context that the handlers of a version get. It is pooled: nothing here keeps one.
package echocore
