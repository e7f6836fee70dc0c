//! The program of docs/guide/rust.md; a test holds the two together.

fn main() -> Result<(), dashcam::StartError> {
    dashcam::start(dashcam::Config::new().service("billy").slow("500ms, checkout>250ms"))?;
    let mut request = dashcam::request!("GET /checkout", user = 42, rows = dashcam::Later);
    let found = {
        let _span = dashcam::span!("db.query", table = "users");
        dashcam::event!("cache.miss", key = "k1");
        3
    };
    request.set("rows", found);
    // To another thread: the request, and how long its work waited for that thread.
    let carried = dashcam::carry();
    std::thread::spawn(move || carried.run(|| dashcam::event!("resized"))).join().ok();
    // Judged here.
    drop(request);
    println!("{:?}", dashcam::snap("looked odd"));
    Ok(())
}
