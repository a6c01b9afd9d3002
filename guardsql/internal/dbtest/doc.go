// Package dbtest tests guardsql on PostgreSQL, MariaDB and SQLite, with the drivers and libraries that
// its users have. It is a module of its own: guardsql requires none of them.
package dbtest
