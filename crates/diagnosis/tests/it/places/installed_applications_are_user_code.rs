//! On captures made by hand: a product whose code lies among the installed packages, started by a
//! console script.

use capture::read::Capture;
use diagnosis::{diagnose, Diagnosis};
use format::record::TARGET_IS_NAME;
use format::wait::WaitKind::{Sleep, SocketRead};
use made::{also_seen, off, seen, stack, BEGIN, MS};
use report::to_text;

use crate::made;

const OWN: u32 = 7;
const SCRIPT: (&str, &str, u32) = ("<module>", "/venv/bin/gunicorn", 10);
const SERVES: (&str, &str, u32) = ("run", "/venv/lib/site-packages/gunicorn/app/base.py", 5);
const VIEW: (&str, &str, u32) = ("price", "/venv/lib/site-packages/stockroom/views.py", 41);
const CLIENT: (&str, &str, u32) = ("recv", "/venv/lib/site-packages/urllib3/response.py", 9);
const PEER: &str = "tcp 10.0.0.7:80";

fn waits(frames: &[(&str, &str, u32)], in_peer: bool, application: &str) -> Capture {
    let mut made = made::capture(OWN, &["GET /"]);
    made.meta.stdlib = vec!["/venv/lib".to_owned()];
    made.meta.site = vec!["/venv/lib/site-packages".to_owned()];
    made.meta.application =
        Some(application.to_owned()).filter(|of| !of.is_empty()).into_iter().collect();
    made.requests.push(made::request(99, OWN, BEGIN, 500));
    let code = stack(&mut made, frames);
    made.names.push(PEER.to_owned());
    let target = TARGET_IS_NAME | (made.names.len() as u64 - 1);
    off(&mut made, OWN, &[(0, 499)]);
    seen(&mut made, OWN, &[]);
    let wait = if in_peer { SocketRead } else { Sleep };
    also_seen(&mut made, OWN, (5..495).step_by(10), wait, code);
    made.samples.get_mut(&OWN).into_iter().flatten().for_each(|look| look.target = target);
    made
}

fn judge(made: &Capture) -> Diagnosis<'_> {
    diagnose(made, |_| 100 * MS)
}

fn place(verdict: &Diagnosis<'_>) -> String {
    verdict.findings[0].place.as_ref().map(|place| place.short()).unwrap_or_default()
}

#[test]
fn what_the_server_called_is_the_users_code() {
    for application in ["stockroom", "stockroom/views"] {
        let folder = format!("/venv/lib/site-packages/{application}");
        let made = waits(&[SCRIPT, SERVES, VIEW, CLIENT], true, &folder);
        let verdict = judge(&made);
        assert_eq!(place(&verdict), "views.py:41 price()", "{}", to_text(&verdict));
        assert_eq!(verdict.findings[0].target().as_deref(), Some(PEER));
    }
}

#[test]
fn a_console_script_is_no_place_and_a_client_librarys_socket_is_not_the_clients() {
    let made = waits(&[SCRIPT, SERVES, VIEW, CLIENT], true, "");
    let verdict = judge(&made);
    assert_ne!(place(&verdict), "gunicorn:10 <module>()", "{}", to_text(&verdict));
    assert_eq!(verdict.findings[0].target().as_deref(), Some(PEER), "{}", to_text(&verdict));
}

#[test]
fn a_script_with_functions_of_its_own_is_the_users() {
    let own = ("work", SCRIPT.1, 12);
    let verdict_of = |frames: &[(&str, &str, u32)]| place(&judge(&waits(frames, false, "")));
    assert_eq!(verdict_of(&[SCRIPT, own]), "gunicorn:12 work()");
    assert_eq!(verdict_of(&[("<module>", "/srv/bin/serve", 3)]), "serve:3 <module>()");
}
