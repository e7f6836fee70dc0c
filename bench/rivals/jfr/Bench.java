// JFR in the loops of bench/src: calls, churn, snapshot; prints one line of JSON.
//
// Recordings lie on disk, the last 64 MiB of them: one that lies in memory alone does not end its
// dump while somebody writes faster than it reads. Stack traces are off, since no rival takes any.

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.StringJoiner;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.function.LongConsumer;
import jdk.jfr.Event;
import jdk.jfr.Name;
import jdk.jfr.Recording;
import jdk.jfr.StackTrace;

public final class Bench {
    static final int WORK_STEPS = 68;
    static final boolean QUICK = "1".equals(System.getenv("BENCH_QUICK"));
    static final int CORES = Runtime.getRuntime().availableProcessors();
    static final StringJoiner FIGURES = new StringJoiner(", ", "{", "}");
    static long kept;

    @Name("bench.Span")
    @StackTrace(false)
    static final class Span extends Event {
        long rows;
    }

    @Name("bench.Point")
    @StackTrace(false)
    static final class Point extends Event {
        long rows;
    }

    // As calls::work.
    static long work(long seed) {
        long x = seed | 1;
        for (int i = 0; i < WORK_STEPS; i++) {
            x ^= x << 13;
            x ^= x >>> 7;
            x ^= x << 17;
        }
        return x;
    }

    // A plain field, written each turn: what the loops of spans do as well, so that it cancels out.
    static void bare(long n) {
        for (long i = 0; i < n; i++) {
            sinkPlain(i);
        }
    }

    static void sinkPlain(long value) {
        java.lang.invoke.VarHandle.releaseFence();
        kept = value;
    }

    static void span(long n) {
        for (long i = 0; i < n; i++) {
            Span span = new Span();
            span.begin();
            span.rows = i;
            sinkPlain(i);
            span.commit();
        }
    }

    static void event(long n) {
        for (long i = 0; i < n; i++) {
            Point point = new Point();
            point.rows = i;
            point.commit();
            sinkPlain(i);
        }
    }

    static void bareWork(long n) {
        for (long i = 0; i < n; i++) {
            sinkPlain(work(i));
        }
    }

    static void spanWork(long n) {
        for (long i = 0; i < n; i++) {
            Span span = new Span();
            span.begin();
            span.rows = i;
            sinkPlain(work(i));
            span.commit();
        }
    }

    record Loop(String name, LongConsumer run) {}

    static double median(double[] values) {
        double[] sorted = values.clone();
        Arrays.sort(sorted);
        return sorted[sorted.length / 2];
    }

    static void number(String name, double value) {
        FIGURES.add("\"" + name + "\": " + value);
    }

    static void list(String name, List<Double> values) {
        FIGURES.add("\"" + name + "\": " + values);
    }

    static void medians(List<Loop> loops, long turns, int runs) {
        // Long enough that the compiler has done with every loop.
        for (int warm = 0; warm < 20; warm++) {
            loops.forEach(loop -> loop.run.accept(turns));
        }
        double[][] times = new double[loops.size()][runs];
        for (int r = 0; r < runs; r++) {
            for (int l = 0; l < loops.size(); l++) {
                long begin = System.nanoTime();
                loops.get(l).run.accept(turns);
                times[l][r] = (double) (System.nanoTime() - begin) / turns;
            }
        }
        for (int l = 0; l < loops.size(); l++) {
            number(loops.get(l).name, median(times[l]));
        }
    }

    static Recording start() {
        Recording recording = new Recording();
        recording.setToDisk(true);
        recording.setMaxSize(64L << 20);
        recording.enable("bench.Span").withThreshold(Duration.ZERO).withoutStackTrace();
        recording.enable("bench.Point").withThreshold(Duration.ZERO).withoutStackTrace();
        recording.start();
        return recording;
    }

    static double eventsOn(int threads, long turns) throws InterruptedException {
        CountDownLatch ready = new CountDownLatch(threads);
        CountDownLatch release = new CountDownLatch(1);
        Thread[] running = new Thread[threads];
        for (int t = 0; t < threads; t++) {
            running[t] = new Thread(() -> {
                event(turns / 10);
                ready.countDown();
                await(release);
                event(turns);
            });
            running[t].start();
        }
        ready.await();
        long begin = System.nanoTime();
        release.countDown();
        for (Thread thread : running) {
            thread.join();
        }
        return (double) (System.nanoTime() - begin) / turns;
    }

    static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
    }

    static void calls() throws InterruptedException {
        long turns = 100_000;
        int runs = QUICK ? 3 : 5;
        medians(List.of(new Loop("empty_off", Bench::bare), new Loop("span_off", Bench::span),
            new Loop("event_off", Bench::event)), turns, runs);
        try (Recording recording = start()) {
            medians(List.of(new Loop("empty", Bench::bare), new Loop("span", Bench::span),
                new Loop("work", Bench::bareWork), new Loop("span_work", Bench::spanWork),
                new Loop("event", Bench::event)), turns, runs);
            if (CORES < 2) {
                return;
            }
            double[][] times = new double[2][runs];
            for (int r = 0; r < runs; r++) {
                for (int t = 0; t < 2; t++) {
                    times[t][r] = eventsOn(t + 1, turns * 3);
                }
            }
            number("event_1_thread", median(times[0]));
            number("event_2_threads", median(times[1]));
        }
    }

    static double[] block(int spawners, long milliseconds) throws InterruptedException {
        AtomicInteger stop = new AtomicInteger();
        AtomicLong count = new AtomicLong();
        Thread[] running = new Thread[spawners];
        long begin = System.nanoTime();
        for (int s = 0; s < spawners; s++) {
            running[s] = new Thread(() -> {
                long done = 0;
                try {
                    while (stop.get() == 0) {
                        Thread child = new Thread(() -> event(3));
                        child.start();
                        child.join();
                        done++;
                    }
                } catch (InterruptedException stopped) {
                    Thread.currentThread().interrupt();
                }
                count.addAndGet(done);
            });
            running[s].start();
        }
        Thread.sleep(milliseconds);
        stop.set(1);
        for (Thread thread : running) {
            thread.join();
        }
        double seconds = (System.nanoTime() - begin) / 1e9;
        return new double[] {count.get() / seconds, count.get()};
    }

    static double rss() throws IOException {
        return Long.parseLong(Files.readString(Path.of("/proc/self/statm")).split(" ")[1]) * 4096.0;
    }

    // As churn::ORDER.
    static final boolean[] ORDER = {false, true, true, false, true, false, false, true};

    static void churn() throws InterruptedException, IOException {
        long milliseconds = QUICK ? 40 : 100;
        int[] spawners = {1, 8, 64};
        List<List<Double>> on = new ArrayList<>();
        List<List<Double>> off = new ArrayList<>();
        double[] grown = new double[3];
        double[] total = new double[3];
        for (int s = 0; s < 3; s++) {
            on.add(new ArrayList<>());
            off.add(new ArrayList<>());
            block(64, milliseconds);
        }
        Recording recording = null;
        for (boolean state : ORDER) {
            if (state && recording == null) {
                recording = start();
                block(64, milliseconds);
            } else if (!state && recording != null) {
                recording.close();
                recording = null;
            }
            for (int s = 0; s < 3; s++) {
                double before = rss();
                double[] rate = block(spawners[s], milliseconds);
                (state ? on : off).get(s).add(rate[0]);
                if (state) {
                    grown[s] += Math.max(rss() - before, 0);
                    total[s] += rate[1];
                }
            }
        }
        for (int s = 0; s < 3; s++) {
            list("on_" + spawners[s], on.get(s));
            list("off_" + spawners[s], off.get(s));
            number("bytes_a_thread_" + spawners[s], grown[s] / Math.max(total[s], 1));
        }
    }

    static void writer(AtomicInteger stage, AtomicLongArray gaps, AtomicLongArray counts) {
        int at = 0;
        long gap = 0;
        long count = 0;
        long last = System.nanoTime();
        for (long i = 0;; i++) {
            Point point = new Point();
            point.rows = i;
            point.commit();
            long now = System.nanoTime();
            gap = Math.max(gap, now - last);
            last = now;
            count++;
            int next = stage.get();
            if (next != at) {
                gaps.accumulateAndGet(at, gap, Math::max);
                counts.addAndGet(at, count);
                if (next < 0) {
                    return;
                }
                at = next;
                gap = 0;
                count = 0;
            }
        }
    }

    static void dumps(String name, Recording recording, int writers)
            throws InterruptedException, IOException {
        int count = QUICK ? 2 : 5;
        Path path = Path.of(System.getenv("BENCH_OUT"), "dump-" + ProcessHandle.current().pid());
        AtomicInteger stage = new AtomicInteger();
        AtomicLongArray gaps = new AtomicLongArray(count * 4 + 1);
        AtomicLongArray counts = new AtomicLongArray(count * 4 + 1);
        Thread[] running = new Thread[writers];
        for (int w = 0; w < writers; w++) {
            running[w] = new Thread(() -> writer(stage, gaps, counts));
            running[w].start();
        }
        Thread.sleep(100);
        List<List<Double>> lists = new ArrayList<>();
        for (int i = 0; i < 5; i++) {
            lists.add(new ArrayList<>());
        }
        for (int d = 0; d < count; d++) {
            stage.incrementAndGet();
            long begin = System.nanoTime();
            recording.dump(path);
            long length = System.nanoTime() - begin;
            stage.incrementAndGet();
            lists.get(0).add(length / 1e6);
            lists.get(1).add((double) Files.size(path));
            Files.delete(path);
            Thread.sleep(30);
            stage.incrementAndGet();
            Thread.sleep(length / 1_000_000, (int) (length % 1_000_000));
            stage.incrementAndGet();
            Thread.sleep(5);
        }
        stage.set(-1);
        for (Thread thread : running) {
            thread.join();
        }
        for (int d = 0; d < count; d++) {
            lists.get(2).add(gaps.get(d * 4 + 1) / 1e3);
            lists.get(3).add(gaps.get(d * 4 + 3) / 1e3);
            lists.get(4).add(counts.get(d * 4 + 1) / (double) Math.max(counts.get(d * 4 + 3), 1));
        }
        String[] keys = {"dump_ms", "bytes", "gap_us", "quiet_us", "rate"};
        for (int k = 0; k < keys.length; k++) {
            list(name + "_" + keys[k], lists.get(k));
        }
    }

    static void snapshot() throws InterruptedException, IOException {
        try (Recording recording = start()) {
            Thread[] running = new Thread[CORES];
            for (int c = 0; c < CORES; c++) {
                // An event takes about 16 bytes here.
                running[c] = new Thread(() -> event((64L << 20) / 16 / CORES * 5 / 4));
                running[c].start();
            }
            for (Thread thread : running) {
                thread.join();
            }
            dumps("one", recording, 1);
            dumps("all", recording, CORES);
        }
    }

    public static void main(String[] words) throws Exception {
        switch (words.length > 0 ? words[0] : "") {
            case "calls" -> calls();
            case "churn" -> churn();
            case "snapshot" -> snapshot();
            default -> System.exit(2);
        }
        System.out.println(FIGURES);
    }
}
