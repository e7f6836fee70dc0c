//! Captures of many hosts, versions and days, with the truth beside.
//!
//! How it works: a fleet has a service in two versions; the newer one has a defect on every host
//! that runs it, the older one has none, and one host in ten has a defect of its own. Each host
//! leaves one capture; `truth.jsonl` has a line for each with what is wrong there. In a *renamed*
//! fleet both versions have the defect, and the newer one has other names for the program's files.
//!
//! What it promises: the same seed makes the same files. What is missing on purpose: several
//! services, hosts that call each other.

use std::path::Path;

use format::json::{texts, Object};

use crate::engine::World;
use crate::program::defects::DEFECTS;
use crate::program::draw::of_defect;
use crate::program::{Program, HOME, SECOND};
use crate::random::Random;
use crate::record::Label;

/// The first day, Unix epoch ns: 2025-11-24.
const FIRST_DAY_NS: u64 = 1_763_942_400 * SECOND;
const DAY_NS: u64 = 86_400 * SECOND;
/// Days that the captures lie in.
const DAYS: u64 = 7;
/// One host in so many has a defect of its own.
const ODD_ONES: u64 = 10;

/// Writes the captures of `hosts` hosts into `out`, and `truth.jsonl`.
pub fn write(seed: u64, hosts: u64, renamed: bool, out: &Path) -> Result<(), String> {
    let io = |path: &Path| {
        let path = path.display().to_string();
        move |error: std::io::Error| format!("{path}: {error}")
    };
    std::fs::create_dir_all(out).map_err(io(out))?;
    let mut chance = Random::of(seed, 9);
    let of_version = chance.below(DEFECTS.len() as u64) as usize;
    let mut truth = String::new();
    for host in 0..hosts {
        let is_new = chance.chance(0.4);
        let own =
            (host % ODD_ONES == ODD_ONES - 1).then(|| chance.below(DEFECTS.len() as u64) as usize);
        let defect = own.unwrap_or(of_version);
        let sick = is_new || renamed || own.is_some();
        let begun_ns = FIRST_DAY_NS + chance.below(DAYS) * DAY_NS + chance.below(DAY_NS);
        // All hosts of the fleet run the same program; what happens in it differs.
        let drawn = if own.is_some() { seed ^ (host + 1) } else { seed };
        let mut program = of_defect(drawn, &DEFECTS[defect], sick);
        program.seed = seed.wrapping_mul(0x1_0001).wrapping_add(host);
        if renamed && is_new {
            rename(&mut program);
        }
        let label = Label {
            service: "billy".to_owned(),
            host: format!("host-{host:04}"),
            version: if is_new { "2.0" } else { "1.9" }.to_owned(),
            epoch_ns: begun_ns,
        };
        let mut world = World::new(&program, chance.chance(0.5));
        world.run();
        let path = out.join(format!("{}.dashcam", label.host));
        let bytes = world.capture_as(&label).map_err(io(&path))?;
        std::fs::write(&path, bytes).map_err(io(&path))?;
        let answer = &program.answer;
        let line = Object::new()
            .text("file", &format!("{}.dashcam", label.host))
            .text("version", &label.version)
            .int("start_epoch_ns", label.epoch_ns)
            .text("defect", if sick { &program.defect } else { "" })
            .text("cause", &answer.cause)
            .raw("places", &texts(answer.places.iter().map(String::as_str)))
            .raw("culprits", &texts(answer.culprits.iter().map(String::as_str)))
            .finish();
        truth.push_str(&line);
        truth.push('\n');
    }
    let path = out.join("truth.jsonl");
    std::fs::write(&path, truth).map_err(io(&path))
}

/// Gives the program's own files other names.
fn rename(program: &mut Program) {
    for function in &mut program.functions {
        if let Some(stem) = function.file.strip_suffix(".py").filter(|f| f.starts_with(HOME)) {
            function.file = format!("{stem}_renamed.py");
        }
    }
}
