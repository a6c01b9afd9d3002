// Package adaptertest is the suite that every HTTP adapter passes: the table of answers
// row by row, the keys of URLs, and what the work under a lock sees. It is for tests
// only.
package adaptertest
