package tenure

import "context"

// answer is that of a request.
type answer struct {
	Op     string    `json:"op"`
	RID    uint64    `json:"rid"`
	Code   string    `json:"code"`
	Text   string    `json:"text"`
	ID     string    `json:"id"`
	Body   *string   `json:"body"`
	Body64 []byte    `json:"body64"`
	Job    *JobInfo  `json:"job"`
	Jobs   []JobInfo `json:"jobs"`
	Next   string    `json:"next"`
}

func (h *Host) request(ctx context.Context, f fields) (*answer, error) {
	h.mu.Lock()
	places, over := h.places, h.over
	h.mu.Unlock()
	select {
	case places <- struct{}{}:
	case <-over:
		return nil, errEnded
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	done := make(chan *answer, 1)
	h.mu.Lock()
	if h.isOver || h.places != places {
		h.mu.Unlock()
		<-places
		return nil, errEnded
	}
	h.rid++
	rid := h.rid
	// It is open until it is answered, though nobody may wait for that any more.
	h.requests[rid] = done
	h.mu.Unlock()
	f["rid"] = rid
	if err := h.send(f); err != nil {
		h.closed(rid)
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

var errEnded = &RequestError{Code: "failed", Text: "the connection has ended"}

func (h *Host) answered(a *answer) {
	if done := h.closed(a.RID); done != nil {
		done <- a
	}
}

// closed ends a request, and returns where its answer is waited for. Nil if it is not open.
func (h *Host) closed(rid uint64) chan *answer {
	h.mu.Lock()
	defer h.mu.Unlock()
	done := h.requests[rid]
	if done != nil {
		delete(h.requests, rid)
		<-h.places
	}
	return done
}
