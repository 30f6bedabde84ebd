package tenure

import (
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// The pauses between attempts to attach, from the first to the longest.
const (
	pauseFirst = 100 * time.Millisecond
	pauseMax   = 2 * time.Second
)

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
	signal.Notify(ends, syscall.SIGTERM)
	defer signal.Stop(ends)
	go func() {
		<-ends
		_ = h.Bye()
	}()
	return h.Attach(path)
}

// Attach attaches to the socket of `tenure host --attach`, and again whenever the connection has ended. It waits for the socket,
// and for a free worker. It attaches again only when all jobs of the last connection have ended. It returns the exit status: 0
// after Bye, 78 if the node speaks another version. 1: a job did not end with its lease. End the process then, for another
// worker gets the job in a moment.
func (h *Host) Attach(path string) (int, error) {
	if h.Job == nil {
		return 1, errNoJob
	}
	h.mu.Lock()
	h.wake = make(chan struct{})
	if h.leaves {
		close(h.wake)
	}
	h.mu.Unlock()
	pause, told := pauseFirst, ""
	for !h.isLeaving() {
		status, err := h.Serve(path)
		if keys := h.outliving(); len(keys) > 0 {
			return 1, fmt.Errorf("jobs have not ended by their lease: %q", keys)
		}
		if status == 78 {
			return status, err
		}
		if h.isWelcome() {
			pause = pauseFirst
		}
		if err != nil && err.Error() != told && !h.isLeaving() {
			told = err.Error()
			log.Printf("%s, it attaches to %s when it can", told, path)
		}
		select {
		case <-h.wake:
		case <-time.After(pause):
		}
		if pause *= 2; pause > pauseMax {
			pause = pauseMax
		}
	}
	return 0, nil
}

func (h *Host) isLeaving() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.leaves
}

// isWelcome says whether the last connection was welcomed.
func (h *Host) isWelcome() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ttl > 0
}

// outliving waits for the end of all jobs of the last connection. Tenure frees them 0.2 of the worker TTL after their lease. It
// returns the keys of some that are left.
func (h *Host) outliving() []string {
	ended := make(chan struct{})
	go func() {
		h.running.Wait()
		close(ended)
	}()
	h.mu.Lock()
	ttl := h.ttl
	h.mu.Unlock()
	left := ttl / 20
	jobs := h.unended()
	for _, job := range jobs {
		if until := job.Lease.rest() + ttl*3/20; until > left {
			left = until
		}
	}
	if len(jobs) == 0 {
		// Each of them is about to end.
		<-ended
		return nil
	}
	select {
	case <-ended:
		return nil
	case <-time.After(left):
	}
	keys := []string{}
	for _, job := range h.unended() {
		keys = append(keys, job.Key())
	}
	return keys[:min(len(keys), 10)]
}

func (h *Host) unended() []*Job {
	h.mu.Lock()
	defer h.mu.Unlock()
	jobs := make([]*Job, 0, len(h.jobs))
	for _, job := range h.jobs {
		jobs = append(jobs, job)
	}
	return jobs
}

func min(a, b int) int {
	if a < b {
		return a
	}
	return b
}
