// Package storetest has the contract of guardstore.Store as tests, for stores other than those of
// this module. TestStore is the part that each store must pass. TestQueue, TestLimits and
// TestRecords test what a store may leave out.
package storetest
