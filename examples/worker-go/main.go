// A remote worker of raftsched: it takes runs of jobs {"call": NAME}, each in a process of its own. Linux only.
package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// handlers are what jobs call by name. What they print is the run's output, what they return its result.
var handlers = map[string]Handler{
	"greet": func(_ context.Context, run Run) (any, error) {
		var params struct{ Name string }
		if err := run.Params(&params); err != nil {
			return nil, err
		}
		fmt.Printf("greeting %s\n", params.Name)
		return map[string]string{"greeting": "Hello " + params.Name}, nil
	},
	// count prints a line for each number, and writes it to `file`, too, with the fencing token.
	"count": func(ctx context.Context, run Run) (any, error) {
		var params struct {
			To      int
			EveryMs int `json:"every_ms"`
			File    string
			Line    string
		}
		if err := run.Params(&params); err != nil {
			return nil, err
		}
		out := os.Stdout
		if params.File != "" {
			file, err := os.OpenFile(params.File, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
			if err != nil {
				return nil, err
			}
			out = file
		}
		for n := 1; n <= params.To; n++ {
			fmt.Fprintf(out, "%d %d %d %s\n", run.Token, n, bootMs(), params.Line)
			if params.EveryMs == 0 {
				continue
			}
			select {
			case <-ctx.Done(): // asked to end: nothing of use is left to be done
				return nil, ctx.Err()
			case <-time.After(time.Duration(params.EveryMs) * time.Millisecond):
			}
		}
		return params.To, nil
	},
	"fail": func(_ context.Context, run Run) (any, error) {
		return nil, fmt.Errorf("attempt %d fails, as it was asked to", run.Attempt)
	},
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "run" {
		runHere(handlers)
		return
	}
	if err := work(handlers); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}
