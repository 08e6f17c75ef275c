// go_ratelimit_files writes and reads files as go-ratelimit does, with the modules that it uses for
// them: gopkg.in/yaml.v3 and modernc.org/sqlite. ../go_ratelimit_files_test.cpp compares what they
// have with what Sluicegate reads and writes.
//
//	go_ratelimit_files write SEED FOLDER   FOLDER/state.yaml, state.db, crashed.db with a log, and
//	                                       expected.json with what they have
//	go_ratelimit_files read FILE           prints what FILE has as JSON
//
// The library's own code is not here: it has another license.
package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"gopkg.in/yaml.v3"
	_ "modernc.org/sqlite"
)

type quota struct {
	MaxRPM int `yaml:"max_rpm" json:"max_rpm"`
	MaxTPM int `yaml:"max_tpm" json:"max_tpm"`
	MaxRPD int `yaml:"max_rpd" json:"max_rpd"`
}

type tokens struct {
	Time  time.Time `yaml:"time"`
	Count int       `yaml:"count"`
}

type usage struct {
	Requests []time.Time `yaml:"requests"`
	Tokens   []tokens    `yaml:"tokens"`
	DayStart time.Time   `yaml:"day_start"`
	DayCount int         `yaml:"day_count"`
}

type file struct {
	Quotas map[string]quota  `yaml:"quotas"`
	State  map[string]*usage `yaml:"state"`
}

// ---- as JSON, for the test ---------------------------------------------------------------------

type shownUsage struct {
	Requests []int64    `json:"requests"`
	Tokens   [][2]int64 `json:"tokens"`
	DayStart *int64     `json:"day_start"`
	DayCount int        `json:"day_count"`
}

func shown(f file) any {
	state := map[string]shownUsage{}
	for name, u := range f.State {
		s := shownUsage{Requests: []int64{}, Tokens: [][2]int64{}, DayCount: u.DayCount}
		for _, t := range u.Requests {
			s.Requests = append(s.Requests, t.UnixNano())
		}
		for _, t := range u.Tokens {
			s.Tokens = append(s.Tokens, [2]int64{t.Time.UnixNano(), int64(t.Count)})
		}
		// The second is what the zero time is after it was in a database.
		if !u.DayStart.IsZero() && u.DayStart.UnixNano() != (time.Time{}).UnixNano() {
			ns := u.DayStart.UnixNano()
			s.DayStart = &ns
		}
		state[name] = s
	}
	return map[string]any{"quotas": f.Quotas, "state": state}
}

// ---- made up -----------------------------------------------------------------------------------

var names = []string{"gpt-4o", "models/gemini-2.5-pro", "", "null", "~", "true", "123", "1e3", "0x1F",
	"2026-02-19", "2026-02-19T10:00:00Z", "<<", "a: b", "- a", "# a", "{a}", "'", "\"", "\\", " ",
	"a\nb\n", "\t", "\x00\x01", "\u00e4\u20ac\U0001F600", "=", "no", "-", "?", "a very long name of a model that does " +
		"not fit into what the library takes for a simple key of a map, because it has more than 128 characters"}

var zones = []*time.Location{time.UTC, time.FixedZone("", 3_600), time.FixedZone("", -12_600),
	time.FixedZone("", 20_700)}

func number(dice *rand.Rand) int {
	if dice.Intn(10) == 0 {
		return math.MaxInt64
	}
	return int(dice.Int63() >> dice.Intn(63))
}

// Between 1970 and 2262, with more or fewer digits behind the second.
func moment(dice *rand.Rand) time.Time {
	unit := int64(math.Pow10(dice.Intn(10)))
	return time.Unix(0, dice.Int63()/unit*unit).In(zones[dice.Intn(len(zones))])
}

func madeUp(dice *rand.Rand) file {
	f := file{Quotas: map[string]quota{}, State: map[string]*usage{}}
	for i := dice.Intn(len(names)); i > 0; i-- {
		f.Quotas[names[dice.Intn(len(names))]] = quota{number(dice), number(dice), number(dice)}
	}
	for i := dice.Intn(len(names)); i > 0; i-- {
		u := &usage{DayCount: number(dice)}
		if dice.Intn(4) > 0 {
			u.DayStart = moment(dice)
		}
		for k := dice.Intn(30); k > 0; k-- {
			at := moment(dice)
			u.Requests = append(u.Requests, at)
			u.Tokens = append(u.Tokens, tokens{at, number(dice)})
		}
		f.State[names[dice.Intn(len(names))]] = u
	}
	return f
}

// ---- databases ---------------------------------------------------------------------------------

// As the library opens one, whether it is there or not.
func open(path string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	for _, statement := range []string{
		"PRAGMA journal_mode=WAL",
		"PRAGMA busy_timeout=5000",
		"CREATE TABLE IF NOT EXISTS quotas (model TEXT PRIMARY KEY, max_rpm INTEGER NOT NULL DEFAULT 0, " +
			"max_tpm INTEGER NOT NULL DEFAULT 0, max_rpd INTEGER NOT NULL DEFAULT 0)",
		"CREATE TABLE IF NOT EXISTS requests (model TEXT NOT NULL, ts INTEGER NOT NULL)",
		"CREATE TABLE IF NOT EXISTS tokens (model TEXT NOT NULL, ts INTEGER NOT NULL, count INTEGER NOT NULL)",
		"CREATE TABLE IF NOT EXISTS daily (model TEXT PRIMARY KEY, day_start INTEGER NOT NULL, " +
			"day_count INTEGER NOT NULL DEFAULT 0)",
		"CREATE INDEX IF NOT EXISTS idx_requests_model_ts ON requests(model, ts)",
		"CREATE INDEX IF NOT EXISTS idx_tokens_model_ts ON tokens(model, ts)",
	} {
		if _, err := db.Exec(statement); err != nil {
			return nil, fmt.Errorf("%s: %w", statement, err)
		}
	}
	return db, nil
}

type inserts struct {
	tx  *sql.Tx
	err error
}

func (i *inserts) run(statement string, values ...any) {
	if i.err == nil {
		_, i.err = i.tx.Exec(statement, values...)
	}
}

// In place of all that the database has.
func save(db *sql.DB, f file) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	in := inserts{tx: tx}
	for _, table := range []string{"quotas", "requests", "tokens", "daily"} {
		in.run("DELETE FROM " + table)
	}
	for name, q := range f.Quotas {
		in.run("INSERT INTO quotas VALUES (?, ?, ?, ?)", name, q.MaxRPM, q.MaxTPM, q.MaxRPD)
	}
	for name, u := range f.State {
		for _, t := range u.Requests {
			in.run("INSERT INTO requests VALUES (?, ?)", name, t.UnixNano())
		}
		for _, t := range u.Tokens {
			in.run("INSERT INTO tokens VALUES (?, ?, ?)", name, t.Time.UnixNano(), t.Count)
		}
		in.run("INSERT INTO daily VALUES (?, ?, ?)", name, u.DayStart.UnixNano(), u.DayCount)
	}
	if in.err != nil {
		return in.err
	}
	return tx.Commit()
}

func each(db *sql.DB, query string, targets []any, take func()) error {
	rows, err := db.Query(query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		take()
	}
	return rows.Err()
}

func load(db *sql.DB) (file, error) {
	f := file{Quotas: map[string]quota{}, State: map[string]*usage{}}
	of := func(name string) *usage {
		if f.State[name] == nil {
			f.State[name] = &usage{}
		}
		return f.State[name]
	}
	var name string
	var q quota
	var at int64
	var count int
	if err := each(db, "SELECT model, max_rpm, max_tpm, max_rpd FROM quotas",
		[]any{&name, &q.MaxRPM, &q.MaxTPM, &q.MaxRPD}, func() { f.Quotas[name] = q }); err != nil {
		return f, err
	}
	if err := each(db, "SELECT model, day_start, day_count FROM daily", []any{&name, &at, &count}, func() {
		of(name).DayStart, of(name).DayCount = time.Unix(0, at), count
	}); err != nil {
		return f, err
	}
	if err := each(db, "SELECT model, ts FROM requests ORDER BY ts", []any{&name, &at}, func() {
		of(name).Requests = append(of(name).Requests, time.Unix(0, at))
	}); err != nil {
		return f, err
	}
	return f, each(db, "SELECT model, ts, count FROM tokens ORDER BY ts", []any{&name, &at, &count}, func() {
		of(name).Tokens = append(of(name).Tokens, tokens{time.Unix(0, at), count})
	})
}

// ---- commands ----------------------------------------------------------------------------------

func copyFile(from, to string) error {
	bytes, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, bytes, 0o644)
}

// The second time there is something to replace, and the log of a crash has part of it.
func writeDatabases(folder string, f, before file) error {
	path := filepath.Join(folder, "state.db")
	db, err := open(path)
	if err != nil {
		return err
	}
	for _, content := range []file{before, f} {
		if err := save(db, content); err != nil {
			return err
		}
	}
	for _, suffix := range []string{"", "-wal"} {
		if err := copyFile(path+suffix, filepath.Join(folder, "crashed.db")+suffix); err != nil {
			return err
		}
	}
	return db.Close()
}

func write(seed, folder string) error {
	number, err := strconv.ParseInt(seed, 10, 64)
	if err != nil {
		return err
	}
	dice := rand.New(rand.NewSource(number))
	f, before := madeUp(dice), madeUp(dice)
	text, err := yaml.Marshal(f)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "state.yaml"), text, 0o644); err != nil {
		return err
	}
	if err := writeDatabases(folder, f, before); err != nil {
		return err
	}
	expected, err := json.Marshal(shown(f))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "expected.json"), expected, 0o644)
}

func read(path string) (file, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return file{}, err
	}
	if !bytes.HasPrefix(text, []byte("SQLite format 3\x00")) {
		var f file
		err := yaml.Unmarshal(text, &f)
		return f, err
	}
	db, err := open(path)
	if err != nil {
		return file{}, err
	}
	defer db.Close()
	return load(db)
}

func print(path string, out io.Writer) error {
	f, err := read(path)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(shown(f))
}

func main() {
	err := fmt.Errorf("usage: go_ratelimit_files write SEED FOLDER | read FILE")
	if len(os.Args) == 4 && os.Args[1] == "write" {
		err = write(os.Args[2], os.Args[3])
	} else if len(os.Args) == 3 && os.Args[1] == "read" {
		err = print(os.Args[2], os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
