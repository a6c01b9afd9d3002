// Package frameworks has no code of its own. It shows how redlatch locks the routes of
// frameworks that it has no adapter for, and tests that they are locked; and that
// all HTTP adapters derive the same key from the same request. It is a module of its own, so
// that users of redlatch do not depend on them.
package frameworks
