use super::*;
use crate::pack::Out;

fn queue(most_bytes: usize) -> Queue {
    Queue::new("test".into(), most_bytes, 100)
}

fn packer(lines: &[&str]) -> Packer {
    let mut packer = Packer::new(100);
    lines.iter().for_each(|line| packer.unit(line));
    packer
}

fn take(queue: &mut Queue) -> (u64, String) {
    let (number, bytes) = queue.take().expect("something waits");
    (number, String::from_utf8(bytes).expect("text"))
}

/// A line of 90 bytes: no two share a packet.
fn long(letter: &str) -> String {
    letter.repeat(90)
}

#[test]
fn lines_join_the_last_packet_unless_it_is_being_sent() {
    let mut queue = queue(10_000);
    assert!(queue.push_line("a:1|c"));
    assert!(queue.push_line("b:1|c"));
    let (number, text) = take(&mut queue);
    assert_eq!(text, "a:1|c\nb:1|c");
    assert!(queue.push_line("c:1|c"));
    queue.push(packer(&["d:1|c"]), 0);
    assert!(queue.take().is_none(), "one at a time");
    assert!(queue.books().adds_up());
    queue.sent(number, true);
    assert_eq!(take(&mut queue).1, "c:1|c\nd:1|c");
    let books = queue.books();
    assert_eq!(books.sent, Amount { lines: 2, packets: 1, bytes: 11 });
    assert_eq!(books.waiting, Amount { lines: 2, packets: 1, bytes: 11 });
    assert!(books.adds_up());
}

#[test]
fn the_oldest_go_when_too_much_waits_and_not_the_one_being_sent() {
    let mut queue = queue(3 * (90 + OVERHEAD));
    for letter in ["a", "b", "c"] {
        queue.push_line(&long(letter));
    }
    let (number, _) = take(&mut queue);
    queue.push_line(&long("d"));
    assert_eq!(queue.books().lost_by(Reason::QueueFull).lines, 1);
    queue.failed(Reason::NoReceiver, "gone".into());
    queue.push_line(&long("e"));
    assert_eq!(queue.books().lost_by(Reason::NoReceiver).lines, 1);
    queue.sent(number, true);
    assert_eq!(queue.books().down, None);
    assert_eq!(take(&mut queue).1, long("d"));
    assert!(queue.books().adds_up());
}

#[test]
fn a_packet_is_settled_once_by_any_thread() {
    let mut queue = queue(10_000);
    queue.push_line("a:1|c");
    let (number, _) = take(&mut queue);
    queue.drop_all(Reason::Closed);
    queue.sent(number, true);
    queue.lost(number, Reason::MessageSize);
    let books = queue.books();
    assert_eq!((books.sent.lines, books.lost().lines), (0, 1));
    assert!(books.adds_up());
    queue.push_line("b:1|c");
    queue.sent(number + 1, true);
    assert_eq!(queue.books().sent.lines, 0, "it was not taken");
}

#[test]
fn a_late_refusal_belongs_to_the_packet_before() {
    let mut queue = queue(10_000);
    queue.push_line("a:1|c");
    let (number, _) = take(&mut queue);
    queue.sent(number, false);
    assert_eq!(queue.books().sent.lines, 1);
    queue.refused_late();
    queue.refused_late();
    let books = queue.books();
    assert_eq!((books.sent.lines, books.lost_by(Reason::NoReceiver).lines), (0, 1));
    assert!(books.adds_up());
}

#[test]
fn a_closed_queue_takes_nothing_and_counts_it() {
    let mut queue = queue(10_000);
    queue.closed = true;
    assert!(!queue.push_line("a:1|c"));
    queue.push(packer(&["b:1|c", "c:1|c"]), 0);
    assert_eq!(queue.books().lost_by(Reason::Closed).lines, 3);
    assert!(queue.books().adds_up());
    assert!(queue.take().is_none());
}

#[test]
fn refused_lines_are_accounted_for() {
    let mut queue = queue(10_000);
    assert!(!queue.push_line(&"x".repeat(101)));
    let mut odd = packer(&[&"y".repeat(101)]);
    odd.refused(Reason::Invalid, 4);
    queue.push(odd, 0);
    assert_eq!(queue.books().lost_by(Reason::TooLong).lines, 2);
    assert_eq!(queue.books().lost_by(Reason::Invalid).lines, 4);
    assert!(queue.books().last_error.contains("found 101 bytes"));
    assert!(queue.books().adds_up());
}

/// The model averages in whole numbers and ends at 1 where the mean is 101.7. Ours are sums: they
/// report what happened, and what a lost packet reported is reported again.
#[test]
fn self_metrics_report_everything_once_even_if_packets_are_lost() {
    let mut queue = queue(100_000);
    let mut reported = vec![0i64; queue.books().meter_values().len()];
    for round in 0..200u64 {
        let lines: Vec<String> = (0..round % 7).map(|n| format!("m{n}:{round}|c")).collect();
        queue.push(packer(&lines.iter().map(String::as_str).collect::<Vec<_>>()), 0);
        if round % 3 == 0 {
            let mut own = Packer::new(100);
            for (meter, value) in queue.report() {
                if !own.report(&format!("own.{meter}:{value}|c"), meter, value) {
                    queue.not_reported(meter, value);
                }
            }
            queue.push(own, 0);
        }
        while let Some((number, bytes)) = queue.take() {
            // Every fifth packet cannot be sent.
            if number % 5 == 0 {
                queue.lost(number, Reason::NoReceiver);
                continue;
            }
            for line in String::from_utf8(bytes).expect("text").lines() {
                let Some((meter, value)) =
                    line.strip_prefix("own.").and_then(|l| l.split_once(':'))
                else {
                    continue;
                };
                let value = value.strip_suffix("|c").expect("a counter");
                let meter: usize = meter.parse().expect("a number");
                reported[meter] += value.parse::<i64>().expect("a number");
            }
            queue.sent(number, true);
        }
        assert!(queue.books().adds_up());
    }
    // What was reported, and what is still to be reported, is all there is.
    let rest = queue.report();
    for (meter, value) in rest {
        reported[meter] += value;
    }
    let all: Vec<i64> = queue.books().meter_values().iter().map(|v| *v as i64).collect();
    assert_eq!(reported, all);
    assert!(queue.books().lost().lines > 50 && queue.books().sent.lines > 500);
}
