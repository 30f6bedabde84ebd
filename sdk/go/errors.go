package tenure

import (
	"errors"
	"fmt"
	"time"
)

// Refuse says that this host does not take it now. Return it before a job is ready, or as the error of an ask.
type Refuse struct {
	Text string
	// RetryAfter is the pause of a job in the queue. Zero: a growing one.
	RetryAfter time.Duration
	// Elsewhere asks another worker at once.
	Elsewhere bool
}

func (r *Refuse) Error() string { return r.Text }

// Park says that no further attempt can succeed: the job is parked, with this text.
type Park string

func (p Park) Error() string { return string(p) }

// ErrMoved says that the job's next owner shall have an ask, with which the job did nothing: its token was refused, or it is
// about to end.
var ErrMoved = errors.New("the job's next owner shall have the ask")

// ErrRestart says that a running job cannot take another payload as it is. It starts again with it.
var ErrRestart = errors.New("the job starts again with its other payload")

// ErrLeaseLost says that the lease of a job is over: another worker may have it.
var ErrLeaseLost = errors.New("the lease is over: another worker may have the job")

// ErrFenced says that a job is not this host's any more, so its checkpoint was not kept.
var ErrFenced = errors.New("the job is not this host's any more")

// RequestError says why a request to the pool failed. Its code is for programs: exists, not_found, refused, late and so on.
type RequestError struct {
	Code string
	Text string
}

func (e *RequestError) Error() string { return fmt.Sprintf("%s: %s", e.Code, e.Text) }

// Is finds ErrFenced.
func (e *RequestError) Is(target error) bool { return target == ErrFenced && e.Code == "fenced" }
