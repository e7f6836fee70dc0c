//! A process's figures: one line of JSON.

use std::fmt::Write;

/// Names and numbers, in order.
#[derive(Default)]
pub struct Figures(String);

impl Figures {
    fn key(&mut self, name: &str) {
        let comma = if self.0.is_empty() { "" } else { ", " };
        let _ = write!(self.0, "{comma}\"{name}\": ");
    }

    /// One number; a number that is not finite is left out, since JSON cannot hold it.
    pub fn number(&mut self, name: &str, value: f64) {
        if value.is_finite() {
            self.key(name);
            let _ = write!(self.0, "{value:.4}");
        }
    }

    /// Several numbers.
    pub fn list(&mut self, name: &str, values: &[f64]) {
        self.key(name);
        let texts: Vec<String> = values.iter().map(|v| format!("{v:.4}")).collect();
        let _ = write!(self.0, "[{}]", texts.join(", "));
    }

    /// Prints the line.
    pub fn print(&self) {
        println!("{{{}}}", self.0);
    }
}
