// Package tenure hosts the jobs of a Tenure pool: thousands of keys in one process. It needs the standard library alone.
//
//	host := tenure.Host{MaxJobs: 5000}
//	host.Job = func(ctx context.Context, job *tenure.Job) error {
//		<-ctx.Done()
//		return nil
//	}
//	host.Run()
//
// Start it with `tenure host --pool feeds -- ./feeds`.
package tenure

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"time"
)

const (
	textMax = 1000
	// busy is the exit status of a host for which no worker is free now.
	busy = 75
)

// Host is a host of jobs. Set its fields before it runs.
type Host struct {
	// Name and Version are for people.
	Name, Version string
	// MaxJobs bounds the jobs that it takes. Zero: no bound.
	MaxJobs int
	// MaxStarting bounds the jobs that it starts at once. Zero: 64.
	MaxStarting int
	// Job runs a job, from its start to its end. It must return when its context is over.
	Job func(ctx context.Context, job *Job) error
	// ExplicitReady: a job counts as started only when Job calls its Ready.
	ExplicitReady bool
	// Ask answers an ask. A *Refuse refuses it, and ErrMoved sends it to the job's next owner. Nil: the host takes no asks.
	Ask func(ctx context.Context, job *Job, body []byte) ([]byte, error)
	// Update takes another payload. ErrRestart restarts the job. Nil: each update does.
	Update func(ctx context.Context, job *Job, payload []byte) error

	// mu is never held while something is read or written.
	mu      sync.Mutex
	link    *link
	jobs    map[uint64]*Job
	leases  map[uint64]*Lease
	running sync.WaitGroup
	// ttl is the worker TTL of a connection that was welcomed.
	ttl time.Duration
	// leaves: it wants to end.
	leaves bool
	// attach is nil while it does not attach.
	attach *attachment
}

// Pool has the requests to the pool.
func (h *Host) Pool() Pool { return Pool{h} }

// Bye asks Tenure to hand all jobs on. This process ends then. `tenure host -- COMMAND` starts a new one in its place.
func (h *Host) Bye() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.leaves && h.attach != nil {
		close(h.attach.leaves)
	}
	h.leaves = true
	if h.link == nil {
		return nil
	}
	return h.link.send(fields{"op": "bye"})
}

// Run serves until there is nothing more to do, and ends the process. With TENURE_ATTACH in place of TENURE_SOCKET it
// attaches, and SIGTERM or SIGINT has its jobs handed on before it ends. A second one ends it at once.
func (h *Host) Run() {
	surviveLostReaders()
	status, err := h.serveOrAttach()
	within := lastWords
	if err != nil {
		tell("%v", err)
		var outlived *errOutlived
		if errors.As(err, &outlived) {
			within = outlived.within
		}
	}
	told.end(within)
	os.Exit(status)
}

// Serve serves until there is nothing more to do, and returns the exit status.
func (h *Host) Serve(path string) (int, error) {
	if h.Job == nil {
		return 1, errNoJob
	}
	h.mu.Lock()
	h.ttl = 0
	h.mu.Unlock()
	conn, err := net.Dial("unix", path)
	if err != nil {
		return 1, err
	}
	defer conn.Close()
	link := newLink(conn)
	defer h.end(link)
	if err := h.connected(link); err != nil {
		return 1, err
	}
	return h.listen(link)
}

var errNoJob = errors.New("the host has no function Job")

// connected begins with a connection, and says hello.
func (h *Host) connected(link *link) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.link, h.jobs, h.leases = link, map[uint64]*Job{}, map[uint64]*Lease{}
	if h.attach != nil {
		if err := link.conn.SetReadDeadline(time.Now().Add(h.attach.patience)); err != nil {
			return err
		}
	}
	err := link.send(h.hello())
	if err == nil && h.leaves {
		err = link.send(fields{"op": "bye"})
	}
	return err
}

func (h *Host) hello() fields {
	features := []string{"checkpoint", "client"}
	if h.Ask != nil {
		features = append(features, "ask")
	}
	if h.Update != nil {
		features = append(features, "update")
	}
	hello := fields{
		"op": "hello", "v": []int{version}, "name": h.Name, "version": h.Version, "sdk": "go/0.1.0",
		"features": features,
	}
	if h.MaxJobs > 0 {
		hello["max_jobs"] = h.MaxJobs
	}
	if h.MaxStarting > 0 {
		hello["max_starting"] = h.MaxStarting
	}
	return hello
}

func (h *Host) listen(link *link) (int, error) {
	lines := bufio.NewReaderSize(link.conn, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return 1, fmt.Errorf("the connection has ended: %w", err)
		}
		// Answers have a field `job` of another kind.
		var kind struct {
			Op string `json:"op"`
		}
		if err := json.Unmarshal(line, &kind); err != nil {
			return 1, err
		}
		switch kind.Op {
		case "ok", "error":
			var a answer
			if err := json.Unmarshal(line, &a); err != nil {
				return 1, err
			}
			link.answered(&a)
			continue
		case "bye":
			return 0, nil
		}
		var m message
		if !words[kind.Op] {
			// Words of a later version are not for this host.
			continue
		}
		if err := json.Unmarshal(line, &m); err != nil {
			return 1, err
		}
		if m.Op == "refused" {
			status := 78
			if m.Ours == nil {
				// No worker is free for it now.
				status = busy
			}
			return status, fmt.Errorf("tenure refuses this host: %s", m.Why)
		}
		if err := h.hear(link, &m); err != nil {
			return 1, err
		}
	}
}

var words = map[string]bool{
	"hello": true, "refused": true, "lease": true, "start": true, "stop": true, "notify": true, "ask": true, "update": true, "ping": true,
	"bounds": true, "unsaved": true,
}

func (h *Host) hear(link *link, m *message) error {
	job := h.job(m.Job)
	switch m.Op {
	case "hello":
		h.mu.Lock()
		h.ttl = time.Duration(m.TTLMS) * time.Millisecond
		h.mu.Unlock()
		link.checkpointMax.Store(m.CheckpointMax)
		// It is welcome, and may hear nothing for long.
		return link.conn.SetReadDeadline(time.Time{})
	case "bounds":
		link.checkpointMax.Store(m.CheckpointMax)
	case "unsaved":
		tell("the last state of the job %q may not be kept: %s", taken(m.Key, m.Key64), m.Text)
	case "ping":
		return link.send(fields{"op": "pong", "n": m.N})
	case "lease":
		for !h.lease(m.Lease).renew(m) {
			// One that is over leaves its place to another.
		}
	case "start":
		h.start(link, m)
	case "stop":
		// It may have ended before.
		if job != nil {
			job.cancel(m.Why, true)
		}
	case "notify":
		if job != nil {
			note := &Notification{job: job, n: m.N, Body: taken(m.Body, m.Body64), Refusals: m.Refusals}
			// There is one at a time. One that nobody has taken is forgotten with its job.
			select {
			case job.notes <- note:
			default:
				go func() {
					select {
					case job.notes <- note:
					case <-job.ctx.Done():
					}
				}()
			}
		}
	case "ask":
		if job != nil && h.Ask != nil {
			job.serve(func() { h.answerAsk(job.ctx, job, m) })
		}
	case "update":
		if job != nil && h.Update != nil {
			job.serve(func() { h.takeUpdate(job.ctx, job, m) })
		}
	}
	return nil
}

func (h *Host) job(number uint64) *Job {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.jobs[number]
}

func (h *Host) lease(number uint64) *Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	lease := h.leases[number]
	if lease == nil || lease.hasEnded() {
		lease = newLease()
		// Those of the next connection have the same numbers.
		leases := h.leases
		lease.ended = func() { h.leaseEnded(leases, number, lease) }
		leases[number] = lease
	}
	return lease
}

// leaseEnded forgets a lease. Of a host that attaches, nobody ends the process if its jobs do not end: it does so itself.
func (h *Host) leaseEnded(leases map[uint64]*Lease, number uint64, lease *Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if leases[number] == lease {
		delete(leases, number)
	}
	if h.attach != nil {
		attach, link := h.attach, h.link
		time.AfterFunc(h.ttl*3/20-lease.since(), func() { attach.look(lease, link) })
	}
}

func (h *Host) start(link *link, m *message) {
	ctx, cancel := context.WithCancel(context.Background())
	job := &Job{
		link: link, number: m.Job, ctx: ctx, end: cancel, key: taken(m.Key, m.Key64), Token: m.Token,
		CheckpointIn: taken(m.Checkpoint, m.Checkpoint64), Attempt: m.Attempt, ID: m.ID, Trace: m.Trace,
		Lease: h.lease(m.Lease), payload: taken(m.Body, m.Body64), payloadType: m.Type,
		notes: make(chan *Notification, 1),
	}
	h.mu.Lock()
	h.jobs[job.number] = job
	h.mu.Unlock()
	job.Lease.enter(job)
	if job.Lease.Left() == 0 {
		job.cancel("lease_lost", false)
	}
	h.running.Add(1)
	go func() {
		defer h.running.Done()
		h.live(ctx, job)
	}()
}

// live runs a job from its start to its last word.
func (h *Host) live(ctx context.Context, job *Job) {
	var err error
	// It may have to end before it has begun.
	if ctx.Err() == nil {
		if !h.ExplicitReady {
			job.Ready()
		}
		err = h.run(ctx, job)
	}
	last := h.last(job, err)
	job.mu.Lock()
	job.ends = true
	isStopped := job.stops
	if !isStopped && job.reason != "" {
		// Nobody has told it to end but its lease.
		last = fields{"op": "ended", "job": job.number, "error": "the lease was over", "lost": true}
	}
	job.mu.Unlock()
	job.end()
	job.serving.Wait()
	job.mu.Lock()
	if isStopped {
		last = fields{"op": "stopped", "job": job.number}
		if job.hasState {
			last.put("checkpoint", job.state)
		}
	}
	if _, err := last.line(); err != nil {
		tell("the last word on %q: %v", job.key, err)
		last = fields{"op": last["op"], "job": job.number}
	}
	job.sayLocked(last)
	job.isOver = true
	job.mu.Unlock()
	job.Lease.leave(job)
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.jobs, job.number)
}

// run calls the user's function. A panic is its error.
func (h *Host) run(ctx context.Context, job *Job) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			tell("the job %q panicked: %v\n%s", job.key, panicked, debug.Stack())
			err = fmt.Errorf("panicked: %v", panicked)
		}
	}()
	return h.Job(ctx, job)
}

// last is the last word of a job that ends with this error.
func (h *Host) last(job *Job, err error) fields {
	job.mu.Lock()
	isReady := job.isReady
	job.mu.Unlock()
	if err == nil {
		return fields{"op": "ended", "job": job.number}
	}
	var refuse *Refuse
	if errors.As(err, &refuse) && !isReady {
		f := fields{"op": "refused", "job": job.number}
		if refuse.RetryAfter > 0 {
			f["retry_ms"] = refuse.RetryAfter.Milliseconds()
		}
		if refuse.Elsewhere {
			f["elsewhere"] = true
		}
		return f
	}
	f := fields{"op": "failed", "job": job.number, "error": cut(err.Error())}
	if isReady {
		f["op"] = "ended"
	}
	var park Park
	if errors.As(err, &park) {
		f["park"] = true
	}
	return f
}

func (h *Host) answerAsk(ctx context.Context, job *Job, m *message) {
	f := fields{"op": "answer", "job": job.number, "n": m.N}
	body, err := caught(func() ([]byte, error) { return h.Ask(ctx, job, taken(m.Body, m.Body64)) })
	if err == nil {
		f.put("body", body)
		_, err = f.line()
	}
	switch {
	case errors.Is(err, ErrMoved):
		f = fields{"op": "answer", "job": job.number, "n": m.N, "moved": true}
	case err != nil:
		f = fields{"op": "answer", "job": job.number, "n": m.N, "error": cut(err.Error())}
	}
	job.say(f)
}

func (h *Host) takeUpdate(ctx context.Context, job *Job, m *message) {
	f := fields{"op": "updated", "job": job.number, "n": m.N}
	payload := taken(m.Body, m.Body64)
	_, err := caught(func() ([]byte, error) { return nil, h.Update(ctx, job, payload) })
	switch {
	case err == nil:
		job.mu.Lock()
		job.payload, job.payloadType = payload, m.Type
		job.mu.Unlock()
	case errors.Is(err, ErrRestart):
		f["restart"] = true
	default:
		f["error"] = cut(err.Error())
	}
	job.say(f)
}

func caught(call func() ([]byte, error)) (body []byte, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			tell("a handler panicked: %v\n%s", panicked, debug.Stack())
			err = fmt.Errorf("panicked: %v", panicked)
		}
	}()
	return call()
}

// end ends all jobs of a connection: nobody hears of them any more.
func (h *Host) end(link *link) {
	link.end()
	h.mu.Lock()
	jobs := make([]*Job, 0, len(h.jobs))
	for _, job := range h.jobs {
		jobs = append(jobs, job)
	}
	h.mu.Unlock()
	for _, job := range jobs {
		job.cancel("shutdown", false)
	}
}

// request makes a request of the host.
func (h *Host) request(ctx context.Context, f fields) (*answer, error) {
	h.mu.Lock()
	link := h.link
	h.mu.Unlock()
	if link == nil {
		return nil, errEnded
	}
	return link.request(ctx, f, nil)
}

func cut(text string) string {
	if len(text) > textMax {
		return text[:textMax]
	}
	return text
}
