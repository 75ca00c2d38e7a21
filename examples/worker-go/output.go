package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

const (
	inlineMax = 32 * 1024 // bytes of output that go with the report
	pieceMax  = 256 * 1024
)

// output is what a run prints: a file without a name, so that a run need not wait for the network.
type output struct {
	file    *os.File
	secrets []string
}

// hide covers the secrets in a text, which keeps its length.
func (o *output) hide(text []byte) []byte {
	for _, secret := range o.secrets {
		if secret != "" {
			text = bytes.ReplaceAll(text, []byte(secret), bytes.Repeat([]byte("*"), len(secret)))
		}
	}
	return text
}

func (o *output) size() int64 {
	info, err := o.file.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}

// piece returns what is to be sent from an offset on; while the run goes on, less its end, which may be half a secret.
func (o *output) piece(offset int64, ended bool) []byte {
	longest := int64(0)
	for _, secret := range o.secrets {
		longest = max(longest, int64(len(secret)))
	}
	from := max(0, offset-longest)
	text := make([]byte, offset-from+pieceMax+longest)
	n, err := o.file.ReadAt(text, from)
	whole := ended && err == io.EOF
	text = o.hide(text[:n])[min(int64(n), offset-from):]
	if !whole {
		text = text[:max(0, int64(len(text))-longest)]
	}
	return text[:min(len(text), pieceMax)]
}

// send sends output while the run goes on, and all of it when it has ended. It returns what the report carries: the
// text itself where it is short, else the place that the node has answered. A worker that turns to another node sends
// all of it again.
func (s *session) send(ctx context.Context, token int64, o *output, ended <-chan struct{}) any {
	var offset int64
	over := false
	for {
		select {
		case <-ended:
			over = true
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			return nil
		}
		size := o.size()
		if over && offset == 0 && size <= inlineMax {
			return strings.ToValidUTF8(string(o.piece(0, true)), "\uFFFD")
		}
		for ctx.Err() == nil && (size > inlineMax || offset > 0) {
			piece := o.piece(offset, over)
			end := over && offset+int64(len(piece)) >= size
			if len(piece) == 0 && !end {
				break
			}
			answer, err := s.put(ctx, token, offset, piece, end)
			if err != nil {
				var no refusal
				if errors.As(err, &no) && no.status < 500 && no.status != http.StatusTooManyRequests {
					// This node has another part of it, and says which, or will never take it.
					if no.status != http.StatusConflict || json.Unmarshal([]byte(no.text), &answer) != nil {
						return nil
					}
					offset = answer.Offset
				}
				time.Sleep(200 * time.Millisecond)
				continue
			}
			offset = answer.Offset
			if end && answer.Output != nil {
				return answer.Output
			}
			if end && offset >= size {
				return nil
			}
		}
	}
}

type placed struct {
	Offset int64           `json:"offset"`
	Output json.RawMessage `json:"output"`
}

func (s *session) put(ctx context.Context, token, offset int64, piece []byte, end bool) (placed, error) {
	path := fmt.Sprintf("%s/runs/%d/output?offset=%d&stream=stdout&end=%t", s.path, token, offset, end)
	var answer placed
	_, err := s.call(ctx, http.MethodPut, path, s.secret, "application/octet-stream", piece, &answer, 10*time.Second)
	return answer, err
}
