package tenure

import (
	"sync"
	"time"
)

// Lease is the lease under which jobs run, by this machine's monotonic clock.
type Lease struct {
	mu     sync.Mutex
	until  time.Time
	isOver bool
	timer  *time.Timer
	jobs   map[*Job]struct{}
	// ended is told its end, after that of its jobs' contexts.
	ended func()
}

func newLease() *Lease { return &Lease{jobs: map[*Job]struct{}{}} }

// Left is how long it lasts without another renewal.
func (l *Lease) Left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if left := time.Until(l.until); left > 0 {
		return left
	}
	return 0
}

// Check returns ErrLeaseLost once it is over. Call it before an effect on a resource that cannot check the token.
func (l *Lease) Check() error {
	if l.Left() == 0 {
		return ErrLeaseLost
	}
	return nil
}

// renew prolongs it. False: it is over, and another one has to take its place.
func (l *Lease) renew(m *message) bool {
	left := time.Duration(m.LeftMS) * time.Millisecond
	// The message may have waited for a busy process, so its end by the clock counts, too.
	if now, known := monotonic(); known {
		if byClock := time.Duration(m.UntilMS)*time.Millisecond - now; byClock < left {
			left = byClock
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isOver {
		return false
	}
	l.until = time.Now().Add(left)
	if l.timer == nil {
		l.timer = time.AfterFunc(left, l.look)
	} else {
		l.timer.Reset(left)
	}
	return true
}

// look ends the jobs if the lease is over. It may have been renewed meanwhile.
func (l *Lease) look() {
	l.mu.Lock()
	if l.isOver || time.Until(l.until) > 0 {
		l.mu.Unlock()
		return
	}
	l.isOver = true
	jobs := make([]*Job, 0, len(l.jobs))
	for job := range l.jobs {
		jobs = append(jobs, job)
	}
	l.mu.Unlock()
	for _, job := range jobs {
		job.cancel("lease_lost", false)
	}
	l.ended()
}

func (l *Lease) hasEnded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isOver
}

// since is how long it has been over. Negative: it is not.
func (l *Lease) since() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.until)
}

// unended are the keys of some jobs that have not ended.
func (l *Lease) unended() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	keys := []string{}
	for job := range l.jobs {
		if len(keys) == keysTold {
			break
		}
		keys = append(keys, job.Key())
	}
	return keys
}

func (l *Lease) enter(job *Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jobs[job] = struct{}{}
}

func (l *Lease) leave(job *Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.jobs, job)
}
