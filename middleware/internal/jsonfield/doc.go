// Package jsonfield reads the fields of a JSON payload that a key is made of, as encoding/json
// finds them for a struct. It is the placeholder {field} of the adapters for tasks.
package jsonfield
