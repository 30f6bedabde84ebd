// Pulse's pool: jobs are dispatched and started, each key by its own worker. All run until the pool is shut down.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"goa.design/pulse/pool"
)

type handler struct{}

func (handler) Start(*pool.Job) error { return nil }
func (handler) Stop(string) error     { return nil }

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	jobs, err := strconv.Atoi(os.Args[2])
	check(err)
	options, err := redis.ParseURL(os.Getenv("REDIS_URL"))
	check(err)
	ctx, rdb := context.Background(), redis.NewClient(options)
	// It refuses jobs beyond its queue, which is short by default.
	node, err := pool.AddNode(ctx, "peers", rdb, pool.WithMaxQueuedJobs(1_000_000))
	check(err)
	_, err = node.AddWorker(ctx, handler{})
	check(err)
	payload := []byte(strings.Repeat("x", 100))
	out := map[string]any{"jobs": jobs}
	if os.Args[1] == "throughput" {
		callers, err := strconv.Atoi(os.Args[3])
		check(err)
		keys, began := make(chan int), time.Now()
		var group sync.WaitGroup
		for range callers {
			group.Add(1)
			go func() {
				defer group.Done()
				for n := range keys {
					check(node.DispatchJob(ctx, fmt.Sprintf("k%d", n), payload))
				}
			}()
		}
		for n := range jobs {
			keys <- n
		}
		close(keys)
		group.Wait()
		out["seconds"] = time.Since(began).Seconds()
	} else {
		times := make([]float64, 0, jobs)
		for n := range jobs {
			began := time.Now()
			check(node.DispatchJob(ctx, fmt.Sprintf("k%d", n), payload))
			times = append(times, float64(time.Since(began).Microseconds())/1e3)
		}
		sort.Float64s(times)
		out["p50_ms"], out["p99_ms"] = times[len(times)/2], times[min(len(times)*99/100, len(times)-1)]
	}
	check(json.NewEncoder(os.Stdout).Encode(out))
	check(node.Shutdown(ctx))
}
