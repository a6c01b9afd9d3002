// Package meter measures what the questions under a context cost Redis: package inspect notes how
// long each answer took, the page's budget (package guardweb) adds it up. What Redis did not answer
// costs nothing, and an error that Redis replied is an answer. It never sends anything.
package meter
