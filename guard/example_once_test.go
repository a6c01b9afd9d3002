package guard_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/guard"
)

func receipt(context.Context) (string, error) { return "receipt 1", nil }

// Two requests pay the same order. The customer is charged once, and both get the receipt.
func ExampleOnce() {
	g, _ := exampleGuard()
	defer g.Close()
	ctx, key := context.Background(), guard.Keyf("charge:%d", 42)
	fn := func(context.Context) (string, error) {
		fmt.Println("charge the card")
		return "receipt 1", nil
	}
	for range 2 {
		receipt, replayed, err := guard.Once(ctx, g, key, 24*time.Hour, fn)
		fmt.Println(receipt, replayed, err)
	}
	// Output:
	// charge the card
	// receipt 1 false <nil>
	// receipt 1 true <nil>
}

// All processes share one load for ten seconds.
func ExampleOnce_singleflight() {
	g, _ := exampleGuard()
	defer g.Close()
	ctx := context.Background()
	loadRates := func(context.Context) (map[string]float64, error) {
		fmt.Println("ask the bank")
		return map[string]float64{"EUR": 1.08}, nil
	}
	for range 2 {
		rates, _, err := guard.Once(ctx, g, guard.Key("rates"), 10*time.Second, loadRates, guard.Wait(5*time.Second))
		fmt.Println(rates["EUR"], err)
	}
	// Output:
	// ask the bank
	// 1.08 <nil>
	// 1.08 <nil>
}

// The bank is asked what became of a charge that began and never finished.
func ExampleInterrupted() {
	charge := func(ctx context.Context) (string, error) {
		if fence, ok := guard.Interrupted(ctx); ok {
			return "", fmt.Errorf("ask the bank for charge %d first", fence)
		}
		return "charge the card", nil
	}
	step, _ := charge(context.Background())
	fmt.Println(step)
	// Output: charge the card
}

// The same key with another amount is a mistake of the client.
func ExampleFingerprint() {
	g, _ := exampleGuard()
	defer g.Close()
	for _, amount := range []string{"10 EUR", "99 EUR"} {
		_, _, err := guard.Once(context.Background(), g, order, time.Hour, receipt, guard.Fingerprint([]byte(amount)))
		fmt.Println(amount, errors.Is(err, guard.ErrOtherInput))
	}
	// Output:
	// 10 EUR false
	// 99 EUR true
}

// At most once, work that was interrupted waits for a person to decide.
func ExampleAtMostOnce() {
	g, _ := exampleGuard()
	defer g.Close()

	pay := func(ctx context.Context, charge func(ctx context.Context) (string, error)) error {
		_, _, err := guard.Once(ctx, g, order, time.Hour, charge, guard.AtMostOnce())
		return err
	}
	client, leave := context.WithCancel(context.Background())
	err := pay(client, func(ctx context.Context) (string, error) {
		leave() // did the bank get the order?
		return "", ctx.Err()
	})
	fmt.Println(err)
	fmt.Println(errors.Is(pay(context.Background(), receipt), guard.ErrUnknownOutcome))

	deleted, err := g.Forget(context.Background(), order) // the bank was asked
	fmt.Println(deleted, err)
	fmt.Println(pay(context.Background(), receipt))
	// Output:
	// context canceled
	// true
	// true <nil>
	// <nil>
}

// A result that is text already is kept as it is, without JSON.
func ExampleEncoding() {
	raw := guard.Encoding(
		func(v any) ([]byte, error) { return []byte(v.(string)), nil },
		func(data []byte, v any) error { *v.(*string) = string(data); return nil },
	)
	g, _ := exampleGuard()
	defer g.Close()
	for range 2 {
		fmt.Println(guard.Once(context.Background(), g, order, time.Hour, receipt, raw))
	}
	// Output:
	// receipt 1 false <nil>
	// receipt 1 true <nil>
}

// A result that is too large to be kept is for the first caller alone. The work does not run again.
func ExampleMaxResult() {
	g, _ := exampleGuard()
	defer g.Close()
	for range 2 {
		_, _, err := guard.Once(context.Background(), g, order, time.Hour, receipt, guard.MaxResult(5))
		fmt.Println(errors.Is(err, guard.ErrNotKept))
	}
	// Output:
	// false
	// true
}
