// Package locking is shared by all adapters, whatever they adapt to: key templates, the Rule of a route, a method or a
// kind of task, how work runs under its locks, and what an error of guard means. An adapter adds the placeholders of
// its key templates, and an answer for each Kind.
package locking
