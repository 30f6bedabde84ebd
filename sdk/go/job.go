package tenure

import (
	"context"
	"sync"
	"time"
)

// Trace is the trace of a job's dispatch.
type Trace struct {
	Parent string `json:"parent"`
	State  string `json:"state"`
}

// Job is a job that this host runs.
type Job struct {
	// link is its connection.
	link   *link
	number uint64
	ctx    context.Context
	end    context.CancelFunc

	key []byte
	// Token is the fencing token. Give it to each resource that you write to: it must refuse a lower one than it has seen.
	Token uint64
	// CheckpointIn is the state that the last run has left. Nil if there is none.
	CheckpointIn []byte
	// Attempt is the number of begins since the job was last healthy, this one included.
	Attempt uint32
	// ID is the id of its dispatch.
	ID string
	// Trace is that of its dispatch. Nil if it has none.
	Trace *Trace
	// Lease is the lease that it runs under.
	Lease *Lease

	// mu is never held while something is read or written.
	mu          sync.Mutex
	payload     []byte
	payloadType string
	reason      string
	isReady     bool
	stops       bool
	isOver      bool
	// Its function has ended.
	ends bool
	// serving are the asks and updates in hand.
	serving  sync.WaitGroup
	state    []byte
	hasState bool
	notes    chan *Notification
}

// Key is its key.
func (j *Job) Key() string { return string(j.key) }

// Payload is its payload. Another one takes its place when an update was taken.
func (j *Job) Payload() []byte {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.payload
}

// PayloadType is the name of the payload's type, or empty.
func (j *Job) PayloadType() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.payloadType
}

// StopReason is why it must end. Empty while it need not.
func (j *Job) StopReason() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.reason
}

// Ready says that it runs: its dispatch returns. Only for a host with ExplicitReady.
func (j *Job) Ready() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.isReady && !j.isOver {
		j.isReady = true
		j.sayLocked(fields{"op": "started", "job": j.number})
	}
}

// Checkpoint leaves a small state with the job, for its next run. It returns when that is kept, or the context is over. It
// returns ErrFenced if the job is not this host's any more, and a *RequestError with the code too_long if the state is too long.
func (j *Job) Checkpoint(ctx context.Context, state []byte) error {
	if err := j.link.fits(state); err != nil {
		return err
	}
	_, err := j.link.request(ctx, fields{"op": "checkpoint", "job": j.number}.put("body", state), j)
	return err
}

// Leave sets the state for the next run, if this one is told to stop. The last one counts. It logs and returns a *RequestError
// with the code too_long if the state is too long. The state before stays then.
func (j *Job) Leave(state []byte) error {
	if err := j.link.fits(state); err != nil {
		// A deferred call mostly drops its result.
		tell("the job %q leaves no state: %v", j.key, err)
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.state, j.hasState = append([]byte{}, state...), true
	return nil
}

// Progress says that it makes progress. A job with a progress timeout must call this more often than that.
func (j *Job) Progress() { j.say(fields{"op": "progress", "job": j.number}) }

// Status is a text for people. It counts as progress.
func (j *Job) Status(text string) { j.say(fields{"op": "status", "job": j.number, "text": text}) }

// Notifications has the notifications, one at a time. The next one comes after the last was acknowledged or refused. One
// that is not acknowledged comes again, perhaps to the next owner.
func (j *Job) Notifications() <-chan *Notification { return j.notes }

// say says something of the job. After its last word there is nothing to say. While the job runs, it waits for a node that
// reads too slowly.
func (j *Job) say(f fields) {
	j.link.ready(j.ctx)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.sayLocked(f)
}

func (j *Job) sayLocked(f fields) {
	if !j.isOver {
		// The connection may have ended: the host sees that.
		_ = j.link.send(f)
	}
}

// serve does this for the job, unless the job is over. The job's last word waits for its end.
func (j *Job) serve(work func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ends {
		return
	}
	j.serving.Add(1)
	go func() {
		defer j.serving.Done()
		work()
	}()
}

func (j *Job) cancel(why string, isStop bool) {
	j.mu.Lock()
	j.stops = j.stops || isStop
	if j.reason == "" {
		j.reason = why
	}
	j.mu.Unlock()
	j.end()
}

// Notification is a notification of a job.
type Notification struct {
	job *Job
	n   uint64
	// Body is what was sent.
	Body []byte
	// Refusals is how often it was refused.
	Refusals uint32
}

// Ack says that it is done.
func (n *Notification) Ack() {
	n.job.say(fields{"op": "ack", "job": n.job.number, "n": n.n})
}

// Refuse says: not now. It comes again after so long, before any later one.
func (n *Notification) Refuse(retryAfter time.Duration, why string) {
	n.job.say(fields{
		"op": "ack", "job": n.job.number, "n": n.n, "retry_ms": millis(retryAfter), "error": why,
	})
}
