package tenure

import (
	"context"
	"time"
)

// Pool has the requests to the pool. Each returns a *RequestError if it fails there.
type Pool struct{ host *Host }

// DispatchOptions are the options of a dispatch.
type DispatchOptions struct {
	// Policy says when the job runs again: never, on-failure or always.
	Policy string
	// ID is the caller's id of the dispatch.
	ID string
	// Within is how long it may take.
	Within time.Duration
}

// JobInfo is a job of the pool.
type JobInfo struct {
	Key      string  `json:"key"`
	Key64    []byte  `json:"key64"`
	State    string  `json:"state"`
	Token    uint64  `json:"token"`
	Worker   *uint64 `json:"worker"`
	Attempts uint32  `json:"attempts"`
}

// Dispatch starts a job, and returns when it runs.
func (p Pool) Dispatch(ctx context.Context, key string, payload []byte, options DispatchOptions) error {
	_, err := p.dispatch(ctx, "dispatch", key, payload, options)
	return err
}

// Ensure is as Dispatch, but a job that is there already is fine. It says whether this call has started its job.
func (p Pool) Ensure(ctx context.Context, key string, payload []byte, options DispatchOptions) (bool, error) {
	answer, err := p.dispatch(ctx, "ensure", key, payload, options)
	if err != nil {
		return false, err
	}
	return answer.Started, nil
}

// Submit is as Dispatch, but returns when the pool has accepted the job, with the id of the dispatch.
func (p Pool) Submit(ctx context.Context, key string, payload []byte, options DispatchOptions) (string, error) {
	answer, err := p.dispatch(ctx, "submit", key, payload, options)
	if err != nil {
		return "", err
	}
	return answer.ID, nil
}

func (p Pool) dispatch(
	ctx context.Context, op, key string, payload []byte, options DispatchOptions,
) (*answer, error) {
	f := request(op, key).put("body", payload)
	if options.Policy != "" {
		f["policy"] = options.Policy
	}
	if options.ID != "" {
		f["id"] = options.ID
	}
	if options.Within != 0 {
		f["within_ms"] = millis(options.Within)
	}
	return p.host.request(ctx, f)
}

// Stop stops a job. UntilStopped waits for its end.
func (p Pool) Stop(ctx context.Context, key string, untilStopped bool) error {
	f := request("stop", key)
	f["until_stopped"] = untilStopped
	_, err := p.host.request(ctx, f)
	return err
}

// Notify leaves a notification for a job.
func (p Pool) Notify(ctx context.Context, key string, body []byte) error {
	_, err := p.host.request(ctx, request("notify", key).put("body", body))
	return err
}

// Ask asks the owner of a job, and returns its answer. An idempotent ask may be asked twice.
func (p Pool) Ask(ctx context.Context, key string, body []byte, idempotent bool) ([]byte, error) {
	f := request("ask", key).put("body", body)
	f["idempotent"] = idempotent
	answer, err := p.host.request(ctx, f)
	if err != nil {
		return nil, err
	}
	return taken(answer.Body, answer.Body64), nil
}

// Get is a job. Nil if there is none.
func (p Pool) Get(ctx context.Context, key string) (*JobInfo, error) {
	answer, err := p.host.request(ctx, request("get", key))
	if err != nil {
		return nil, err
	}
	return answer.Job, nil
}

// List has about so many jobs, and where the list continues. Empty: it does not.
func (p Pool) List(ctx context.Context, limit int, next string) ([]JobInfo, string, error) {
	if limit < 0 {
		limit = 0
	}
	f := fields{"op": "list", "limit": limit}
	if next != "" {
		f["next"] = next
	}
	answer, err := p.host.request(ctx, f)
	if err != nil {
		return nil, "", err
	}
	return answer.Jobs, answer.Next, nil
}

func request(op, key string) fields { return fields{"op": op}.put("key", []byte(key)) }
