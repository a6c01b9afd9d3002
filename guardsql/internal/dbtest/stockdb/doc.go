// Package stockdb is what sqlc generates from schema.sql and queries.sql.
package stockdb
