// Package adaptertest is the suite that every HTTP adapter passes: the table of answers
// row by row, the keys of URLs, and what the work under a lock sees. It is for tests
// only.
//
// The adapters of echo v4 and v5 have some tests twice, alike but for the types. Echo's two
// versions are two modules whose contexts have different types. A test against an interface of
// both would test an API that no user has. What needs no type of echo stands here once: the
// requests, their answers, and how to ask.
package adaptertest
