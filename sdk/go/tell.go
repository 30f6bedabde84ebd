package tenure

import (
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// How many texts for the log may wait. Further texts are dropped.
const tellWaiting = 1000

// How long the end of the process waits for the last texts.
var lastWords = time.Second

// A teller writes texts to the log in a goroutine, so that no job waits for a reader of the log.
type teller struct {
	once  sync.Once
	texts chan func()
}

var told teller

// put has a text written. It never waits.
func (t *teller) put(write func()) {
	t.once.Do(func() {
		t.texts = make(chan func(), tellWaiting)
		go func() {
			for write := range t.texts {
				write()
			}
		}()
	})
	select {
	case t.texts <- write:
	default:
	}
}

// end waits until all texts are written, or for this time.
func (t *teller) end(within time.Duration) {
	written := make(chan struct{})
	t.put(func() { close(written) })
	select {
	case <-written:
	case <-time.After(within):
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
