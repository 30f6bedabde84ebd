// The host that `tenure host --check` plays with: docs/host-protocol.md lists what its jobs have to do.
//
//	cd sdk/go && go build -o /tmp/check ./examples/check && tenure host --check -- /tmp/check
package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	tenure "github.com/tenure/tenure/sdk/go"
)

type does struct {
	Do   string `json:"do"`
	Text string `json:"text"`
	MS   int64  `json:"ms"`
	Op   string `json:"op"`
	Key  string `json:"key"`
	Body string `json:"body"`
}

func (d does) pause() time.Duration { return time.Duration(d.MS) * time.Millisecond }

var host tenure.Host

func what(job *tenure.Job) does {
	var d does
	if err := json.Unmarshal(job.Payload(), &d); err != nil || d.Do == "" {
		return does{Do: "payload"}
	}
	return d
}

func run(ctx context.Context, job *tenure.Job) error {
	d := what(job)
	switch d.Do {
	case "refuse":
		return &tenure.Refuse{RetryAfter: d.pause()}
	case "elsewhere":
		return &tenure.Refuse{Elsewhere: true}
	case "start_fail":
		return errors.New(d.Text)
	case "start_park":
		return tenure.Park(d.Text)
	case "slow_start":
		select {
		case <-time.After(d.pause()):
		case <-ctx.Done():
			return nil
		}
	}
	job.Ready()
	switch d.Do {
	case "payload":
		job.Status("payload " + base64.StdEncoding.EncodeToString(job.Payload()))
	case "key":
		job.Status("key " + base64.StdEncoding.EncodeToString([]byte(job.Key())))
	case "facts":
		job.Status(fmt.Sprintf("token %d attempt %d id %s", job.Token, job.Attempt, job.ID))
	case "state":
		if job.CheckpointIn == nil {
			job.Status("none")
		} else {
			job.Status("state " + string(job.CheckpointIn))
		}
	case "end":
		time.Sleep(d.pause())
		return nil
	case "fail":
		return errors.New(d.Text)
	case "park":
		return tenure.Park(d.Text)
	case "progress":
		job.Progress()
	case "leave":
		if err := job.Leave([]byte(d.Text)); err != nil {
			tell(job, "", err)
		}
	case "bye":
		if err := host.Bye(); err != nil {
			return err
		}
	case "save":
		tell(job, "saved", job.Checkpoint(ctx, []byte(d.Text)))
	case "call":
		call(ctx, job, d)
	}
	for {
		select {
		case note := <-job.Notifications():
			take(job, note)
		case <-ctx.Done():
			if d.Do == "slow_stop" {
				time.Sleep(d.pause())
			}
			return nil
		}
	}
}

func tell(job *tenure.Job, done string, err error) {
	var failed *tenure.RequestError
	switch {
	case err == nil:
		job.Status(done)
	case errors.As(err, &failed):
		job.Status("error " + failed.Code)
	}
}

func call(ctx context.Context, job *tenure.Job, d does) {
	var answer any
	var err error
	switch d.Op {
	case "get":
		var info *tenure.JobInfo
		info, err = host.Pool().Get(ctx, d.Key)
		answer = info
	case "ask":
		var body []byte
		body, err = host.Pool().Ask(ctx, d.Key, []byte(d.Body), false)
		answer = string(body)
	default:
		err = host.Pool().Dispatch(ctx, d.Key, []byte(d.Body), tenure.DispatchOptions{Policy: "on-failure"})
	}
	text, _ := json.Marshal(answer)
	tell(job, "ok "+string(text), err)
}

func take(job *tenure.Job, note *tenure.Notification) {
	text := string(note.Body)
	switch text {
	case "refuse":
		if note.Refusals == 0 {
			note.Refuse(20*time.Millisecond, "not yet")
			return
		}
	case "slow":
		time.Sleep(3 * time.Second)
	case "lease":
		if job.Lease.Left() == 0 {
			job.Status("lease over")
		} else {
			job.Status("lease holds")
		}
	}
	job.Status("note " + text)
	note.Ack()
}

func main() {
	host = tenure.Host{Name: "check", Version: "1", ExplicitReady: true, Job: run}
	host.Ask = func(ctx context.Context, job *tenure.Job, body []byte) ([]byte, error) {
		switch string(body) {
		case "no":
			return nil, &tenure.Refuse{Text: "no"}
		case "moved":
			return nil, tenure.ErrMoved
		case "slow":
			select {
			case <-time.After(3 * time.Second):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return []byte(job.Key() + ":" + string(body)), nil
	}
	host.Update = func(_ context.Context, job *tenure.Job, payload []byte) error {
		if strings.HasPrefix(string(payload), "restart") {
			return tenure.ErrRestart
		}
		job.Status("update " + string(payload))
		return nil
	}
	host.Run()
}
