// Puts of new keys into etcd in closed loops: so many goroutines, each sending its next request when the last was
// answered, over a few connections to the leader. One JSON object on the command line says what to do (see `settings`).
// Each figure is a JSON line on stdout, and so is where its measurement begins.
package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

type settings struct {
	Endpoints   []string `json:"endpoints"`
	Seconds     float64  `json:"seconds"`
	InFlight    []int    `json:"in_flight"`
	Batch       int      `json:"batch"` // puts in one transaction
	BatchFlight int      `json:"batch_in_flight"`
	Connections int      `json:"connections"` // at most; etcd answers faster over a few than over one a goroutine
	ValueBytes  int      `json:"value_bytes"`
	Parts       []string `json:"parts"`
}

var made atomic.Int64 // keys up to now

// key is as long as a job's id and as orderly: they grow.
func key() string { return fmt.Sprintf("jobs/%012x", made.Add(1)) }

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}

func client(endpoints ...string) *clientv3.Client {
	return must(clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: 10 * time.Second}))
}

func leader(endpoints []string) string {
	asked := client(endpoints...)
	defer asked.Close()
	for _, endpoint := range endpoints {
		if status := must(asked.Status(context.Background(), endpoint)); status.Leader == status.Header.MemberId {
			return endpoint
		}
	}
	fmt.Fprintln(os.Stderr, "no node leads")
	os.Exit(1)
	return ""
}

func value(size int) string {
	bytes := make([]byte, size/2)
	must(rand.Read(bytes))
	return hex.EncodeToString(bytes)
}

// processor is the time that this process has used, in seconds.
func processor() float64 {
	var used syscall.Rusage
	must(0, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds()
}

// load returns each answer's latency in ms, and how long it took in seconds.
func load(pool []*clientv3.Client, inFlight int, seconds float64, send func(*clientv3.Client) error) ([]float64, float64) {
	latencies := make([][]float64, inFlight)
	start := time.Now()
	end := start.Add(time.Duration(seconds * float64(time.Second)))
	var all sync.WaitGroup
	for i := range inFlight {
		all.Add(1)
		go func() {
			defer all.Done()
			to := pool[i%len(pool)]
			for sent := time.Now(); sent.Before(end); sent = time.Now() {
				must(0, send(to))
				latencies[i] = append(latencies[i], float64(time.Since(sent).Microseconds())/1000)
			}
		}()
	}
	all.Wait()
	took := time.Since(start).Seconds()
	merged := slices.Concat(latencies...)
	slices.Sort(merged)
	return merged, took
}

func emit(line map[string]any) { fmt.Println(string(must(json.Marshal(line)))) }

func main() {
	var given settings
	must(0, json.Unmarshal([]byte(os.Args[1]), &given))
	to := leader(given.Endpoints)
	body := value(given.ValueBytes)
	pools := func(inFlight int) []*clientv3.Client {
		pool := make([]*clientv3.Client, min(inFlight, given.Connections))
		for i := range pool {
			pool[i] = client(to)
		}
		return pool
	}
	measure := func(bench, rate string, inFlight, each int, send func(*clientv3.Client) error) {
		pool := pools(inFlight)
		load(pool, inFlight, min(1, given.Seconds), send)
		emit(map[string]any{"bench": "begin"})
		before := processor()
		latencies, took := load(pool, inFlight, given.Seconds, send)
		share := (processor() - before) / took / float64(runtime.NumCPU())
		for _, one := range pool {
			one.Close()
		}
		line := map[string]any{
			"bench":     bench,
			"in_flight": inFlight,
			rate:        float64(len(latencies)*each) / took,
			"p50_ms":    latencies[len(latencies)/2],
			"p99_ms":    latencies[len(latencies)*99/100],
			"cpu_load":  share,
		}
		if each > 1 {
			line["batch"] = each
		}
		emit(line)
	}
	if slices.Contains(given.Parts, "create") {
		for _, inFlight := range given.InFlight {
			measure("create", "per_second", inFlight, 1, func(to *clientv3.Client) error {
				_, err := to.Put(context.Background(), key(), body)
				return err
			})
		}
	}
	if slices.Contains(given.Parts, "bulk") {
		measure("create-batch", "jobs_per_second", given.BatchFlight, given.Batch, func(to *clientv3.Client) error {
			puts := make([]clientv3.Op, given.Batch)
			for i := range puts {
				puts[i] = clientv3.OpPut(key(), body)
			}
			_, err := to.Txn(context.Background()).Then(puts...).Commit()
			return err
		})
	}
}
