package guardgrpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/locking"
)

// defaultWait is short, as over HTTP.
const defaultWait = 2 * time.Second

// Methods has the Rules of methods such as "/orders.v1.Orders/Pay".
type Methods map[string]Rule

// Unary locks the unary methods of a table; other calls pass untouched. Check finds rows that lock nothing. With a nil
// g, the Guard in the context of the call locks, or else the one given to guard.SetDefault. The lock's Name is the row,
// and its Wait is 2 seconds if neither the rule nor the Guard set one. Unary panics if a row is no method, or its rule
// has no key or an option out of its bounds.
func Unary(g *guard.Guard, methods Methods) grpc.UnaryServerInterceptor {
	rows := bind(g, methods)
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
		row := rows[info.FullMethod]
		if row == nil {
			return handler(ctx, req)
		}
		err = row.serve(ctx, req, &resp, func(ctx context.Context) (err error) {
			resp, err = handler(ctx, req)
			return err
		})
		return resp, err
	}
}

// Stream locks the streaming methods of a table, each call until the handler has returned. Otherwise it is as Unary:
// give both the same table.
func Stream(g *guard.Guard, methods Methods) grpc.StreamServerInterceptor {
	rows := bind(g, methods)
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		row := rows[info.FullMethod]
		if row == nil {
			return handler(srv, ss)
		}
		return row.serve(ss.Context(), nil, nil, func(ctx context.Context) error { return handler(srv, &stream{ss, ctx}) })
	}
}

// stream is a stream under a lock.
type stream struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // a ServerStream has one
}

func (s *stream) Context() context.Context { return s.ctx }

func (s *stream) SendMsg(m any) error {
	if err := s.lost(); err != nil {
		return err
	}
	return s.ServerStream.SendMsg(m)
}

func (s *stream) RecvMsg(m any) error {
	if err := s.lost(); err != nil {
		return err
	}
	return s.ServerStream.RecvMsg(m)
}

// lost returns the loss of the lock, or nil.
func (s *stream) lost() error {
	if err := context.Cause(s.ctx); errors.Is(err, guard.ErrLost) {
		return err
	}
	return nil
}

// method is a row of the table, bound to a Guard.
type method struct {
	*locking.Locker[call]
	name    string
	once    bool
	onError func(ctx context.Context, err error) error
	faults  locking.Faults
}

func bind(g *guard.Guard, methods Methods) map[string]*method {
	return locking.Table(adapter.Name, methods, func(name string, rule Rule) (*method, error) {
		if _, _, ok := split(name); !ok {
			return nil, errors.New(`a method is a service and its method, as in "/orders.v1.Orders/Pay"`)
		}
		locker, err := rule.rule.Bind(g, defaultWait)
		return &method{Locker: locker, name: name, once: rule.rule.IsOnce(), onError: rule.onError}, err
	})
}

// split splits "/orders.v1.Orders/Pay".
func split(name string) (service, method string, ok bool) {
	rest, rooted := strings.CutPrefix(name, "/")
	service, method, _ = strings.Cut(rest, "/")
	return service, method, rooted && service != "" && method != "" && !strings.Contains(method, "/")
}

// serve calls work, which sets resp, under the locks of the call. Where guard has an error, serve returns its status,
// and clears resp. resp is nil for a stream.
func (m *method) serve(ctx context.Context, req any, resp *any, work func(context.Context) error) error {
	ctx = m.Context(ctx)
	src := call{ctx, req}
	if m.Skips(src) {
		return work(ctx)
	}
	var own, err error
	if m.once {
		own, err = m.runOnce(ctx, src, resp, work)
	} else {
		own, err = m.Run(ctx, m.name, src, work)
	}
	if err == nil {
		return own
	}
	if resp != nil {
		*resp = nil
	}
	return m.refuse(ctx, err)
}

// refuse returns the status of guard's err, or what the program's hook makes of it. Without a hook, it logs an error
// that no caller would see.
func (m *method) refuse(ctx context.Context, err error) error {
	if m.onError != nil {
		if handled := m.onError(ctx, err); handled != nil {
			return handled
		}
	} else if kind := locking.Classify(ctx, err).Kind; ownStatus(kind, err) == nil {
		m.faults.Log(ctx, adapter.Name, m.name, kind.Fault(), err)
	}
	return StatusError(ctx, err)
}

// Check returns an error that names each row which is no method of the server, whose template needs a value that calls
// of the method do not have, or which is a stream with Rule.Once. Call it with the server's GetServiceInfo before it
// serves, or in a test. It checks fields if the .proto file of the service is linked into the program, as generated
// code does.
func Check(server map[string]grpc.ServiceInfo, methods Methods) error {
	return locking.CheckTable(adapter.Name, methods, func(name string, rule Rule) error {
		return check(server, name, rule.rule)
	})
}

func check(server map[string]grpc.ServiceInfo, name string, rule locking.Rule[call]) error {
	service, method, _ := split(name)
	known := server[service].Methods
	at := slices.IndexFunc(known, func(m grpc.MethodInfo) bool { return m.Name == method })
	if at < 0 {
		return errors.New("the server has no such method")
	}
	streams := known[at].IsClientStream || known[at].IsServerStream
	if streams && rule.IsOnce() {
		return errOnceStream
	}
	input := inputOf(service, method)
	for _, placeholder := range rule.Placeholders() {
		if strings.Contains(placeholder, ":") {
			continue // metadata
		}
		var err error
		switch {
		case streams:
			err = errStream
		case input != nil:
			_, err = fieldsOf(input, placeholder)
		}
		if err != nil {
			return fmt.Errorf("placeholder {%s}: %w", placeholder, err)
		}
	}
	return nil
}
