package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	reportsMax   = 100         // in one poll
	reportsBytes = 1024 * 1024 // of them, and one more: a node reads 4 MiB
	refused      = "Its report was refused: "
)

type report struct {
	Token       int64           `json:"token"`
	Outcome     string          `json:"outcome,omitempty"` // none: it has started
	StartedAtMs int64           `json:"started_at_ms,omitempty"`
	EndedAtMs   int64           `json:"ended_at_ms,omitempty"`
	Error       string          `json:"error,omitempty"`
	Result      json.RawMessage `json:"result,omitempty"`
	Output      any             `json:"output,omitempty"`
}

type opening struct {
	Name        string   `json:"name"`
	Slots       int      `json:"slots"`
	Handlers    []string `json:"handlers"`
	Queues      []string `json:"queues,omitempty"`
	Incarnation string   `json:"incarnation"`
	Opening     int64    `json:"opening"` // rises with each request, so that a late one ends no later session
	Version     string   `json:"version"`
}

type opened struct {
	Session      string `json:"session"`
	LeaseMs      int64  `json:"lease_ms"`
	KillBeforeMs int64  `json:"kill_before_ms"`
	PollMs       int64  `json:"poll_ms"`
}

type question struct {
	After   int64    `json:"after"`
	WaitMs  int64    `json:"wait_ms"`
	MaxRuns int      `json:"max_runs"`
	Reports []report `json:"reports"`
	Killing []int64  `json:"killing"`
}

type answer struct {
	LeaseMs int64   `json:"lease_ms"`
	Runs    []Run   `json:"runs"`
	Kill    []int64 `json:"kill"`
	Refused []struct {
		Token  int64  `json:"token"`
		Code   string `json:"code"`
		Detail string `json:"detail"`
	} `json:"refused"`
}

// nodes are asked one after the other: who does not answer is left for the next.
type nodes struct {
	urls  []string
	token string
	now   atomic.Int64
}

type refusal struct {
	status int
	text   string
}

func (r refusal) Error() string { return fmt.Sprintf("%d %s", r.status, r.text) }

// unreadable tells whether a request was refused for what it carried.
func (r refusal) unreadable() bool {
	return r.status == http.StatusBadRequest || r.status == http.StatusRequestEntityTooLarge || r.status == http.StatusUnprocessableEntity
}

func (r refusal) detail() string {
	var problem struct{ Detail string }
	if json.Unmarshal([]byte(r.text), &problem) != nil || problem.Detail == "" {
		return r.Error() // what is no node, a proxy
	}
	return problem.Detail
}

// call sends one request to one node, and turns to the next when it says 5xx or nothing. secret: of the session whose
// request it is.
func (n *nodes) call(ctx context.Context, method, path, secret, kind string, body []byte, into any, limit time.Duration) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	at := n.now.Load()
	request, err := http.NewRequestWithContext(ctx, method, n.urls[at%int64(len(n.urls))]+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", kind)
	if n.token != "" {
		request.Header.Set("Authorization", "Bearer "+n.token)
	}
	if secret != "" {
		request.Header.Set("Raftsched-Session-Secret", secret)
	}
	reply, err := http.DefaultClient.Do(request)
	if err == nil {
		defer reply.Body.Close()
		var text []byte
		if text, err = io.ReadAll(reply.Body); err == nil {
			if reply.StatusCode < 300 && len(text) == 0 {
				return reply.StatusCode, nil
			}
			if reply.StatusCode < 300 {
				return reply.StatusCode, json.Unmarshal(text, into)
			}
			err = refusal{reply.StatusCode, strings.TrimSpace(string(text))}
			if reply.StatusCode < 500 {
				return reply.StatusCode, err
			}
		}
	}
	if !errors.Is(ctx.Err(), context.Canceled) {
		n.now.CompareAndSwap(at, at+1)
	}
	return 0, err
}

func (n *nodes) post(ctx context.Context, path, secret string, body, into any, limit time.Duration) (int, error) {
	text, err := encode(body)
	if err != nil {
		return 0, err
	}
	return n.call(ctx, http.MethodPost, path, secret, "application/json", text, into, limit)
}

// session is what a worker holds until its lease is over. Only `serve` touches it; what goes on beside tells it by
// `ended`.
type session struct {
	*nodes
	path       string // its address
	secret     string
	killBefore int64
	pollMs     int64
	slots      int
	deadAt     int64 // boot time: nothing may run any more
	after      int64
	running    map[int64]*child
	reports    map[int64]report // the newest of each run, until a poll with it was answered
	most       int              // of them that a poll carries now
	ended      chan report
}

func work(handlers map[string]Handler) error {
	host, _ := os.Hostname()
	servers := flag.String("servers", os.Getenv("RAFTSCHED_SERVERS"), "URLs of nodes, with commas between them")
	queues := flag.String("queues", "", "whose runs it takes, with commas between them (all that its token allows)")
	grace := flag.Duration("grace", 10*time.Second, "for runs to end, when the worker is told to")
	self := opening{Version: "worker-go/2"}
	flag.StringVar(&self.Name, "name", host, "of this worker, unlike that of all others")
	flag.IntVar(&self.Slots, "slots", 8, "runs at a time")
	flag.Parse()
	if *servers == "" {
		return errors.New("name the nodes with --servers, such as http://127.0.0.1:7401")
	}
	for name := range handlers {
		self.Handlers = append(self.Handlers, "call:"+name)
	}
	slices.Sort(self.Handlers)
	if *queues != "" {
		self.Queues = strings.Split(*queues, ",")
	}
	random := make([]byte, 16)
	if _, err := rand.Read(random); err != nil {
		return err
	}
	self.Incarnation = hex.EncodeToString(random)
	all := &nodes{urls: strings.Split(*servers, ","), token: os.Getenv("RAFTSCHED_TOKEN")}
	stop := make(chan os.Signal, 2)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	for {
		s, err := all.open(self)
		switch no := (refusal{}); {
		case err == nil:
			log.Printf("%s: a session is open", self.Name)
			if s.serve(stop, grace.Milliseconds()) {
				return nil
			}
			log.Printf("%s: the session is over", self.Name)
			time.Sleep(10 * time.Millisecond)
		case errors.As(err, &no) && no.status < 500 && no.status != http.StatusConflict && no.status != http.StatusTooManyRequests:
			return fmt.Errorf("no session: %w", err)
		default:
			log.Printf("no session yet: %v", err)
			select {
			case <-stop:
				return nil
			case <-time.After(500 * time.Millisecond):
			}
		}
	}
}

// open asks for a session. Nothing runs of an earlier one of this process.
func (n *nodes) open(self opening) (*session, error) {
	var o opened
	sentAt := bootMs()
	self.Opening = sentAt // the last one was sent some milliseconds ago, at the least
	if _, err := n.post(context.Background(), "/v1/worker-sessions", "", self, &o, 5*time.Second); err != nil {
		return nil, err
	}
	number, _, _ := strings.Cut(o.Session, "-")
	return &session{
		nodes: n, path: "/v1/worker-sessions/" + number, secret: o.Session, killBefore: o.KillBeforeMs, pollMs: o.PollMs, slots: self.Slots,
		deadAt: sentAt + o.LeaseMs - o.KillBeforeMs, running: map[int64]*child{}, reports: map[int64]report{},
		most: reportsMax, ended: make(chan report),
	}, nil
}

type polled struct {
	sentAt int64
	asked  question
	answer answer
	err    error
}

// serve works until the session is over. It returns whether the worker was told to stop. It never
// waits for a node or a run: it looks at its lease many times a second.
func (s *session) serve(stop <-chan os.Signal, graceMs int64) bool {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	polls := make(chan polled, 1)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var waiting context.CancelFunc // ends the poll that is on its way, and carries no reports
	var onItsWay, stopping bool
	var stopAt, notBefore int64
	for {
		if bootMs() >= s.deadAt {
			cancel()
			s.killAll()
			return stopping
		}
		if stopping && len(s.running) == 0 && len(s.reports) == 0 {
			s.close()
			return true
		}
		if len(s.reports) > 0 && waiting != nil { // they need not wait until it is answered
			waiting()
			waiting = nil
		}
		if !onItsWay && bootMs() >= notBefore {
			pollCtx, cancelPoll := context.WithCancel(ctx)
			asked := s.question(stopping)
			onItsWay = true
			if len(asked.Reports) == 0 {
				waiting = cancelPoll
			}
			go func() {
				defer cancelPoll()
				p := polled{sentAt: bootMs(), asked: asked}
				limit := time.Duration(asked.WaitMs+1500) * time.Millisecond
				_, p.err = s.post(pollCtx, s.path+"/poll", s.secret, asked, &p.answer, limit)
				polls <- p
			}()
		}
		select {
		case p := <-polls:
			onItsWay, waiting = false, nil
			var no refusal
			switch {
			case errors.As(p.err, &no) && no.unreadable() && len(p.asked.Reports) > 0:
				log.Printf("reports were refused: %v", p.err)
				if len(p.asked.Reports) > 1 { // one of them is wrong
					s.most = len(p.asked.Reports) / 2
				} else {
					s.refused(p.asked.Reports[0], no.detail())
				}
			case errors.As(p.err, &no) && no.status < 500 && no.status != http.StatusTooManyRequests:
				log.Printf("the cluster: %v", p.err) // 410, mostly
				s.deadAt = 0
			case errors.Is(p.err, context.Canceled):
			case p.err != nil:
				log.Printf("a poll failed: %v", p.err)
				notBefore = bootMs() + 100
			default:
				s.take(ctx, p)
			}
		case made := <-s.ended:
			delete(s.running, made.Token)
			s.reports[made.Token] = made
		case <-stop:
			if stopping { // told twice
				stopAt = bootMs()
			} else {
				stopping, stopAt = true, bootMs()+graceMs
			}
			if waiting != nil {
				waiting()
				waiting = nil
			}
		case <-tick.C:
			now := bootMs()
			for _, c := range s.running {
				if now >= c.timeoutAt && c.killAt == 0 {
					c.timedOut = true
					c.stop(c.run.GraceMs)
				}
				if stopping && now >= stopAt && c.killAt == 0 {
					c.asked = true
					c.stop(c.run.GraceMs)
				}
				if c.killAt != 0 && now >= c.killAt {
					c.signal(syscall.SIGKILL)
				}
			}
		}
	}
}

func (s *session) question(stopping bool) question {
	q := question{After: s.after, WaitMs: s.pollMs, MaxRuns: s.slots, Reports: []report{}, Killing: []int64{}}
	var tokens []int64
	for token := range s.reports {
		tokens = append(tokens, token)
	}
	slices.Sort(tokens)
	size := 0
	for _, token := range tokens {
		if len(q.Reports) < s.most && size < reportsBytes {
			text, _ := encode(s.reports[token])
			q.Reports, size = append(q.Reports, s.reports[token]), size+len(text)
		}
	}
	if stopping {
		q.MaxRuns = 0
	}
	for token, c := range s.running {
		if c.asked {
			q.Killing = append(q.Killing, token)
		}
	}
	return q
}

// take does what the answer of a poll says.
func (s *session) take(ctx context.Context, p polled) {
	if len(p.asked.Reports) > 0 {
		s.most = min(reportsMax, 2*s.most)
	}
	invalid := map[int64]string{}
	for _, no := range p.answer.Refused {
		if no.Code == "invalid" {
			invalid[no.Token] = no.Detail
		}
	}
	for _, sent := range p.asked.Reports {
		if why, wrong := invalid[sent.Token]; wrong {
			s.refused(sent, why)
		} else if s.reports[sent.Token].Outcome == sent.Outcome { // it has not ended since it was said to have started
			delete(s.reports, sent.Token)
		}
	}
	if p.answer.LeaseMs > 0 {
		if until := p.sentAt + p.answer.LeaseMs - s.killBefore; until > s.deadAt && bootMs() < s.deadAt {
			s.deadAt = until
			for _, c := range s.running {
				c.renew(until)
			}
		}
	}
	for _, no := range p.answer.Refused {
		if c := s.running[no.Token]; c != nil && no.Code != "invalid" { // somebody else may have the run
			c.asked = true
			c.signal(syscall.SIGKILL)
		}
	}
	for _, token := range p.answer.Kill {
		if c := s.running[token]; c != nil && !c.asked {
			c.asked = true
			c.stop(c.run.GraceMs)
		}
	}
	for _, run := range p.answer.Runs {
		if run.Token > s.after {
			s.after = run.Token
			s.begin(ctx, run)
		}
	}
}

// refused does what is to be done when no node takes a report: the run has failed by that, and no other one. What says
// no end can be left out.
func (s *session) refused(sent report, why string) {
	if s.reports[sent.Token].Outcome != sent.Outcome {
		return // it has ended since
	}
	delete(s.reports, sent.Token)
	if sent.Outcome != "" && !strings.HasPrefix(sent.Error, refused) {
		s.reports[sent.Token] = report{Token: sent.Token, Outcome: "failed", Error: clip(refused + why)}
	}
}

func (s *session) begin(ctx context.Context, run Run) {
	if run.Broken != "" {
		s.reports[run.Token] = report{Token: run.Token, Outcome: "failed", Error: run.Broken}
		return
	}
	if s.deadAt-bootMs() < s.killBefore { // with K taken off already: less than twice K is left
		s.reports[run.Token] = report{Token: run.Token, Outcome: "not_begun"}
		return
	}
	c, err := start(run, s.deadAt)
	if err != nil {
		s.reports[run.Token] = report{Token: run.Token, Outcome: "not_begun", Error: clip(err.Error())}
		return
	}
	s.running[run.Token] = c
	s.reports[run.Token] = report{Token: run.Token, StartedAtMs: c.startedAt}
	go func() {
		over, printed := make(chan struct{}), make(chan any, 1)
		go func() { printed <- s.send(ctx, run.Token, c.output, over) }()
		made := c.wait()
		close(over)
		made.Output = <-printed
		c.close()
		s.ended <- made
	}()
}

// killAll returns when nothing of the session runs any more.
func (s *session) killAll() {
	for _, c := range s.running {
		c.signal(syscall.SIGKILL)
	}
	for len(s.running) > 0 {
		delete(s.running, (<-s.ended).Token)
	}
}

// close hands the session back. Without it the cluster waits for the end of the lease.
func (s *session) close() {
	for bootMs() < s.deadAt {
		_, err := s.post(context.Background(), s.path+"/close", s.secret, map[string][]int64{"ran": {}}, nil, 2*time.Second)
		var no refusal
		if err == nil || errors.As(err, &no) && no.status < 500 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}
