// SimplePIR's own code, measured by benchmarks/beside_simplepir.py, which builds it against a clone. Reads a command a line, writes JSON a line.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/ahenzinger/simplepir/pir"
)

const (
	dimension = 1 << 10 // the LWE dimension of its tests and benchmarks
	logQ      = 32
)

// peer holds a table and one prepared query.
type peer struct {
	db      *pir.Database
	params  pir.Params
	shared  pir.State
	server  pir.State
	query   pir.MsgSlice
	answers pir.SimplePIR
}

// table returns random elements modulo p; the library's MakeRandomDB is slower, with a big integer for each element.
func table(rows, bits uint64, params *pir.Params) *pir.Database {
	db := pir.SetupDB(rows, bits, params)
	db.Data = pir.MatrixNew(params.L, params.M)
	random := rand.New(rand.NewSource(7))
	for i := uint64(0); i < params.L; i++ {
		for j := uint64(0); j < params.M; j++ {
			db.Data.Set(uint64(random.Int63n(int64(params.P))), i, j)
		}
	}
	db.Data.Sub(params.P / 2)
	return db
}

func since(start time.Time) float64 { return time.Since(start).Seconds() }

// prepare makes a table of `rows` rows of `width` bytes, its hint and a query, and checks the answer.
func (s *peer) prepare(rows, width uint64) (map[string]any, error) {
	bits, asked := 8*width, rows/3
	s.params = s.answers.PickParams(rows, bits, dimension, logQ)
	s.db = table(rows, bits, &s.params)
	expected := s.db.GetElem(asked) // for a row of several elements, its last 64 bits
	start := time.Now()
	s.shared = s.answers.Init(s.db.Info, s.params)
	var hint pir.Msg
	s.server, hint = s.answers.Setup(s.db, s.shared, s.params)
	prepared := since(start)
	start = time.Now()
	secret, question := s.answers.Query(asked, s.shared, s.params, s.db.Info)
	ask := since(start)
	s.query = pir.MakeMsgSlice(question)
	runtime.GC()
	debug.SetGCPercent(-1) // as in its own benchmarks
	start = time.Now()
	answer := s.answers.Answer(s.db, s.query, s.server, s.shared, s.params)
	first := since(start)
	down := answer.Size() * logQ / 8
	start = time.Now()
	found := s.answers.Recover(asked, 0, hint, question, answer, s.shared, secret, s.params, s.db.Info)
	read := since(start)
	if found != expected {
		return nil, fmt.Errorf("the answer differs from the requested row")
	}
	return map[string]any{
		"first_s": first, "prepare_s": prepared, "ask_s": ask, "read_s": read,
		"table_bytes": rows * width, "hint_bytes": hint.Size() * logQ / 8,
		"up_bytes": s.query.Size() * logQ / 8, "down_bytes": down,
		"parameters": map[string]any{
			"dimension": s.params.N, "log_q": s.params.Logq, "deviation": s.params.Sigma, "plain_modulus": s.params.P,
			"matrix": []uint64{s.params.L, s.params.M},
		},
	}, nil
}

func (s *peer) time(calls int) map[string]any {
	times := make([]float64, calls)
	for i := range times {
		start := time.Now()
		s.answers.Answer(s.db, s.query, s.server, s.shared, s.params)
		times[i] = since(start)
	}
	runtime.GC()
	return map[string]any{"times_s": times}
}

// execute runs a command line.
func (s *peer) execute(line string) (map[string]any, error) {
	var rows, width uint64
	var calls int
	if _, err := fmt.Sscanf(line, "prepare %dx%d", &rows, &width); err == nil {
		return s.prepare(rows, width)
	}
	if _, err := fmt.Sscanf(line, "time %d", &calls); err == nil {
		return s.time(calls), nil
	}
	return nil, fmt.Errorf("unknown command %q", line)
}

func main() {
	out := os.Stdout
	os.Stdout = os.Stderr // the package prints to stdout
	side := &peer{}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		found, err := side.execute(strings.TrimSpace(lines.Text()))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		json.NewEncoder(out).Encode(found)
	}
}
