package main

import (
	"context"
	"fmt"
	"io"
)

// serve keeps the service up until ctx ends, and says what to do with it.
func serve(ctx context.Context, a *app, stdout, stderr io.Writer) {
	lines := fmt.Sprintf(curlLines, a.baseURL, a.opts.orders, a.opts.latency)
	if a.guard != nil {
		lines += fmt.Sprintf(lockLines, a.baseURL, a.redis.cli(), a.redis.run, locksPath)
	}
	say(stdout, "%s", lines)
	say(stderr, "serving on %s, Ctrl-C ends it\n", a.baseURL)
	<-ctx.Done()
}

// curlLines takes the base URL, the number of orders and the gateway's latency.
const curlLines = `Orders 1 to %[2]d wait to be paid; the payment gateway takes %[3]v. Two at once:
  curl -si -X POST %[1]s/orders/1/pay & curl -si -X POST %[1]s/orders/1/pay; wait
The back office waits for its turn instead:
  curl -si -X POST %[1]s/orders/2/pay & curl -si -X POST %[1]s/admin/orders/2/settle; wait
A task that contends with a request:
  curl -si -X POST %[1]s/orders/3/charge; curl -si -X POST %[1]s/orders/3/pay
What became of an order:
  curl -s %[1]s/orders/1
`

// lockLines takes the base URL, a redis-cli command, the prefix of the locks and the path of
// the page.
const lockLines = `Who holds what, and who waits: a page to open in a browser
  %[1]s%[4]s
The lock of an order, while it is being paid:
  curl -s -X POST %[1]s/orders/4/pay & sleep 1; %[2]s hgetall '%[3]s:{order:4}'; wait
`
