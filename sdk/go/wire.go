package tenure

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"
)

const (
	version = 1
	lineMax = 1 << 20
)

// message is a message of Tenure. Each has the fields of its own kind.
type message struct {
	Op   string  `json:"op"`
	Job  uint64  `json:"job"`
	N    uint64  `json:"n"`
	Body *string `json:"body"`
	// The encoding of []byte in JSON is base 64.
	Body64 []byte `json:"body64"`

	Key          *string `json:"key"`
	Key64        []byte  `json:"key64"`
	Token        uint64  `json:"token"`
	Lease        uint64  `json:"lease"`
	ID           string  `json:"id"`
	Attempt      uint32  `json:"attempt"`
	Type         string  `json:"type"`
	Checkpoint   *string `json:"checkpoint"`
	Checkpoint64 []byte  `json:"checkpoint64"`
	Trace        *Trace  `json:"trace"`

	Why      string `json:"why"`
	Refusals uint32 `json:"refusals"`
	LeftMS   int64  `json:"left_ms"`
	UntilMS  int64  `json:"until_ms"`
	TTLMS    int64  `json:"ttl_ms"`
	Text     string `json:"text"`

	CheckpointMax int64 `json:"checkpoint_max"`

	// Ours has the versions of a node that speaks none of this host's.
	Ours []uint32 `json:"ours"`
}

// fields is a message of this host.
type fields map[string]any

// put puts bytes into a message: as text if they are UTF-8, else in base 64.
func (f fields) put(name string, data []byte) fields {
	if utf8.Valid(data) {
		f[name] = string(data)
	} else {
		f[name+"64"] = data
	}
	return f
}

// line is the line of a message.
func (f fields) line() ([]byte, error) {
	var line bytes.Buffer
	to := json.NewEncoder(&line)
	to.SetEscapeHTML(false)
	if err := to.Encode(f); err != nil {
		return nil, err
	}
	if line.Len() > lineMax {
		return nil, fmt.Errorf("a message of %d bytes does not fit into a line of %d", line.Len(), lineMax)
	}
	return line.Bytes(), nil
}

// millis is whole milliseconds: none for a time that is negative.
func millis(time time.Duration) int64 {
	if time < 0 {
		return 0
	}
	return time.Milliseconds()
}

// taken is the bytes of a field, or nil if there are none.
func taken(text *string, coded []byte) []byte {
	if text != nil {
		return []byte(*text)
	}
	return coded
}
