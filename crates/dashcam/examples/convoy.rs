//! A small service with a lock convoy: every so often the thread that refreshes the prices holds
//! their lock for 300 ms, and requests wait. Run it, then ask why:
//!
//! ```text
//! cargo run --example convoy && cargo run -p dashcam-cli -- why captures
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};

struct Shop {
    prices: Mutex<Vec<u64>>,
    closed: AtomicBool,
}

fn checkout(shop: &Shop, user: usize) -> u64 {
    let mut request = dashcam::request!("GET /checkout", user = user, total = dashcam::Later);
    let total = {
        let _span = dashcam::span!("price", items = 3);
        shop.prices.lock().map_or(0, |prices| prices.iter().take(3).sum())
    };
    if user % 10 == 0 {
        dashcam::event!("cart.empty", user = user);
    }
    request.set("total", total);
    std::thread::sleep(Duration::from_millis(2));
    total
}

/// The culprit: works for 300 ms with the lock in its hand.
fn refresh(shop: &Shop) {
    if let Ok(mut prices) = shop.prices.lock() {
        let _span = dashcam::span!("refresh");
        let until = Instant::now() + Duration::from_millis(300);
        while Instant::now() < until {
            prices.iter_mut().for_each(|price| *price = price.wrapping_mul(3) % 1000);
        }
    }
}

fn main() -> Result<(), dashcam::StartError> {
    dashcam::start(dashcam::Config::new().service("convoy").slow("100ms").post("200ms"))?;
    let shop = Shop { prices: Mutex::new(vec![7; 1000]), closed: AtomicBool::new(false) };
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let shop = &shop;
            scope.spawn(move || {
                dashcam::name_thread(&format!("worker {worker}"));
                let mut user = worker;
                while !shop.closed.load(Ordering::Relaxed) {
                    checkout(shop, user);
                    user += 4;
                }
            });
        }
        dashcam::name_thread("refresher");
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(700));
            refresh(&shop);
        }
        std::thread::sleep(Duration::from_millis(700));
        shop.closed.store(true, Ordering::Relaxed);
    });
    println!("{}", dashcam::status_json());
    dashcam::before_exit();
    Ok(())
}
