//! samplers
