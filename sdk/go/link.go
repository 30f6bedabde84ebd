package tenure

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
)

const (
	// requestsMax is how many requests may be open.
	requestsMax = 256
	// unsentHigh is how many bytes may wait to be written before those wait who say more.
	unsentHigh = 1 << 20
	// unsentMax is how many bytes may wait to be written. More end the connection.
	unsentMax = 64 << 20
)

// answer is that of a request.
type answer struct {
	Op      string    `json:"op"`
	RID     uint64    `json:"rid"`
	Code    string    `json:"code"`
	Text    string    `json:"text"`
	ID      string    `json:"id"`
	Started bool      `json:"started"`
	Body    *string   `json:"body"`
	Body64  []byte    `json:"body64"`
	Job     *JobInfo  `json:"job"`
	Jobs    []JobInfo `json:"jobs"`
	Next    string    `json:"next"`
}

// link is one connection: what waits to be written, and the open requests. No mutex is held while it reads or writes, so a node
// that stops reading holds nobody up but those who say more.
type link struct {
	conn net.Conn
	// over is closed at its end.
	over chan struct{}
	// wake has an element if there is something to write.
	wake chan struct{}
	// places has an element for each open request.
	places chan struct{}

	mu     sync.Mutex
	isOver bool
	unsent []byte
	// room is closed when all that waited is being written.
	room     chan struct{}
	requests map[uint64]chan *answer
	rid      uint64

	// checkpointMax is the longest state of a job, in bytes. Zero: the node does not say.
	checkpointMax atomic.Int64
}

// fits says whether the pool keeps a state of this length.
func (l *link) fits(state []byte) error {
	longest := l.checkpointMax.Load()
	if longest == 0 || int64(len(state)) <= longest {
		return nil
	}
	text := fmt.Sprintf("the state has %d bytes, and the pool keeps %d at most; it is not saved", len(state), longest)
	return &RequestError{Code: "too_long", Text: text}
}

func newLink(conn net.Conn) *link {
	l := &link{
		conn: conn, over: make(chan struct{}), wake: make(chan struct{}, 1), places: make(chan struct{}, requestsMax),
		room: make(chan struct{}), requests: map[uint64]chan *answer{},
	}
	go l.write()
	return l
}

// write writes what waits, until the end of the connection.
func (l *link) write() {
	for {
		select {
		case <-l.wake:
		case <-l.over:
			return
		}
		l.mu.Lock()
		unsent := l.unsent
		l.unsent = nil
		close(l.room)
		l.room = make(chan struct{})
		l.mu.Unlock()
		if _, err := l.conn.Write(unsent); err != nil {
			l.hangUp()
			return
		}
	}
}

// hangUp has the reader see the end of the connection.
func (l *link) hangUp() { _ = l.conn.Close() }

// send has a message written. It does not wait.
func (l *link) send(f fields) error {
	line, err := f.line()
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sendLocked(line)
}

func (l *link) sendLocked(line []byte) error {
	if l.isOver {
		return errEnded
	}
	if len(l.unsent)+len(line) > unsentMax {
		go l.hangUp()
		return errEnded
	}
	l.unsent = append(l.unsent, line...)
	select {
	case l.wake <- struct{}{}:
	default:
	}
	return nil
}

// ready waits until the node reads what was said, the context is over, or the connection is.
func (l *link) ready(ctx context.Context) {
	for {
		l.mu.Lock()
		room, isFull := l.room, len(l.unsent) >= unsentHigh && !l.isOver
		l.mu.Unlock()
		if !isFull {
			return
		}
		select {
		case <-room:
		case <-l.over:
		case <-ctx.Done():
			return
		}
	}
}

// end ends the connection, and fails its open requests.
func (l *link) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isOver {
		return
	}
	l.isOver, l.unsent = true, nil
	close(l.over)
	for _, done := range l.requests {
		close(done)
	}
	l.requests = map[uint64]chan *answer{}
}

// request makes a request, and returns its answer. One of a job fails once the job is over.
func (l *link) request(ctx context.Context, f fields, job *Job) (*answer, error) {
	select {
	case l.places <- struct{}{}:
	case <-l.over:
		return nil, ended(job)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	l.ready(ctx)
	done, err := l.open(f, job)
	if err != nil {
		<-l.places
		return nil, err
	}
	select {
	case a, heard := <-done:
		switch {
		case !heard:
			return nil, errEnded
		case a.Op == "error":
			return nil, &RequestError{Code: a.Code, Text: a.Text}
		}
		return a, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// open has a request written, and returns where its answer comes. The job cannot end meanwhile.
func (l *link) open(f fields, job *Job) (<-chan *answer, error) {
	if job != nil {
		job.mu.Lock()
		defer job.mu.Unlock()
		if job.isOver {
			return nil, errJobOver
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rid++
	f["rid"] = l.rid
	line, err := f.line()
	if err == nil {
		err = l.sendLocked(line)
	}
	if err != nil {
		return nil, err
	}
	// It is open until it is answered, though nobody may wait for that any more.
	done := make(chan *answer, 1)
	l.requests[l.rid] = done
	return done, nil
}

// answered gives a request its answer.
func (l *link) answered(a *answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if done := l.requests[a.RID]; done != nil {
		delete(l.requests, a.RID)
		<-l.places
		done <- a
	}
}

// ended is why a request of this job cannot be made after the end of the connection.
func ended(job *Job) error {
	if job != nil {
		job.mu.Lock()
		defer job.mu.Unlock()
		if job.isOver {
			return errJobOver
		}
	}
	return errEnded
}

var (
	errEnded   = &RequestError{Code: "failed", Text: "the connection has ended"}
	errJobOver = &RequestError{Code: "fenced", Text: "the job is over"}
)
