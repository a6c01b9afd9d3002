package inspect_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/inspect"
)

// Order 42 hangs. Its hold is ended, and nobody gets in before its work returned.
func ExampleInspector_Revoke() {
	server, err := guardtest.Start()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	rdb := server.Client()
	defer rdb.Close()
	g, err := guard.New(rdb)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer g.Close()

	err = g.WithLock(context.Background(), guard.Key("order:42"), func(ctx context.Context) error {
		i := inspect.New(rdb)
		info, err := i.Get(ctx, "order:42")
		if err != nil {
			return err
		}
		there, err := i.Revoke(ctx, "order:42", info.Holders[0].Fence)
		fmt.Println(there, err)
		<-ctx.Done()
		return nil
	})
	fmt.Println(errors.Is(err, guard.ErrRevoked))
	// Output:
	// true <nil>
	// true
}
