// Package guardstore is what a Guard needs of the place where locks live. Read it if you
// implement a [Store]. To take locks, you do not need it.
//
// [github.com/redlatch/redlatch/guard.New] brings a Store on Redis. Package quorum has one on
// several servers, and package guardtest one in memory: these, and any other, go to
// guard.NewWithStore.
// Package storetest has this contract as a test suite: run it on yours.
//
// The contract: a store decides which owner holds a key, under which owner and fence, and for how
// long. Every method is one atomic step. Every method may be executed twice, with the
// outcome of once. Time is the store's own. A method that ends without an answer says so by
// an error: its outcome is unknown, and a Guard asks again.
//
// What only some stores do is an optional interface, as in database/sql/driver: [Announcer],
// [LimitChecker] and [ServerNamer]. New abilities will come as such. Methods are not added to
// [Store]. The code that makes a store closes it: a Guard does not.
//
// The words:
//
//   - An owner is a token that is made for one claim and never used again. It names the
//     instance it comes from, then '-', then what makes it unique.
//   - A claim asks for a key in the name of an owner. It is finished, for good, once its owner
//     has a tombstone.
//   - A grant is a claim that holds its key.
//   - A fence is the number of a grant: it grows from grant to grant of one key.
//   - A ticket is a place in the queue of the claims that wait for a key.
//   - A tombstone makes a store refuse an owner whose claim may still be on its way.
package guardstore
