package tenure

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestMain runs a host in place of the tests if it is told to: some tests end the process of one.
func TestMain(m *testing.M) {
	if log, is := os.LookupEnv("TENURE_TEST_HOST"); is {
		if log == "stuck" {
			lastWords = time.Hour
			told.put(func() { select {} })
		}
		host := &Host{Job: func(context.Context, *Job) error { select {} }}
		host.Run()
	}
	os.Exit(m.Run())
}

// attached plays with a host that attaches, and ends with this status. `listen` makes the socket.
func attached(t *testing.T, host *Host, status int, play func(listen func(), next func() *played)) {
	t.Helper()
	attachedAs(t, host, &attachment{patience: welcomeMax, lookAfter: lookAfter}, status, play)
}

func attachedAs(
	t *testing.T, host *Host, as *attachment, status int, play func(listen func(), next func() *played),
) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "socket")
	ended := make(chan int, 1)
	go func() {
		status, _ := host.attachAs(path, as)
		ended <- status
	}()
	var listener *net.UnixListener
	listen := func() { listener = listenAt(t, path) }
	play(listen, func() *played { return greeted(t, listener) })
	select {
	case is := <-ended:
		if is != status {
			t.Fatalf("it ended with %d, not %d", is, status)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it does not end")
	}
}

// listenAt makes the socket of a node.
func listenAt(t *testing.T, path string) *net.UnixListener {
	t.Helper()
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener.(*net.UnixListener)
}

// greeted is the next connection, which has said hello.
func greeted(t *testing.T, listener *net.UnixListener) *played {
	t.Helper()
	if err := listener.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	p := &played{t, conn, bufio.NewReader(conn)}
	p.hear("hello")
	return p
}

func (p *played) welcome(ttl time.Duration) {
	p.say(fields{"op": "hello", "v": 1, "pool": "p", "node": "n", "worker": 0, "ttl_ms": ttl.Milliseconds()})
}

func TestAHostThatAttachesWaitsForTheSocketAndAttachesAgain(t *testing.T) {
	var running int32
	host := &Host{Job: func(ctx context.Context, _ *Job) error {
		atomic.AddInt32(&running, 1)
		<-ctx.Done()
		time.Sleep(300 * time.Millisecond)
		atomic.AddInt32(&running, -1)
		return nil
	}}
	attached(t, host, 0, func(listen func(), next func() *played) {
		listen()
		var p *played
		for number := 0; number < 3; number++ {
			p = next()
			if left := atomic.LoadInt32(&running); left != 0 {
				t.Fatalf("%d jobs of the last connection run on", left)
			}
			p.welcome(10 * time.Second)
			p.lease(1, time.Minute)
			p.start(1, "acme", nil)
			p.hear("started")
			switch number {
			case 0:
				p.conn.Close()
			case 1:
				p.say(fields{"op": "bye"})
			}
		}
		if err := host.Bye(); err != nil {
			t.Fatal(err)
		}
		p.hear("bye")
		p.stop(1)
		p.hear("stopped")
		p.say(fields{"op": "bye"})
	})
}

func TestAHostThatAttachesComesAgainWhenNoWorkerIsFree(t *testing.T) {
	host := &Host{Job: func(context.Context, *Job) error { return nil }}
	attached(t, host, 78, func(listen func(), next func() *played) {
		listen()
		for number := 0; number < 2; number++ {
			next().say(fields{"op": "refused", "why": "each worker has a host"})
		}
		p := next()
		p.welcome(10 * time.Second)
		p.lease(1, time.Minute)
		p.start(1, "acme", nil)
		p.hear("started")
		p.hear("ended")
		p.conn.Close()
		next().say(fields{"op": "refused", "why": "another version", "ours": []int{2}, "theirs": []int{1}})
	})
}

func TestAHostThatAttachesEndsIfAJobOutlivesItsLease(t *testing.T) {
	free := make(chan struct{})
	defer close(free)
	host := &Host{Job: func(context.Context, *Job) error {
		<-free
		return nil
	}}
	attached(t, host, 1, func(listen func(), next func() *played) {
		listen()
		p := next()
		p.welcome(100 * time.Millisecond)
		p.lease(1, 300*time.Millisecond)
		p.start(1, "acme", nil)
		p.hear("started")
		p.conn.Close()
	})
}

func TestAHostThatHasNothingToAttachToEndsAtBye(t *testing.T) {
	host := &Host{Job: wait}
	ended := make(chan int, 1)
	go func() {
		status, _ := host.Attach(filepath.Join(t.TempDir(), "none"))
		ended <- status
	}()
	if err := host.Bye(); err != nil {
		t.Fatal(err)
	}
	select {
	case status := <-ended:
		if status != 0 {
			t.Fatalf("it ended with %d", status)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it does not end")
	}
}

func TestAJobEndsWithItsLeaseThoughTheNodeReadsNothing(t *testing.T) {
	ends := make(chan string, 2)
	text := strings.Repeat("x", 64<<10)
	host := &Host{Job: func(ctx context.Context, job *Job) error {
		for ctx.Err() == nil {
			job.Progress()
			job.Status(text)
		}
		ends <- job.StopReason()
		return nil
	}}
	attached(t, host, 0, func(listen func(), next func() *played) {
		listen()
		p := next()
		p.welcome(time.Minute)
		p.lease(1, 500*time.Millisecond)
		p.start(1, "acme", nil)
		p.start(2, "globex", nil)
		for number := 0; number < 2; number++ {
			select {
			case why := <-ends:
				if why != "lease_lost" {
					t.Fatalf("it ended: %s", why)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("it runs on without a lease")
			}
		}
		if err := host.Bye(); err != nil {
			t.Fatal(err)
		}
		p.conn.Close()
	})
}

func TestANodeThatReadsNothingIsLeft(t *testing.T) {
	host := &Host{Job: wait}
	attached(t, host, 0, func(listen func(), next func() *played) {
		listen()
		p := next()
		p.welcome(time.Minute)
		p.lease(1, time.Minute)
		p.start(1, "acme", nil)
		p.hear("started")
		job := host.job(1)
		text := strings.Repeat("x", 512<<10)
		for job.link.send(fields{"op": "status", "job": 1, "text": text}) == nil {
		}
		next().conn.Close()
		_ = host.Bye()
	})
}

func TestAHostEndsIfAJobOutlivesItsLeaseOnAnOpenConnection(t *testing.T) {
	free := make(chan struct{})
	defer close(free)
	host := &Host{Job: func(context.Context, *Job) error {
		<-free
		return nil
	}}
	attached(t, host, 1, func(listen func(), next func() *played) {
		listen()
		p := next()
		p.welcome(100 * time.Millisecond)
		p.lease(1, 300*time.Millisecond)
		p.start(1, "acme", nil)
		p.hear("started")
	})
}

func TestAHostEndsByTheEarliestLeaseOfItsJobs(t *testing.T) {
	free := make(chan struct{})
	defer close(free)
	host := &Host{Job: func(context.Context, *Job) error {
		<-free
		return nil
	}}
	attached(t, host, 1, func(listen func(), next func() *played) {
		listen()
		p := next()
		p.welcome(100 * time.Millisecond)
		p.lease(1, 300*time.Millisecond)
		p.lease(2, time.Minute)
		p.start(1, "acme", nil)
		p.hear("started")
		p.start(2, "globex", fields{"lease": 2})
		p.hear("started")
		p.conn.Close()
	})
}

func TestAJobOfTheLastConnectionHasNoCheckpointOnThisOne(t *testing.T) {
	jobs := make(chan *Job, 2)
	host := &Host{Job: func(ctx context.Context, job *Job) error {
		jobs <- job
		<-ctx.Done()
		return nil
	}}
	attached(t, host, 0, func(listen func(), next func() *played) {
		listen()
		var p *played
		for number := 0; number < 2; number++ {
			p = next()
			p.welcome(10 * time.Second)
			p.lease(1, time.Minute)
			p.start(1, "acme", nil)
			p.hear("started")
			if number == 0 {
				p.conn.Close()
			}
		}
		job := <-jobs
		if err := job.Checkpoint(context.Background(), []byte("stale")); !errors.Is(err, ErrFenced) {
			t.Fatalf("its checkpoint: %v", err)
		}
		job.Progress()
		job.Status("stale")
		p.say(fields{"op": "ping", "n": 1})
		p.hear("pong")
		_ = host.Bye()
		p.hear("bye")
		p.say(fields{"op": "bye"})
	})
}

func TestPausesGrowUntilAConnectionLasts(t *testing.T) {
	pauses := pauses{}
	for number, expected := range []time.Duration{100, 200, 400, 800, 1600, 2000, 2000} {
		if is := pauses.after(time.Second); is != expected*time.Millisecond {
			t.Fatalf("pause %d is %v", number, is)
		}
	}
	if is := pauses.after(lasting + 1); is != pauseFirst {
		t.Fatalf("the pause after a connection that lasted is %v", is)
	}
}

func TestANodeThatDoesNotWelcomeTheHostIsLeft(t *testing.T) {
	host := &Host{Job: wait}
	as := &attachment{patience: 50 * time.Millisecond, lookAfter: lookAfter}
	attachedAs(t, host, as, 0, func(listen func(), next func() *played) {
		listen()
		next()
		next()
		_ = host.Bye()
	})
}

func TestAHostWithoutJobsEndsThoughNobodyAnswersItsBye(t *testing.T) {
	host := &Host{Job: wait}
	as := &attachment{patience: welcomeMax, lookAfter: 50 * time.Millisecond}
	attachedAs(t, host, as, 0, func(listen func(), next func() *played) {
		listen()
		p := next()
		p.welcome(10 * time.Second)
		_ = host.Bye()
		p.hear("bye")
	})
}

// child starts a host in a process of its own, which has one job that does not end. `log` says what becomes of the log.
func child(t *testing.T, log string, ttl, lease time.Duration) (*exec.Cmd, *played) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "socket")
	listener := listenAt(t, path)
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), "TENURE_TEST_HOST="+log, "TENURE_ATTACH="+path)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill() })
	p := greeted(t, listener)
	p.welcome(ttl)
	p.lease(1, lease)
	p.start(1, "acme", nil)
	p.hear("started")
	return command, p
}

func TestTheProcessEndsWithAJobThatOutlivesItsLease(t *testing.T) {
	for _, log := range []string{"read", "stuck"} {
		command, _ := child(t, log, 100*time.Millisecond, 300*time.Millisecond)
		stuck := time.AfterFunc(20*time.Second, func() { _ = command.Process.Kill() })
		var failed *exec.ExitError
		if err := command.Wait(); !errors.As(err, &failed) || failed.ExitCode() != 1 {
			t.Fatalf("with a log that is %s it ended: %v", log, err)
		}
		stuck.Stop()
	}
}

func TestASecondSignalEndsTheProcess(t *testing.T) {
	command, p := child(t, "read", time.Minute, time.Minute)
	_ = command.Process.Signal(syscall.SIGINT)
	p.hear("bye")
	_ = command.Process.Signal(syscall.SIGTERM)
	var failed *exec.ExitError
	err := command.Wait()
	if !errors.As(err, &failed) || failed.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Fatalf("it ended: %v", err)
	}
}

func TestAJobThatIsOverHasNoCheckpointOnItsConnection(t *testing.T) {
	jobs := make(chan *Job, 1)
	host := &Host{Job: func(_ context.Context, job *Job) error {
		jobs <- job
		return nil
	}}
	connected(t, host, 0, func(p *played, _ map[string]any) {
		p.start(1, "acme", nil)
		p.hear("started")
		p.hear("ended")
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := (<-jobs).Checkpoint(ctx, []byte("late")); !errors.Is(err, ErrFenced) {
			t.Fatalf("its checkpoint: %v", err)
		}
		p.say(fields{"op": "ping", "n": 1})
		p.hear("pong")
	})
}
