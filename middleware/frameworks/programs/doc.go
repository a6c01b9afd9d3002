// Package programs has programs as somebody writes them who begins with redlatch, one for each
// kind of server. Their handlers ignore their context. Its test deletes the key under them: what
// their clients get is never a success.
package programs
