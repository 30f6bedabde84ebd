package tenure

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// stopped is a reader that takes nothing until it is told to go on.
type stopped chan struct{}

func (s stopped) Write(bytes []byte) (int, error) {
	<-s
	return len(bytes), nil
}

func TestErrorsAreSaidThoughNobodyReadsTheLog(t *testing.T) {
	before, reader := log.Writer(), make(stopped)
	log.SetOutput(reader)
	defer log.SetOutput(before)
	defer close(reader)
	host := &Host{Job: func(context.Context, *Job) error { panic("oh") }}
	connected(t, host, 0, func(p *played, _ map[string]any) {
		p.start(1, "acme", nil)
		p.hear("started")
		if said := p.hear("ended")["error"]; said != "panicked: oh" {
			t.Fatal(said)
		}
	})
}

func TestATextIsWhatItWasWhenItWasTold(t *testing.T) {
	var text strings.Builder
	before := log.Writer()
	log.SetOutput(&text)
	defer log.SetOutput(before)
	free := make(chan struct{})
	told.put(func() { <-free })
	values := map[string]int{"n": 1}
	tell("it has %v", values)
	values["n"] = 2
	close(free)
	told.end(lastWords)
	if !strings.Contains(text.String(), "it has map[n:1]") {
		t.Fatal(text.String())
	}
}

func TestTextsWithoutRoomAreCountedAndTold(t *testing.T) {
	var text strings.Builder
	before := log.Writer()
	log.SetOutput(&text)
	defer log.SetOutput(before)
	busy, free := make(chan struct{}), make(chan struct{})
	told.put(func() { close(busy); <-free })
	<-busy
	for i := 0; i < tellWaiting+7; i++ {
		tell("a text")
	}
	close(free)
	told.end(time.Minute)
	if count := strings.Count(text.String(), "a text"); count != tellWaiting {
		t.Fatal(count)
	}
	if !strings.Contains(text.String(), "tenure: 7 texts are missing") {
		t.Fatal(text.String()[:200])
	}
}

func TestTheProcessOutlivesTheReaderOfItsLog(t *testing.T) {
	const child, status = "TENURE_TEST_CHILD", 7
	if os.Getenv(child) != "" {
		surviveLostReaders()
		fmt.Fprintln(os.Stderr, "nobody reads this")
		os.Exit(status)
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	reader.Close()
	defer writer.Close()
	process := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	process.Env, process.Stderr = append(os.Environ(), child+"=1"), writer
	var exit *exec.ExitError
	if err := process.Run(); !errors.As(err, &exit) || exit.ExitCode() != status {
		t.Fatal(err)
	}
}
