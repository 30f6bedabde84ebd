package tenure

import (
	"sync"
	"time"
)

// Lease is the lease under which jobs run, by this machine's monotonic clock.
type Lease struct {
	mu    sync.Mutex
	until time.Time
	timer *time.Timer
	jobs  map[*Job]struct{}
	over  func()
}

func newLease(over func()) *Lease {
	return &Lease{jobs: map[*Job]struct{}{}, over: over}
}

// Left is how long it lasts without another renewal.
func (l *Lease) Left() time.Duration {
	if left := l.rest(); left > 0 {
		return left
	}
	return 0
}

// rest is the time to its end, or since its end if it is negative.
func (l *Lease) rest() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Until(l.until)
}

// Check returns ErrLeaseLost once it is over. Call it before an effect on a resource that cannot check the token.
func (l *Lease) Check() error {
	if l.Left() == 0 {
		return ErrLeaseLost
	}
	return nil
}

func (l *Lease) renew(m *message) {
	left := time.Duration(m.LeftMS) * time.Millisecond
	// The message may have waited for a busy process, so its end by the clock counts, too.
	if now, known := monotonic(); known {
		if byClock := time.Duration(m.UntilMS)*time.Millisecond - now; byClock < left {
			left = byClock
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = time.Now().Add(left)
	if l.timer == nil {
		l.timer = time.AfterFunc(left, l.look)
	} else {
		l.timer.Reset(left)
	}
}

// look ends the jobs if the lease is over. It may have been renewed meanwhile.
func (l *Lease) look() {
	if l.Left() > 0 {
		return
	}
	l.over()
	l.mu.Lock()
	jobs := make([]*Job, 0, len(l.jobs))
	for job := range l.jobs {
		jobs = append(jobs, job)
	}
	l.mu.Unlock()
	for _, job := range jobs {
		job.cancel("lease_lost", false)
	}
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
