// A feed per key: it keeps its place in a checkpoint, and answers how far it is.
//
//	cd sdk/go && go build -o /tmp/feeds ./examples/feeds
//	tenure host --pool feeds -- /tmp/feeds
//	tenure dispatch acme gold
//	tenure ask acme where
package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	tenure "github.com/tenure/tenure/sdk/go"
)

// places says how far each key is.
var places sync.Map

func feed(ctx context.Context, job *tenure.Job) error {
	place, _ := strconv.Atoi(string(job.CheckpointIn))
	defer func() {
		places.Delete(job.Key())
		job.Leave([]byte(strconv.Itoa(place)))
	}()
	for {
		places.Store(job.Key(), place)
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil
		}
		if err := job.Lease.Check(); err != nil {
			return err
		}
		place++ // write to the world here, with job.Token as the fence
		if place%10 == 0 {
			if err := job.Checkpoint(ctx, []byte(strconv.Itoa(place))); err != nil {
				return err
			}
		}
	}
}

func main() {
	host := tenure.Host{Name: "feeds", MaxJobs: 5000, Job: feed}
	host.Ask = func(_ context.Context, job *tenure.Job, body []byte) ([]byte, error) {
		if string(body) != "where" {
			return nil, &tenure.Refuse{Text: "ask where"}
		}
		place, _ := places.Load(job.Key())
		return []byte(fmt.Sprintf("%s is at %v", job.Key(), place)), nil
	}
	host.Run()
}
