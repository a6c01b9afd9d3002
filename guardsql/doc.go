// Package guardsql makes a database refuse the transactions of a former holder of a lock.
//
// A lock in Redis can be lost while its holder works: the process is stopped for longer than the
// ttl, Redis fails over, a key is deleted. The former holder may then write after the next holder
// has read. To prevent this, call [Fence] as the first statement of each transaction that reads or
// writes what the lock protects, or let [InTx] do so:
//
//	err := g.WithLock(ctx, guard.Keyf("stock:%s", sku), func(ctx context.Context) error {
//		return guardsql.InTx(ctx, db, func(ctx context.Context, tx *sql.Tx) error {
//			return sell(ctx, tx, sku) // SELECT, UPDATE, INSERT: through tx
//		})
//	})
//
// # What it does
//
// A table has a row for each key: the highest fencing token whose holder began a transaction. Fence
// writes the token of ctx's lock into the row, unless the row has a higher one; then it returns
// [ErrStale]. The database locks the row until the transaction ends. So no commit of a former holder
// can come after the commit of a fenced transaction of a later holder, whatever Redis forgot.
//
// Holders with the same token pass: one lock may have many transactions, one after another, and Fence
// may be called twice in one transaction. A rollback leaves the row as it was.
//
// # What it needs
//
//   - Each transaction that reads or writes what the lock protects is fenced. If you read in one
//     transaction and write in a later one, fence both: the first Fence makes the database refuse
//     all former holders, so what was read stays true until a later holder comes.
//   - Fence is the first statement. What a transaction read before may be outdated.
//   - Isolation is READ COMMITTED or stricter. In PostgreSQL, REPEATABLE READ and SERIALIZABLE fail
//     with a serialization error where READ COMMITTED waits: run the transaction again. A MySQL
//     transaction must not be started WITH CONSISTENT SNAPSHOT.
//   - The table of fences and the data are in one database with one primary.
//   - Fence is not rolled back by a savepoint while the transaction continues.
//   - The tokens grow, as those of Redis and of a quorum do. If Redis's clock is set back and its data
//     are lost, new holders are refused until the clock has caught up.
//
// # What it does not do
//
// It does not take the lock. It does not refuse transactions that are not fenced. It undoes nothing
// outside of the database: a bank needs an idempotency key. While a process with an open transaction
// is stopped, the next holder's Fence waits for the row until its ctx ends: bound idle transactions
// in the database (idle_in_transaction_session_timeout in PostgreSQL, innodb_lock_wait_timeout in
// MySQL).
//
// Errors of the database are returned unchanged. The guide docs/guides/fencing.md has gorm, sqlc, ent,
// old rows, restored backups, and stores without transactions.
package guardsql
