// Package adaptertest is the suite that every HTTP adapter passes: the table of answers row by row, the keys of URLs, and
// the view of the work under a lock. It is for tests only.
//
// The adapters of echo v4 and v5 have some tests twice, which differ in the types of echo's contexts. The requests and
// answers that need no type of echo are here once.
package adaptertest
