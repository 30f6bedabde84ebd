package tenure

import (
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// How many texts for the log may wait. Further texts are dropped.
const tellWaiting = 1000

// How long the end of the process waits for the last texts.
var lastWords = time.Second

// A teller writes texts to the log in a goroutine, so that no job waits for a reader of the log. Texts without room are counted,
// and a note says how many as soon as a write has ended.
type teller struct {
	once    sync.Once
	texts   chan func()
	dropped atomic.Int64
}

var told teller

// begin starts the goroutine that writes.
func (t *teller) begin() {
	t.texts = make(chan func(), tellWaiting)
	go func() {
		for write := range t.texts {
			write()
			if count := t.dropped.Swap(0); count > 0 {
				log.Printf("tenure: %d texts are missing, nobody took them", count)
			}
		}
	}()
}

// put has a text written. It never waits.
func (t *teller) put(write func()) {
	t.once.Do(t.begin)
	select {
	case t.texts <- write:
	default:
		t.dropped.Add(1)
	}
}

// end waits until all texts are written, or for this time.
func (t *teller) end(within time.Duration) {
	t.once.Do(t.begin)
	written, late := make(chan struct{}), time.After(within)
	select {
	case t.texts <- func() { close(written) }:
	case <-late:
		return
	}
	select {
	case <-written:
	case <-late:
	}
}

// tell writes a text to the log.
func tell(format string, values ...any) {
	// The values may change as soon as this returns.
	text := fmt.Sprintf(format, values...)
	told.put(func() { log.Print(text) })
}

// surviveLostReaders keeps the process alive when the reader of its output has gone. Go ends a process for a write to such a
// standard output or standard error, unless somebody takes the signal.
func surviveLostReaders() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
}
