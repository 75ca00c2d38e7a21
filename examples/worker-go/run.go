package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// Run is what the cluster says of one run.
type Run struct {
	Token     int64             `json:"token"`
	Instance  string            `json:"instance"`
	Job       string            `json:"job"`
	Attempt   int               `json:"attempt"`
	Handler   map[string]any    `json:"handler"`
	RawParams json.RawMessage   `json:"params"`
	TimeoutMs int64             `json:"timeout_ms"`
	GraceMs   int64             `json:"grace_ms"`
	Env       map[string]string `json:"env"`
	Secrets   []string          `json:"secrets"`
	Broken    string            `json:"error"` // why nobody can run it
}

// Params decodes the job's params.
func (r Run) Params(into any) error { return json.Unmarshal(r.RawParams, into) }

// Handler is called in a process of its own; its context ends when the run is asked to end.
type Handler func(context.Context, Run) (any, error)

// said is what a handler returned.
type said struct {
	Result json.RawMessage `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// bootMs is milliseconds of CLOCK_BOOTTIME: nobody sets it, and it runs on while the machine sleeps. Go's own
// monotonic clock stands still then.
func bootMs() int64 {
	const clockBoottime = 7
	var t syscall.Timespec
	if _, _, e := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&t)), 0); e != 0 {
		panic(e)
	}
	return t.Nano() / int64(time.Millisecond)
}

// runHere calls one handler. File 3 holds the run, and then what the handler returned. Each line of the input is the
// time at which this process must be dead, a later one at each renewal of the lease; its end is the death of the
// worker. Both are watched here, beside the handler, so that a worker that is stopped need do nothing.
func runHere(handlers map[string]Handler) {
	file := os.NewFile(3, "run")
	var run Run
	if err := json.NewDecoder(file).Decode(&run); err != nil {
		panic(err)
	}
	file.Truncate(0)
	watch(bufio.NewReader(os.Stdin))
	ctx, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	name, _ := run.Handler["call"].(string)
	value, err := handlers[name](ctx, run)
	answer := said{}
	if err == nil {
		if answer.Result, err = encode(value); err != nil {
			err = fmt.Errorf("its result is no JSON: %w", err) // NaN, a channel, a circle
		}
	}
	if err != nil {
		answer = said{Error: strings.ToValidUTF8(err.Error()[:min(len(err.Error()), 10_000)], "\uFFFD")}
	}
	text, err := encode(answer)
	if err != nil {
		panic(err)
	}
	if _, err := file.WriteAt(text, 0); err != nil {
		panic(err)
	}
}

// encode returns a value as JSON, on one line; nothing is escaped that JSON does not want to be.
func encode(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSpace(text.Bytes()), err
}

// watch returns when the process is being watched.
func watch(lines *bufio.Reader) {
	var deadAt atomic.Int64
	next := func() {
		line, err := lines.ReadString('\n')
		at, wrong := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil || wrong != nil {
			dieAll()
		}
		deadAt.Store(at)
	}
	check := func() {
		if bootMs() >= deadAt.Load() {
			dieAll()
		}
	}
	next()
	check()
	go func() {
		for {
			next()
		}
	}()
	go func() {
		for range time.Tick(50 * time.Millisecond) {
			check()
		}
	}()
}

// dieAll kills this process and all of its group.
func dieAll() {
	syscall.Kill(0, syscall.SIGKILL)
	select {}
}
