package tenure

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

const (
	// The pauses between attempts to attach, from the first to the longest.
	pauseFirst = 100 * time.Millisecond
	pauseMax   = 2 * time.Second
	// lasting is how long a connection lasts after which the pauses begin anew.
	lasting = 5 * time.Second
	// welcomeMax is how long a node may take to answer a hello.
	welcomeMax = 30 * time.Second
	// lookAfter is how often a host that has said bye looks whether it has a job.
	lookAfter = 5 * time.Second
	// keysTold is how many keys an error names.
	keysTold = 10
)

// attachment is what a host has that attaches.
type attachment struct {
	patience  time.Duration
	lookAfter time.Duration
	// leaves is closed when the host wants to end.
	leaves chan struct{}
	// outlived is closed when a job has not ended with its lease. Then `keys` has some.
	outlived chan struct{}
	once     sync.Once
	keys     []string
}

// errOutlived says that jobs run on though their lease is over. Another worker gets the jobs in a moment.
type errOutlived struct {
	keys []string
	// within is how long the process may still take to say so.
	within time.Duration
}

func (e *errOutlived) Error() string {
	return fmt.Sprintf("jobs have not ended by their lease: %q", e.keys)
}

// look ends all if jobs of a lease that is over have not ended.
func (a *attachment) look(lease *Lease, link *link) {
	keys := lease.unended()
	if len(keys) == 0 {
		return
	}
	a.once.Do(func() {
		a.keys = keys
		close(a.outlived)
	})
	link.hangUp()
}

// serveOrAttach does as the environment says.
func (h *Host) serveOrAttach() (int, error) {
	if path, found := os.LookupEnv("TENURE_SOCKET"); found {
		return h.Serve(path)
	}
	path, found := os.LookupEnv("TENURE_ATTACH")
	if !found {
		return 1, errors.New(
			"there is no TENURE_SOCKET and no TENURE_ATTACH: start this program by `tenure host -- COMMAND`")
	}
	ends := make(chan os.Signal, 1)
	// A script starts a program in the background with SIGINT ignored.
	signals := []os.Signal{syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGINT) {
		signals = append(signals, syscall.SIGINT)
	}
	signal.Notify(ends, signals...)
	go func() {
		<-ends
		// The next one ends the process.
		signal.Reset(signals...)
		_ = h.Bye()
	}()
	return h.Attach(path)
}

// Attach attaches to the socket of `tenure host --attach`, and again whenever the connection has ended. It waits for the socket,
// and for a free worker. It attaches again only when all jobs of the last connection have ended. It returns the exit status: 0
// after Bye, 78 if the node speaks another version. 1: a job did not end with its lease, or this is not Linux. End the process
// at once then, for another worker gets the job in a moment.
func (h *Host) Attach(path string) (int, error) {
	return h.attachAs(path, &attachment{patience: welcomeMax, lookAfter: lookAfter})
}

func (h *Host) attachAs(path string, attach *attachment) (int, error) {
	if h.Job == nil {
		return 1, errNoJob
	}
	if _, known := monotonic(); !known {
		return 1, errors.New("a host can attach only on Linux: a lease needs the clock of the node")
	}
	attach.leaves, attach.outlived = make(chan struct{}), make(chan struct{})
	h.mu.Lock()
	h.attach = attach
	if h.leaves {
		close(attach.leaves)
	}
	h.mu.Unlock()
	ended := make(chan struct{})
	defer close(ended)
	go h.leave(attach, ended)
	pauses, told := pauses{}, ""
	for !h.isLeaving() {
		began := time.Now()
		status, err := h.Serve(path)
		if !h.emptied(attach.outlived) {
			return 1, &errOutlived{attach.keys, h.lastWord()}
		}
		if status == 78 {
			return status, err
		}
		if err != nil && err.Error() != told && !h.isLeaving() {
			told = err.Error()
			tell("%s, it attaches to %s when it can", told, path)
		}
		select {
		case <-attach.leaves:
		case <-time.After(pauses.after(time.Since(began))):
		}
	}
	return 0, nil
}

// lastWord is how long the process may take to say that a job has outlived its lease. The node frees the key 0.05 of the TTL
// after the host has found the job.
func (h *Host) lastWord() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ttl / 100
}

// emptied waits for the end of all jobs of the last connection. False: one has not ended with its lease.
func (h *Host) emptied(outlived <-chan struct{}) bool {
	ended := make(chan struct{})
	go func() {
		h.running.Wait()
		close(ended)
	}()
	select {
	case <-outlived:
		return false
	case <-ended:
		return true
	}
}

// leave ends the connection of a host that has said bye, if it has no job and still no answer.
func (h *Host) leave(attach *attachment, ended <-chan struct{}) {
	select {
	case <-attach.leaves:
	case <-ended:
		return
	}
	looks := time.NewTicker(attach.lookAfter)
	defer looks.Stop()
	wasIdle := false
	for {
		select {
		case <-looks.C:
		case <-ended:
			return
		}
		h.mu.Lock()
		link, isIdle := h.link, len(h.jobs) == 0
		h.mu.Unlock()
		if isIdle && wasIdle && link != nil {
			link.hangUp()
		}
		wasIdle = isIdle
	}
}

func (h *Host) isLeaving() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.leaves
}

// pauses are those between attempts to attach. They grow, so that a host that breaks off at once does not come at once.
type pauses struct{ next time.Duration }

// after is the pause after a connection that has lasted so long.
func (p *pauses) after(lasted time.Duration) time.Duration {
	pause := p.next
	if pause == 0 || lasted > lasting {
		pause = pauseFirst
	}
	p.next = 2 * pause
	if p.next > pauseMax {
		p.next = pauseMax
	}
	return pause
}
