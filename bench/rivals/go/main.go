// Go's FlightRecorder in the loops of bench/src: calls, churn, snapshot; prints one line of JSON.
//
// A span is a region; its integer attribute costs a log message of its own (`span`), so the region
// alone is measured too (`region`). Churn starts goroutines, as a Go program does; they are no
// threads, so only the ratio of on to off can be compared.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/trace"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const workSteps = 68

var (
	ctx     = context.Background()
	quick   = os.Getenv("BENCH_QUICK") == "1"
	sink    uint64
	figures = map[string]any{}
)

//go:noinline
func keep(x uint64) { sink = x }

// As calls::work.
//
//go:noinline
func work(seed uint64) uint64 {
	x := seed | 1
	for i := 0; i < workSteps; i++ {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

func loopEmpty(n uint64) {
	for i := uint64(0); i < n; i++ {
		keep(i)
	}
}

func loopRegion(n uint64) {
	for i := uint64(0); i < n; i++ {
		region := trace.StartRegion(ctx, "bench")
		keep(i)
		region.End()
	}
}

// The log is requested only while a consumer listens: its text costs without that too.
func loopSpan(n uint64) {
	for i := uint64(0); i < n; i++ {
		region := trace.StartRegion(ctx, "bench")
		if trace.IsEnabled() {
			trace.Log(ctx, "rows", strconv.FormatUint(i, 10))
		}
		keep(i)
		region.End()
	}
}

func loopEvent(n uint64) {
	for i := uint64(0); i < n; i++ {
		if trace.IsEnabled() {
			trace.Log(ctx, "rows", strconv.FormatUint(i, 10))
		}
		keep(i)
	}
}

func loopWork(n uint64) {
	for i := uint64(0); i < n; i++ {
		keep(work(i))
	}
}

func loopSpanWork(n uint64) {
	for i := uint64(0); i < n; i++ {
		region := trace.StartRegion(ctx, "bench")
		if trace.IsEnabled() {
			trace.Log(ctx, "rows", strconv.FormatUint(i, 10))
		}
		keep(work(i))
		region.End()
	}
}

type loop struct {
	name string
	run  func(uint64)
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

func medians(loops []loop, turns uint64, runs int) {
	times := make([][]float64, len(loops))
	for _, l := range loops {
		l.run(turns)
	}
	for r := 0; r < runs; r++ {
		for i, l := range loops {
			begin := time.Now()
			l.run(turns)
			times[i] = append(times[i], float64(time.Since(begin))/float64(turns))
		}
	}
	for i, l := range loops {
		figures[l.name] = median(times[i])
	}
}

func recorder() *trace.FlightRecorder {
	return trace.NewFlightRecorder(trace.FlightRecorderConfig{MinAge: time.Hour, MaxBytes: 64 << 20})
}

func start() *trace.FlightRecorder {
	made := recorder()
	if err := made.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "FlightRecorder:", err)
		os.Exit(1)
	}
	return made
}

func eventsOn(threads int, turns uint64) float64 {
	var ready, done sync.WaitGroup
	ready.Add(threads)
	release := make(chan struct{})
	for t := 0; t < threads; t++ {
		done.Add(1)
		go func() {
			defer done.Done()
			runtime.LockOSThread()
			loopEvent(turns / 10)
			ready.Done()
			<-release
			loopEvent(turns)
		}()
	}
	ready.Wait()
	begin := time.Now()
	close(release)
	done.Wait()
	return float64(time.Since(begin)) / float64(turns)
}

func calls() {
	turns, runs := uint64(100_000), 5
	if quick {
		runs = 3
	}
	medians([]loop{{"empty_off", loopEmpty}, {"span_off", loopSpan}, {"event_off", loopEvent}}, turns*5, runs)
	start()
	medians([]loop{{"empty", loopEmpty}, {"span", loopSpan}, {"region", loopRegion}, {"work", loopWork},
		{"span_work", loopSpanWork}, {"event", loopEvent}}, turns, runs)
	if runtime.NumCPU() < 2 {
		return
	}
	var times [2][]float64
	for r := 0; r < runs; r++ {
		for t := range times {
			times[t] = append(times[t], eventsOn(t+1, turns))
		}
	}
	figures["event_1_thread"], figures["event_2_threads"] = median(times[0]), median(times[1])
}

func block(spawners int, length time.Duration) (float64, int64) {
	var stop atomic.Bool
	var count atomic.Int64
	var all sync.WaitGroup
	begin := time.Now()
	for s := 0; s < spawners; s++ {
		all.Add(1)
		go func() {
			defer all.Done()
			child := make(chan struct{})
			for !stop.Load() {
				go func() {
					loopEvent(3)
					child <- struct{}{}
				}()
				<-child
				count.Add(1)
			}
		}()
	}
	time.Sleep(length)
	stop.Store(true)
	all.Wait()
	return float64(count.Load()) / time.Since(begin).Seconds(), count.Load()
}

func rss() float64 {
	text, _ := os.ReadFile("/proc/self/statm")
	var size, resident float64
	fmt.Sscan(string(text), &size, &resident)
	return resident * float64(os.Getpagesize())
}

func churn() {
	length := 100 * time.Millisecond
	if quick {
		length = 40 * time.Millisecond
	}
	spawners := []int{1, 8, 64}
	var on, off [3][]float64
	var grown, total [3]float64
	block(64, length)
	var running *trace.FlightRecorder
	// As churn::ORDER.
	for _, state := range []bool{false, true, true, false, true, false, false, true} {
		if state && running == nil {
			running = start()
		} else if !state && running != nil {
			running.Stop()
			running = nil
		}
		for i, s := range spawners {
			before := rss()
			rate, count := block(s, length)
			if state {
				on[i] = append(on[i], rate)
				grown[i] += max(rss()-before, 0)
				total[i] += float64(count)
			} else {
				off[i] = append(off[i], rate)
			}
		}
	}
	for i, s := range spawners {
		figures[fmt.Sprintf("on_%d", s)] = on[i]
		figures[fmt.Sprintf("off_%d", s)] = off[i]
		figures[fmt.Sprintf("bytes_a_thread_%d", s)] = grown[i] / max(total[i], 1)
	}
}

type window struct{ gap, events atomic.Int64 }

func writer(stage *atomic.Int64, windows []window) {
	at, gap, count := int64(0), time.Duration(0), int64(0)
	last := time.Now()
	for i := uint64(0); ; i++ {
		trace.Log(ctx, "rows", strconv.FormatUint(i, 10))
		now := time.Now()
		gap, last = max(gap, now.Sub(last)), now
		count++
		if next := stage.Load(); next != at {
			told := &windows[at]
			for seen := told.gap.Load(); int64(gap) > seen && !told.gap.CompareAndSwap(seen, int64(gap)); {
				seen = told.gap.Load()
			}
			told.events.Add(count)
			if next < 0 {
				return
			}
			at, gap, count = next, 0, 0
		}
	}
}

func dumps(name string, made *trace.FlightRecorder, writers int) {
	count := 5
	if quick {
		count = 2
	}
	path := filepath.Join(os.Getenv("BENCH_OUT"), fmt.Sprintf("dump-%d", os.Getpid()))
	windows := make([]window, count*4+1)
	var stage atomic.Int64
	var all sync.WaitGroup
	for w := 0; w < writers; w++ {
		all.Add(1)
		go func() {
			defer all.Done()
			writer(&stage, windows)
		}()
	}
	time.Sleep(100 * time.Millisecond)
	var took, size, during, quiet, rate []float64
	for d := 0; d < count; d++ {
		stage.Add(1)
		begin := time.Now()
		file, err := os.Create(path)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		bytes, err := made.WriteTo(file)
		length := time.Since(begin)
		stage.Add(1)
		if err != nil {
			fmt.Fprintln(os.Stderr, "WriteTo:", err)
			os.Exit(1)
		}
		took = append(took, length.Seconds()*1e3)
		size = append(size, float64(bytes))
		file.Sync()
		file.Close()
		os.Remove(path)
		time.Sleep(30 * time.Millisecond)
		stage.Add(1)
		time.Sleep(length)
		stage.Add(1)
		time.Sleep(5 * time.Millisecond)
	}
	stage.Store(-1)
	all.Wait()
	for d := 0; d < count; d++ {
		in, out := &windows[d*4+1], &windows[d*4+3]
		during = append(during, float64(in.gap.Load())/1e3)
		quiet = append(quiet, float64(out.gap.Load())/1e3)
		rate = append(rate, float64(in.events.Load())/float64(max(out.events.Load(), 1)))
	}
	figures[name+"_dump_ms"], figures[name+"_bytes"] = took, size
	figures[name+"_gap_us"], figures[name+"_quiet_us"], figures[name+"_rate"] = during, quiet, rate
}

func snapshot() {
	made := start()
	var all sync.WaitGroup
	for c := 0; c < runtime.NumCPU(); c++ {
		all.Add(1)
		go func() {
			defer all.Done()
			// An event takes about 12 bytes here.
			loopEvent(uint64((64 << 20) / 12 / runtime.NumCPU()))
		}()
	}
	all.Wait()
	dumps("one", made, 1)
	dumps("all", made, runtime.NumCPU())
}

func main() {
	ways := map[string]func(){"calls": calls, "churn": churn, "snapshot": snapshot}
	way, known := ways[os.Args[len(os.Args)-1]]
	if !known {
		os.Exit(2)
	}
	way()
	line, err := json.Marshal(figures)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(string(line))
}
