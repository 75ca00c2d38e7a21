// Handlers of the tests, beside those of examples/worker-go.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

func init() {
	// halves prints half of its lines, the others when there is a file called `gate`.
	handlers["halves"] = func(_ context.Context, run Run) (any, error) {
		var params struct {
			To   int
			Gate string
		}
		if err := run.Params(&params); err != nil {
			return nil, err
		}
		for n := 1; n <= params.To; n++ {
			fmt.Printf("%d %d %s\n", run.Token, n, strings.Repeat("x", 60))
			for n == params.To/2 {
				if _, err := os.Stat(params.Gate); err == nil {
					break
				}
				time.Sleep(50 * time.Millisecond)
			}
		}
		return nil, nil
	}
}
