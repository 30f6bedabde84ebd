package tenure

import (
	"bufio"
	"context"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// attached plays with a host that attaches, and ends with this status. `listen` makes the socket.
func attached(t *testing.T, host *Host, status int, play func(listen func(), next func() *played)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "socket")
	ended := make(chan int, 1)
	go func() {
		status, _ := host.Attach(path)
		ended <- status
	}()
	var listener *net.UnixListener
	listen := func() {
		made, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		listener = made.(*net.UnixListener)
	}
	next := func() *played {
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
	play(listen, next)
	defer listener.Close()
	select {
	case is := <-ended:
		if is != status {
			t.Fatalf("it ended with %d, not %d", is, status)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it does not end")
	}
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
