// Package meter measures what the questions under a context cost Redis: package inspect notes how
// long each answer took, the page's budget (package guardweb) adds it up. What Redis did not answer
// costs nothing. It never sends anything.
package meter
