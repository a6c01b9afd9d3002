// Package keytemplate derives lock keys from text with placeholders in braces, such as
// "tenant:{header:X-Tenant}:order:{id}". It is the one parser of the key templates
// of all adapters; each adapter supplies the placeholders that its requests can answer.
//
// Two different tuples of values never give the same key: values are escaped as in
// guard.JoinKey, so none holds a ':', an empty value is an error, and a template may
// hold at most one placeholder between two ':'.
package keytemplate
