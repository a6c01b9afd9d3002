// Package guardgrpc locks methods of a gRPC server: while one call works on a key, another call for the same key waits,
// or is answered that the resource is busy, in whichever process it arrived.
//
//	methods := guardgrpc.Methods{"/orders.v1.Orders/Pay": guardgrpc.Lock("order:{order_id}")}
//	server := grpc.NewServer(
//		grpc.ChainUnaryInterceptor(authenticate, guardgrpc.Unary(g, methods)),
//		grpc.ChainStreamInterceptor(guardgrpc.Stream(g, methods)))
//
// Put the lock inside of authentication, or strangers hold your locks.
//
// # Keys
//
// {order_id} is a field of the request message, as the .proto file spells it, and {order.id} is a field of a message in
// it: a string, an integer, or an enum, which counts as its number. A field that is not set has no value; so 0 is a
// value in an optional field only. {metadata:x-tenant} is metadata of the call. A value that is missing, empty, given
// more than once or not UTF-8 is answered InvalidArgument. Two placeholders need a ':' between them. A stream has no
// request message when it begins: its key comes from metadata or a LockFunc.
//
// # Answers
//
// docs/guides/grpc.md has the table of codes. A status has an ErrorInfo of the domain "redlatch", with a reason. If a
// retry may succeed, it has a RetryInfo, and the trailer grpc-retry-pushback-ms, which clients with a retry policy
// heed. A status never has the key, the holder or a text of Redis. errors.As finds guard's error in the errors of the
// interceptors.
//
// A lost lock is answered Unknown, whatever the handler returned, as its outcome is not known. It is never Unavailable,
// which clients and meshes retry. The trailer forbids a retry.
//
// # Handlers
//
// The context of the handler descends from the lease's: it ends when the lock is lost, with a *guard.LostError as its
// cause, and carries the Guard. After a loss, SendMsg and RecvMsg of a stream fail; a RecvMsg that already waits
// returns when the client sends. The handler's error is returned unchanged, unless its lock was lost. Panics pass and
// release the lock.
package guardgrpc
