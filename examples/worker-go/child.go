package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	resultMax = 64 * 1024     // bytes of JSON that are kept of a result
	depthMax  = 64            // of lists and objects, one in the other
	saidMax   = 8 * resultMax // as it is written it may take six times as much
	tooLarge  = "its result has more than 65,536 bytes, and was not kept"
	tooDeep   = "its result nests deeper than 64 levels, and was not kept"
)

// child is a run that was started. Times are boot milliseconds, but for startedAt, which is for people.
type child struct {
	run       Run
	startedAt int64
	timeoutAt int64
	killAt    int64 // 0: it was not asked to end
	asked     bool  // by the cluster, or because the worker stops
	timedOut  bool
	cmd       *exec.Cmd
	leash     *os.File // tells it until when it may live
	file      *os.File // the run, then what its handler returned
	output    *output
}

// start starts a run.
func start(run Run, deadAt int64) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{run: run, output: &output{secrets: run.Secrets}}
	stdin, leash, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	c.leash = leash
	if c.file, err = nameless(); err == nil {
		c.output.file, err = nameless()
	}
	if err == nil {
		text, _ := json.Marshal(run)
		_, err = c.file.WriteAt(text, 0)
	}
	if err == nil {
		c.renew(deadAt)
		c.cmd = exec.Command(self, "run")
		c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = stdin, c.output.file, c.output.file
		c.cmd.ExtraFiles = []*os.File{c.file}
		c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		c.cmd.Env = os.Environ()
		for name, value := range run.Env {
			c.cmd.Env = append(c.cmd.Env, name+"="+value)
		}
		err = c.cmd.Start()
	}
	if err != nil {
		c.close()
		return nil, err
	}
	c.startedAt, c.timeoutAt = time.Now().UnixMilli(), bootMs()+run.TimeoutMs
	return c, nil
}

func nameless() (*os.File, error) {
	file, err := os.CreateTemp("", "worker-")
	if err == nil {
		err = os.Remove(file.Name())
	}
	return file, err
}

func (c *child) close() {
	c.leash.Close()
	c.file.Close() // a nil file only returns an error
	c.output.file.Close()
}

// renew never waits for a run that does not read.
func (c *child) renew(deadAt int64) {
	c.leash.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
	fmt.Fprintf(c.leash, "%d\n", deadAt)
}

func (c *child) signal(s syscall.Signal) error { return syscall.Kill(-c.cmd.Process.Pid, s) }

// stop asks the run to end, and gives it a grace.
func (c *child) stop(graceMs int64) {
	if c.killAt == 0 {
		c.signal(syscall.SIGTERM)
		c.killAt = bootMs() + graceMs
	}
}

// wait returns the report of the run, when nothing is left of its group of processes.
func (c *child) wait() report {
	c.cmd.Wait()
	for i := 0; i < 100 && c.signal(syscall.SIGKILL) == nil; i++ { // what its main process left behind
		time.Sleep(10 * time.Millisecond)
	}
	answer, unkept, wrong := c.said()
	state, now := c.cmd.ProcessState, time.Now().UnixMilli()
	made := report{Token: c.run.Token, StartedAtMs: c.startedAt, EndedAtMs: now}
	switch {
	case wrong == nil && answer.Error == "":
		made.Outcome, made.Result, made.Error = "succeeded", answer.Result, unkept
	case c.timedOut:
		made.Outcome = "timed_out"
	case c.asked:
		made.Outcome = "killed"
	case wrong == nil:
		made.Outcome, made.Error = "failed", clip(string(c.output.hide([]byte(answer.Error))))
	default:
		made.Outcome, made.Error = "failed", "its process ended with "+state.String()
	}
	return made
}

// said returns what the handler returned, as a report may carry it, and why its result is not kept. A result that no
// node would take must not cost the other runs their reports.
func (c *child) said() (answer said, unkept string, err error) {
	c.file.Seek(0, io.SeekStart)
	text, err := io.ReadAll(io.LimitReader(c.file, saidMax))
	if err == nil && len(text) == saidMax {
		return said{}, tooLarge, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	switch {
	case err != nil:
		return said{}, "", err
	case len(answer.Result) > resultMax:
		answer.Result, unkept = nil, tooLarge
	case depth(answer.Result) > depthMax:
		answer.Result, unkept = nil, tooDeep
	}
	return answer, unkept, nil
}

// depth returns how deep lists and objects nest in JSON.
func depth(text []byte) int {
	now, most, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch sign := text[i]; {
		case quoted && sign == '\\':
			i++
		case sign == '"':
			quoted = !quoted
		case !quoted && (sign == '[' || sign == '{'):
			now++
			most = max(most, now)
		case !quoted && (sign == ']' || sign == '}'):
			now--
		}
	}
	return most
}

// clip keeps an error within what a report may carry.
func clip(text string) string {
	const most = 1000
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + " ..."
}
