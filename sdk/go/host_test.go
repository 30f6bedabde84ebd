package tenure

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// played is a Tenure that is played by the test. `tenure host --check` has all rules of the protocol.
type played struct {
	t     *testing.T
	conn  net.Conn
	lines *bufio.Reader
}

func (p *played) say(f fields) {
	p.t.Helper()
	line, err := f.line()
	if err == nil {
		_, err = p.conn.Write(line)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *played) hear(op string) map[string]any {
	p.t.Helper()
	if err := p.conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		p.t.Fatal(err)
	}
	line, err := p.lines.ReadBytes('\n')
	if err != nil {
		p.t.Fatalf("no %s: %v", op, err)
	}
	var heard map[string]any
	if err := json.Unmarshal(line, &heard); err != nil {
		p.t.Fatal(err)
	}
	if heard["op"] != op {
		p.t.Fatalf("%s is no %s", line, op)
	}
	return heard
}

func (p *played) lease(number int, left time.Duration) {
	now, _ := monotonic()
	p.say(fields{
		"op": "lease", "lease": number, "left_ms": left.Milliseconds(), "until_ms": (now + left).Milliseconds(),
	})
}

func (p *played) start(job int, key string, more fields) {
	f := fields{"op": "start", "job": job, "key": key, "token": 7, "lease": 1, "id": "n.1", "attempt": 1, "body": ""}
	for name, value := range more {
		f[name] = value
	}
	p.say(f)
}

func (p *played) stop(job int) {
	p.say(fields{"op": "stop", "job": job, "why": "stopped", "within_ms": 1000})
}

// connected plays with a host that has said hello, and ends with this status.
func connected(t *testing.T, host *Host, status int, play func(p *played, hello map[string]any)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "socket")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ended := make(chan int, 1)
	go func() {
		status, _ := host.Serve(path)
		ended <- status
	}()
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	p := &played{t, conn, bufio.NewReader(conn)}
	hello := p.hear("hello")
	p.say(fields{"op": "hello", "v": 1, "pool": "p", "node": "n", "worker": 0, "ttl_ms": 10000})
	p.lease(1, time.Minute)
	play(p, hello)
	if status == 0 {
		p.say(fields{"op": "bye"})
	}
	select {
	case is := <-ended:
		if is != status {
			t.Fatalf("it ended with %d, not %d", is, status)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it does not end")
	}
}

func wait(ctx context.Context, _ *Job) error {
	<-ctx.Done()
	return nil
}

func TestBytesComeBackAsTheyWere(t *testing.T) {
	for _, data := range [][]byte{{}, []byte("text \n\x00<&>"), {0xff, 0}} {
		line, err := fields{}.put("body", data).line()
		if err != nil {
			t.Fatal(err)
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(taken(m.Body, m.Body64), data) {
			t.Fatalf("%q became %s", data, line)
		}
	}
	if _, err := (fields{"text": strings.Repeat("x", lineMax)}).line(); err == nil {
		t.Fatal("a line is too long")
	}
}

func TestHelloHasWhatTheHostCanDo(t *testing.T) {
	host := &Host{Name: "feeds", MaxJobs: 5, Job: wait}
	connected(t, host, 0, func(_ *played, hello map[string]any) {
		if hello["name"] != "feeds" || hello["max_jobs"] != 5.0 || len(hello["features"].([]any)) != 2 {
			t.Fatal(hello)
		}
	})
}

func TestAJobIsCancelledAndThenStopped(t *testing.T) {
	host := &Host{Job: func(ctx context.Context, job *Job) error {
		if job.Key() != "acme" || job.Token != 7 || string(job.Payload()) != "gold" || string(job.CheckpointIn) != "41" {
			t.Errorf("%+v", job)
		}
		<-ctx.Done()
		if job.StopReason() != "stopped" {
			t.Error(job.StopReason())
		}
		job.Leave([]byte{0xff})
		return nil
	}}
	connected(t, host, 0, func(p *played, _ map[string]any) {
		p.start(1, "acme", fields{"body": "gold", "checkpoint": "41"})
		p.hear("started")
		p.stop(1)
		if stopped := p.hear("stopped"); stopped["checkpoint64"] != "/w==" {
			t.Fatal(stopped)
		}
		// It has ended: a second stop is passed over.
		p.stop(1)
		p.say(fields{"op": "ping", "n": 1})
		p.hear("pong")
	})
}

func TestAStateThatIsTooLongIsRefusedWithItsLength(t *testing.T) {
	host := &Host{Job: func(ctx context.Context, job *Job) error {
		<-ctx.Done()
		if err := job.Leave([]byte("1234")); err != nil {
			t.Error(err)
		}
		for _, err := range []error{job.Leave([]byte("12345")), job.Checkpoint(ctx, []byte("12345"))} {
			var refused *RequestError
			if !errors.As(err, &refused) || refused.Code != "too_long" || !strings.Contains(refused.Text, "keeps 4 at most") {
				t.Error(err)
			}
		}
		return nil
	}}
	connected(t, host, 0, func(p *played, _ map[string]any) {
		p.say(fields{"op": "bounds", "checkpoint_max": 4})
		p.start(1, "acme", nil)
		p.hear("started")
		p.stop(1)
		if stopped := p.hear("stopped"); stopped["checkpoint"] != "1234" {
			t.Fatal(stopped)
		}
	})
}

func TestALastStateThatIsNotKeptIsLogged(t *testing.T) {
	var logged bytes.Buffer
	log.SetOutput(&logged)
	defer log.SetOutput(os.Stderr)
	connected(t, &Host{Job: wait}, 0, func(p *played, _ map[string]any) {
		p.say(fields{"op": "unsaved", "job": 1, "key": "acme", "code": "refused", "text": "redis is full"})
		p.say(fields{"op": "ping", "n": 1})
		p.hear("pong")
	})
	told.end(lastWords)
	if !strings.Contains(logged.String(), `"acme" may not be kept: redis is full`) {
		t.Fatal(logged.String())
	}
}

func TestErrorsBecomeLastWords(t *testing.T) {
	ends := map[string]error{"ends": nil, "fails": errors.New("boom"), "parks": Park("shut")}
	host := &Host{Job: func(_ context.Context, job *Job) error {
		if job.Key() == "panics" {
			panic("oh")
		}
		return ends[job.Key()]
	}}
	connected(t, host, 0, func(p *played, _ map[string]any) {
		for at, expected := range [][3]any{
			{"ends", nil, nil}, {"fails", "boom", nil}, {"parks", "shut", true}, {"panics", "panicked: oh", nil},
		} {
			p.start(at+1, expected[0].(string), nil)
			p.hear("started")
			if ended := p.hear("ended"); ended["error"] != expected[1] || ended["park"] != expected[2] {
				t.Fatal(ended)
			}
		}
	})
}

func TestAJobThatIsNotReadyFailsOrIsRefused(t *testing.T) {
	ends := map[string]error{
		"fails": errors.New("boom"), "refused": &Refuse{RetryAfter: time.Second / 2, Elsewhere: true},
	}
	host := &Host{ExplicitReady: true, Job: func(_ context.Context, job *Job) error { return ends[job.Key()] }}
	connected(t, host, 0, func(p *played, _ map[string]any) {
		p.start(1, "fails", nil)
		if failed := p.hear("failed"); failed["error"] != "boom" {
			t.Fatal(failed)
		}
		p.start(2, "refused", nil)
		if refused := p.hear("refused"); refused["retry_ms"] != 500.0 || refused["elsewhere"] != true {
			t.Fatal(refused)
		}
	})
}

func TestALeaseThatEndsCancelsItsJobs(t *testing.T) {
	host := &Host{Job: func(ctx context.Context, job *Job) error {
		if err := job.Lease.Check(); err != nil {
			t.Error(err)
		}
		<-ctx.Done()
		if job.Key() == "short" && !errors.Is(job.Lease.Check(), ErrLeaseLost) {
			t.Error("its lease is over")
		}
		return nil
	}}
	connected(t, host, 0, func(p *played, _ map[string]any) {
		p.lease(2, 2*time.Second)
		p.start(1, "long", nil)
		p.start(2, "short", fields{"lease": 2})
		p.hear("started")
		p.hear("started")
		if ended := p.hear("ended"); ended["job"] != 2.0 || ended["lost"] != true {
			t.Fatal(ended)
		}
	})
}

func TestANotificationIsDoneWhenItIsAcknowledged(t *testing.T) {
	host := &Host{Job: func(ctx context.Context, job *Job) error {
		for {
			select {
			case note := <-job.Notifications():
				if string(note.Body) == "refuse" {
					note.Refuse(2*time.Second, "busy")
				} else {
					note.Ack()
				}
			case <-ctx.Done():
				return nil
			}
		}
	}}
	connected(t, host, 0, func(p *played, _ map[string]any) {
		p.start(1, "acme", nil)
		p.hear("started")
		p.say(fields{"op": "notify", "job": 1, "n": 1, "body": "a"})
		if ack := p.hear("ack"); ack["n"] != 1.0 || ack["retry_ms"] != nil {
			t.Fatal(ack)
		}
		p.say(fields{"op": "notify", "job": 1, "n": 2, "body": "refuse"})
		if ack := p.hear("ack"); ack["retry_ms"] != 2000.0 {
			t.Fatal(ack)
		}
	})
}

func TestAsksAndUpdatesHaveTheirAnswers(t *testing.T) {
	host := &Host{Job: wait}
	host.Ask = func(_ context.Context, job *Job, body []byte) ([]byte, error) {
		if string(body) == "no" {
			return nil, &Refuse{Text: "never"}
		}
		if string(body) == "moved" {
			return nil, ErrMoved
		}
		return append(job.Payload(), body...), nil
	}
	host.Update = func(_ context.Context, _ *Job, payload []byte) error {
		if string(payload) == "other" {
			return ErrRestart
		}
		return nil
	}
	connected(t, host, 0, func(p *played, _ map[string]any) {
		p.start(1, "acme", fields{"body": "gold"})
		p.hear("started")
		p.say(fields{"op": "update", "job": 1, "n": 1, "body": "silver"})
		if updated := p.hear("updated"); updated["restart"] != nil {
			t.Fatal(updated)
		}
		p.say(fields{"op": "ask", "job": 1, "n": 1, "body": "?"})
		if answer := p.hear("answer"); answer["body"] != "silver?" {
			t.Fatal(answer)
		}
		p.say(fields{"op": "ask", "job": 1, "n": 2, "body": "no"})
		if answer := p.hear("answer"); answer["error"] != "never" {
			t.Fatal(answer)
		}
		p.say(fields{"op": "ask", "job": 1, "n": 3, "body": "moved"})
		if answer := p.hear("answer"); answer["moved"] != true || answer["error"] != nil {
			t.Fatal(answer)
		}
		p.say(fields{"op": "update", "job": 1, "n": 2, "body": "other"})
		if updated := p.hear("updated"); updated["restart"] != true {
			t.Fatal(updated)
		}
	})
}

func TestTheLastWordWaitsForAsksAndUpdates(t *testing.T) {
	var ends int32
	slow := func(ctx context.Context) error {
		<-ctx.Done()
		for turn := 0; turn < 1000; turn++ {
			runtime.Gosched()
		}
		atomic.AddInt32(&ends, 1)
		return ctx.Err()
	}
	host := &Host{Job: wait}
	host.Ask = func(ctx context.Context, _ *Job, _ []byte) ([]byte, error) { return nil, slow(ctx) }
	host.Update = func(ctx context.Context, _ *Job, _ []byte) error { return slow(ctx) }
	connected(t, host, 0, func(p *played, _ map[string]any) {
		p.start(1, "acme", nil)
		p.hear("started")
		p.say(fields{"op": "ask", "job": 1, "n": 1, "body": ""})
		p.say(fields{"op": "update", "job": 1, "n": 1, "body": ""})
		p.stop(1)
		words := map[string]bool{}
		for !words["stopped"] {
			line, err := p.lines.ReadBytes('\n')
			if err != nil {
				t.Fatal(err)
			}
			var heard message
			if err := json.Unmarshal(line, &heard); err != nil {
				t.Fatal(err)
			}
			words[heard.Op] = true
		}
		if served := atomic.LoadInt32(&ends); served != 2 || !words["answer"] || !words["updated"] {
			t.Fatal(served, words)
		}
	})
}

func TestAJobOfALeaseThatIsOverDoesNotRun(t *testing.T) {
	host := &Host{Job: func(_ context.Context, job *Job) error {
		t.Errorf("%s runs", job.Key())
		return nil
	}}
	connected(t, host, 0, func(p *played, _ map[string]any) {
		p.start(1, "acme", fields{"lease": 9})
		if ended := p.hear("ended"); ended["lost"] != true {
			t.Fatal(ended)
		}
	})
}

func TestRequestsWaitForAPlace(t *testing.T) {
	host := &Host{}
	host.Job = func(ctx context.Context, _ *Job) error {
		var all sync.WaitGroup
		for n := 0; n < 300; n++ {
			all.Add(1)
			go func() {
				defer all.Done()
				if _, err := host.Pool().Get(ctx, "b"); err != nil {
					t.Error(err)
				}
			}()
		}
		all.Wait()
		return host.Pool().Dispatch(ctx, "b", nil, DispatchOptions{Within: -time.Second})
	}
	connected(t, host, 0, func(p *played, _ map[string]any) {
		p.start(1, "acme", nil)
		p.hear("started")
		var rids []any
		next := func() {
			heard := p.hear("get")
			rids = append(rids, heard["rid"])
		}
		for n := 0; n < 256; n++ {
			next()
		}
		p.say(fields{"op": "ping", "n": 1})
		p.hear("pong")
		left := 300 - 256
		for len(rids) > 0 {
			p.say(fields{"op": "ok", "rid": rids[0]})
			rids = rids[1:]
			if left > 0 {
				next()
				left--
			}
		}
		request := p.hear("dispatch")
		if request["within_ms"] != 0.0 {
			t.Fatal(request)
		}
		p.say(fields{"op": "ok", "rid": request["rid"]})
		p.hear("ended")
	})
}

func TestRequestsAndCheckpointsHaveTheirAnswers(t *testing.T) {
	host := &Host{}
	host.Job = func(ctx context.Context, job *Job) error {
		info, err := host.Pool().Get(ctx, "b")
		if err != nil || info.Key != "b" {
			t.Error(info, err)
		}
		if err := job.Checkpoint(ctx, []byte("42")); !errors.Is(err, ErrFenced) {
			t.Error(err)
		}
		err = host.Pool().Dispatch(ctx, "b", nil, DispatchOptions{Within: 1500 * time.Millisecond})
		var failed *RequestError
		if !errors.As(err, &failed) || failed.Code != "exists" {
			t.Error(err)
		}
		for _, expected := range []bool{false, true} {
			started, err := host.Pool().Ensure(ctx, "b", nil, DispatchOptions{})
			if started != expected || err != nil {
				t.Error(started, err)
			}
		}
		return nil
	}
	connected(t, host, 0, func(p *played, _ map[string]any) {
		p.start(1, "acme", nil)
		p.hear("started")
		p.say(fields{"op": "ok", "rid": p.hear("get")["rid"], "job": fields{"key": "b"}})
		p.say(fields{"op": "error", "rid": p.hear("checkpoint")["rid"], "code": "fenced", "text": "gone"})
		request := p.hear("dispatch")
		if request["within_ms"] != 1500.0 {
			t.Fatal(request)
		}
		p.say(fields{"op": "error", "rid": request["rid"], "code": "exists", "text": "it is there"})
		p.say(fields{"op": "ok", "rid": p.hear("ensure")["rid"], "started": false})
		p.say(fields{"op": "ok", "rid": p.hear("ensure")["rid"], "started": true})
		p.hear("ended")
	})
}

func TestARefusedHostEndsWith78AndALoneOneWith1(t *testing.T) {
	connected(t, &Host{Job: wait}, 78, func(p *played, _ map[string]any) {
		p.say(fields{"op": "refused", "why": "a test", "ours": []int{2}, "theirs": []int{1}})
	})
	var ended sync.WaitGroup
	ended.Add(1)
	host := &Host{Job: func(ctx context.Context, job *Job) error {
		defer ended.Done()
		return wait(ctx, job)
	}}
	connected(t, host, 1, func(p *played, _ map[string]any) {
		p.start(1, "acme", nil)
		p.hear("started")
		p.conn.Close()
	})
	ended.Wait()
}
